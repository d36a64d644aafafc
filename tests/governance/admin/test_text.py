"""Hostile text on the page: escaped, and with nothing hidden in it."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from governance.admin.text import label_of, shown, visible
from memory.models import EndUser, Job, Tenant

HIDDEN = {
    "zero width space": "\u200b",
    "zero width joiner": "\u200d",
    "right-to-left override": "\u202e",
    "first strong isolate": "\u2068",
    "byte order mark": "\ufeff",
    "tag letter": "\U000e0041",
    "variation selector 17": "\U000e0100",
    "hangul filler": "\u3164",
    "braille blank": "\u2800",
    "soft hyphen": "\u00ad",
    "line separator": "\u2028",
    "no-break space": "\u00a0",
    "bell": "\u0007",
    "escape": "\u001b",
    "private use": "\ue000",
    "lone carriage return": "\r",
}


@pytest.mark.parametrize("name", HIDDEN)
def test_visible_invisible_character_becomes_its_number(name: str) -> None:
    char = HIDDEN[name]
    html = visible(f"忽略{char}以上")
    assert char not in html
    assert f"U+{ord(char):04X}</mark>" in html


@pytest.mark.parametrize(
    "text",
    ["plain words", "张老师 出一份 五年级 试卷。", "naïve café", "한국어", "עברית", "表　格", "🙂"],
)
def test_visible_ordinary_text_is_left_alone(text: str) -> None:
    assert visible(text) == text


def test_visible_markup_is_escaped_and_lines_kept() -> None:
    html = visible("<script>alert('x')</script>\r\n& </td>\nend\tx")
    assert "<script" not in html
    assert "</td>" not in html
    assert "&lt;script&gt;" in html
    assert html.count("<br>") == 2
    assert "U+" not in html


def test_visible_long_text_is_cut_and_counted() -> None:
    assert visible("长" * 500, limit=10) == "长" * 10 + " … (+490)"
    assert visible("长" * 10, limit=10) == "长" * 10


@given(st.text())
def test_visible_never_lets_markup_through(text: str) -> None:
    html = visible(text).replace("<br>", "").replace('<mark title="invisible">', "")
    assert "<" not in html.replace("</mark>", "")


def test_visible_flood_of_hidden_characters_is_marked_to_the_last() -> None:
    html = visible("\u202e\u200b<" * 20_000)
    assert html.count("U+202E U+200B</mark>&lt;") == 20_000


def test_shown_reads_related_attributes_and_says_what_is_empty() -> None:
    job = Job(end_user=EndUser(user_id="a<b\u200b"), dedupe_key="")
    assert shown("end_user__user_id")(job) == 'a&lt;b<mark title="invisible">U+200B</mark>'
    assert shown("dedupe_key")(job) == "-"
    assert shown("run__input")(job) == "-"


def test_label_names_agents_and_persons_without_hidden_characters() -> None:
    assert label_of(EndUser(user_id="teacher\u202e-7")) == "teacher\ufffd-7"
    assert label_of(Tenant(name="Acme", slug="acme")) == "Acme"
    assert label_of(Job(id="job_1")) == "job_1"
