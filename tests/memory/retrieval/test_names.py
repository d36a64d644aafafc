"""Names in texts: the key a name is known by, and where a name stands in a text and where not."""

from __future__ import annotations

import time

import pytest

from memory.retrieval.names import MOST_KEY_CHARACTERS, NameIndex, name_key


@pytest.mark.req("D09")
@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("DGIA", "dgia"),
        ("ＤＧＩＡ", "DGIA"),
        ("  Maria \n Schmidt ", "maria schmidt"),
        ("DG\u200bIA", "DGIA"),
        ("数据中心", "数据中心\u00ad"),
        ("Straße 5", "STRASSE 5"),
        ("ｶﾞｲﾄﾞ", "ガイド"),
    ],
)
def test_same_name_written_otherwise_has_the_same_key(one: str, other: str) -> None:
    assert name_key(one) == name_key(other)


def test_key_of_a_name_that_grows_in_folding_fits_its_column_and_stays_apart() -> None:
    long, other = "\ufdfa" * 120, "\ufdfa" * 119 + "x"
    assert len(name_key(long)) == len(name_key(other)) == MOST_KEY_CHARACTERS
    assert name_key(long) != name_key(other)


@pytest.mark.req("D09")
@pytest.mark.parametrize(
    ("name", "text", "is_there"),
    [
        ("DGIA", "who leads dgia now?", True),
        ("DGIA", "ＤＧＩＡ的负责人是谁", True),
        ("DGIA", "the dgiaX project", False),
        ("Maria Schmidt", "Ask Maria  Schmidt, please", True),
        ("Maria Schmidt", "Maria or Schmidt", False),
        ("C++", "I like C++.", True),
        ("C++", "I like C.", False),
        ("数据中心", "我们的数据中心在哪里", True),
        ("数据中心", "数据 中心", False),
        ("上海", "一路向上。海边很美", False),
        ("王", "王，你好", True),
        ("王", "国王驾到", False),
        ("GPT4测试", "跑一下gpt4测试吧", True),
        ("", "anything", False),
    ],
)
def test_name_is_found_on_borders_in_two_scripts(name: str, text: str, is_there: bool) -> None:
    assert (NameIndex([("e", name)]).found_in(text) == {"e": [name]}) is is_there


def test_all_names_of_all_owners_are_found_in_order() -> None:
    index = NameIndex([("a", "Acme"), ("b", "Acme Cloud"), ("a", "亚克米"), ("c", "Other")])
    assert index.found_in("亚克米 means Acme Cloud") == {
        "a": ["亚克米", "Acme"],
        "b": ["Acme Cloud"],
    }


@pytest.mark.parametrize("word", ["a ", "数", "a+"])
def test_finding_stays_linear_in_a_hostile_text(word: str) -> None:
    """The longest name that a text almost spells at each place costs its length there, no more."""
    index = NameIndex((str(n), (word * n)[:120]) for n in range(1, 61))
    began = time.process_time()
    index.found_in(word * 8000)
    assert time.process_time() - began < 5
