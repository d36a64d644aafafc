"""Titles of threads."""

from __future__ import annotations

import time
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from threads.titles import TITLE_CHARS, title_of


@pytest.mark.req("A04")
@given(st.text())
def test_title_is_at_most_40_characters_on_one_line(text: Any) -> None:
    title = title_of(text)
    assert len(title) <= TITLE_CHARS == 40
    assert title == " ".join(title.split()) or title.endswith(" ")
    assert "\n" not in title


@pytest.mark.req("A04")
@pytest.mark.parametrize(
    ("text", "title"),
    [
        ("出一份数据结构试卷", "出一份数据结构试卷"),
        ("题" * 41, "题" * 40),
        ("  one\n two\t three  ", "one two three"),
        ("{user.password} {{7*7}}", "{user.password} {{7*7}}"),
        ("", ""),
    ],
)
def test_title_is_start_of_first_input(text: Any, title: Any) -> None:
    assert title_of(text) == title


def test_title_of_huge_input_looks_at_its_start_only() -> None:
    started = time.perf_counter()
    assert title_of("word " * 4_000_000) == "word " * 8
    assert time.perf_counter() - started < 1
