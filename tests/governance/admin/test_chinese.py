"""The rooms in Chinese: nothing of ours is left untranslated, and the compiled file is the text's."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest
from django.test import Client
from django.utils import translation

from governance.admin.site import site
from governance.models import CoreCandidate, EntityCandidate
from governance.policy_rules import RULES
from memory.models import BehaviourSample, CoreFact, Entity, MemoryItem
from tests import catalogue
from tests.governance.admin.learned import learn, propose_term
from tests.governance.admin.worlds import World, url_of

ROOT = Path(__file__).parents[3]
CHINESE = {"Accept-Language": "zh-CN"}
_CALLS = frozenset({"_", "_now", "gettext", "gettext_lazy"})
_TAG = re.compile(r"\{% translate (?:\"([^\"]*)\"|'([^']*)')")
_BLOCK = re.compile(r"\{% blocktranslate\b(.*?)%\}(.*?)\{% endblocktranslate", re.DOTALL)
_NAME = re.compile(r"\{\{ *(\w+) *\}\}")
_FIELD = re.compile(r"%\((\w+)\)[ds]")


def words_in_code() -> Iterator[str]:
    for folder in ("governance/admin", "threads/admin", "threads/pages"):
        for path in sorted((ROOT / folder).rglob("*.py")):
            for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
                if (
                    isinstance(node, ast.Call)
                    and isinstance(node.func, ast.Name)
                    and node.func.id in _CALLS
                    and isinstance(node.args[0], ast.Constant)
                ):
                    yield str(node.args[0].value)


def words_in_templates() -> Iterator[str]:
    for path in sorted((ROOT / "templates").rglob("*.html")):
        text = path.read_text(encoding="utf-8")
        for double, single in _TAG.findall(text):
            yield double or single
        for options, body in _BLOCK.findall(text):
            said = " ".join(body.split()) if "trimmed" in options else body
            yield _NAME.sub(r"%(\1)s", said)


def names_of_tables() -> Iterator[str]:
    for model in site._registry:
        options = model._meta
        yield str(options.verbose_name)
        yield str(options.verbose_name_plural)
        for field in options.local_fields:
            yield str(field.verbose_name)


def test_every_word_of_the_rooms_has_its_chinese() -> None:
    words = catalogue.all_words()
    with translation.override("en"):
        said = {*words_in_code(), *words_in_templates(), *names_of_tables()}
    said |= {rule.unit for rule in RULES.values() if rule.is_number}
    assert len(said) > 300
    assert sorted(said - words.keys()) == []
    assert [key for key, value in words.items() if not value] == []


def test_fields_of_a_sentence_are_those_of_its_translation() -> None:
    wrong = [
        key
        for key, value in catalogue.all_words().items()
        if set(_FIELD.findall(key)) != set(_FIELD.findall(value))
    ]
    assert wrong == []


def test_compiled_catalogue_is_that_of_the_text() -> None:
    for folder in catalogue.FOLDERS.values():
        words = catalogue.read(folder / "django.po")
        assert (folder / "django.mo").read_bytes() == catalogue.compiled(words)


@pytest.mark.req("E05")
def test_queue_and_desk_speak_chinese(beta: World, client_of_beta: Client) -> None:
    candidate, term = learn(beta, "喜欢下棋", evidence="我喜欢下棋"), propose_term(beta, "围棋")
    page = client_of_beta.get(
        url_of(CoreCandidate, f"{candidate.pk}/change/"), headers=CHINESE
    ).content.decode()
    for word in ("本人原话", "确认后会改变什么", "修改后确认", "拒绝", "理由", "置信度", "待处理"):
        assert word in page, word
    for english in ("Confirm", "Reject", "Done", "Facts much like"):
        assert english not in page, english
    listed = client_of_beta.get(url_of(CoreCandidate), headers=CHINESE).content.decode()
    assert "核心记忆候选" in listed
    assert "等待时间" in listed
    page = client_of_beta.get(
        url_of(EntityCandidate, f"{term.pk}/change/"), headers=CHINESE
    ).content.decode()
    assert "提到它的更正" in page


def test_headings_of_every_new_list_are_chinese(beta: World, client_of_beta: Client) -> None:
    head = re.compile(r'<th scope="col" class="[^"]*column-[^"]*">.*?<span>(.*?)</span>', re.DOTALL)
    for model in (CoreCandidate, CoreFact, EntityCandidate, Entity, BehaviourSample, MemoryItem):
        html = client_of_beta.get(url_of(model), headers=CHINESE).content.decode()
        named = [text.strip() for text in head.findall(html)]
        assert len(named) > 5, model
        assert [text for text in named if text.isascii()] == [], model


def test_index_names_the_rooms_in_chinese(client_of_beta: Client) -> None:
    html = client_of_beta.get("/admin/", headers=CHINESE).content.decode()
    for word in ("待决定", "术语候选", "行为样本", "记忆条目"):
        assert word in html
