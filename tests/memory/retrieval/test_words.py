"""Words of texts in two languages: folded, stemmed, in pairs, linear."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from memory.retrieval.words import MOST_WORDS, hash_of, message_terms, words_of


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("GPT4测试结果", ["gpt4", "测试", "试结", "结果"]),
        ("备份 和 备份", ["备份", "和", "备份"]),
        ("ＦＵＬＬ－ＷＩＤＴＨ　Words", ["full", "width", "word"]),
        ("Straße STRASSE", ["strass", "strass"]),
        ("running runs", ["run", "run"]),
        ("the of and", []),
        ("茶", ["茶"]),
        ("こんにちは 한국어", ["こん", "んに", "にち", "ちは", "한국", "국어"]),
    ],
)
def test_words_of_a_text(text: str, words: list[str]) -> None:
    assert words_of(text) == words


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("I'm Caroline's friend", "I’m Caroline’s friend"),
        ("Café", "CAFÉ"),
        ("ﬁle", "file"),
        ("Māris", "MĀRIS"),
        ("é", "e\u0301"),
    ],
)
def test_forms_of_one_text_have_the_same_words(one: str, other: str) -> None:
    assert words_of(one) == words_of(other)


@given(st.text())
def test_any_text_has_words_within_bounds(text: str) -> None:
    words = words_of(text)
    assert len(words) <= MOST_WORDS
    assert all(words)


@given(st.text())
def test_terms_of_a_message_are_signed_unique_and_sorted_as_numbers(text: str) -> None:
    terms = message_terms(text)
    assert len(set(terms)) == len(terms)
    assert all(-(2**31) <= term < 2**31 for term in terms)
    assert {term & 0xFFFFFFFF for term in terms} == {hash_of(word) for word in words_of(text)}


def test_a_million_characters_are_cut_at_the_most_words() -> None:
    assert len(words_of("数" * 1_000_000)) == MOST_WORDS
