"""Estimators and cutting: Chinese and English against the real tokenizer, cuts within budget."""

from __future__ import annotations

import gzip
import string
import unicodedata

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from memory.tokens import (
    EstimatorKind,
    TokenTableError,
    count_messages,
    encoding_name,
    estimate,
    truncate_end,
    truncate_middle,
)
from memory.tokens.encodings import load_encoding, parse_table, read_table

CHINESE = (
    "老师让我出一份数据结构的期末试卷，选择题三十分，简答题四十分，最后两道综合题要联系实际。\n"
    * 20
)
ENGLISH = (
    "The teacher asked for an exam paper on data structures: thirty points for the choice"
    " questions, forty for the short answers, and two longer problems at the end.\n"
) * 20
MIXED = (
    "把 order_service 的 timeout 调到 2500 ms，然后重新部署 staging，结果发到 #ops-alerts。\n" * 20
)
CODE = (
    "def total(rows: list[Row]) -> Decimal:\n    return sum(row.price * row.count for row in rows)\n"
    * 20
)
SAMPLES = [CHINESE, ENGLISH, MIXED, CODE]

texts = st.one_of(
    st.text(max_size=300),
    st.text(alphabet=string.ascii_letters + " \n.,", max_size=400),
    st.text(alphabet="数据结构试卷，。e\u0301\u200d👨👩🇨🇳👍🏽 1", max_size=200),
)


@pytest.mark.req("D06")
@pytest.mark.parametrize("text", SAMPLES)
def test_heuristic_for_prose_and_code_is_near_the_real_tokenizer(text: str) -> None:
    real = estimate(text, kind="tokenizer")
    assert abs(estimate(text) - real) <= 0.2 * real


@pytest.mark.req("A08")
def test_heuristic_for_chinese_counts_characters_not_words() -> None:
    """Bug report D7: four characters a token counted 59 k where there were 174 k."""
    assert estimate("数据" * 500) > 2 * len("数据" * 500) / 4


@pytest.mark.req("D06")
def test_estimators_for_the_same_text_are_three_different_ones() -> None:
    assert estimate("abcdefgh", kind="chars") == 2
    assert estimate("数据", kind="chars") == 2  # six bytes
    assert estimate("hello world", kind="tokenizer") == 2
    assert estimate("hello world") == 2


@pytest.mark.parametrize(
    ("text", "least"), [("😀" * 50, 50), ("\x01" * 400, 200), (" " * 2000, 20), ("\n" * 50, 20)]
)
def test_heuristic_for_unusual_characters_is_not_free(text: str, least: int) -> None:
    assert estimate(text) >= least


@pytest.mark.parametrize("text", ["", "\ud83d", "a\udc00b", "\x00"])
@pytest.mark.parametrize("kind", ["chars", "heuristic", "tokenizer"])
def test_estimate_of_broken_text_does_not_fail(text: str, kind: EstimatorKind) -> None:
    assert estimate(text, kind=kind) >= 0


@given(first=texts, second=texts)
def test_heuristic_of_joined_texts_is_about_the_sum(first: str, second: str) -> None:
    assert estimate(f"{first}\n{second}") <= estimate(first) + estimate(second) + 2


@pytest.mark.parametrize(
    ("model", "name"),
    [
        ("gpt-4", "cl100k_base"),
        ("gpt-4-turbo", "cl100k_base"),
        ("gpt-3.5-turbo", "cl100k_base"),
        ("openai/gpt-4", "cl100k_base"),
        ("gpt-4o-mini", "o200k_base"),
        ("gpt-4.1", "o200k_base"),
        ("qwen3:8b", "o200k_base"),
        ("", "o200k_base"),
    ],
)
def test_encoding_name_of_a_model_is_its_family(model: str, name: str) -> None:
    assert encoding_name(model) == name


@pytest.mark.parametrize(("name", "size"), [("o200k_base", 199_998), ("cl100k_base", 100_256)])
def test_table_that_is_shipped_has_its_checksum_and_is_loaded_offline(name: str, size: int) -> None:
    assert len(read_table(name)) == size
    encoding = load_encoding(name)
    assert encoding.decode(encoding.encode_ordinary(CHINESE + ENGLISH)) == CHINESE + ENGLISH


def test_table_that_was_changed_is_refused() -> None:
    with pytest.raises(TokenTableError):
        parse_table(name="o200k_base", packed=gzip.compress(b"IQ== 0\n"))


def test_table_that_nobody_ships_is_refused() -> None:
    with pytest.raises(TokenTableError):
        read_table("p50k_base")


def test_count_messages_of_a_request_adds_the_framing() -> None:
    bare = estimate("You help.") + estimate("你好")
    assert count_messages([("system", "You help."), ("user", "你好")]) == bare + 11


@pytest.mark.req("A08")
@settings(max_examples=300)
@given(
    text=texts,
    budget=st.integers(-2, 60),
    mark=st.sampled_from(["", "…", "…（中间略去）…", " [cut] "]),
)
def test_truncate_middle_of_anything_stays_within_budget(text: str, budget: int, mark: str) -> None:
    cut = truncate_middle(text, max_tokens=budget, mark=mark)
    assert estimate(cut) <= max(budget, 0)
    if budget > 0 and estimate(text) <= budget:
        assert cut == text


@settings(max_examples=300)
@given(text=texts, budget=st.integers(0, 60))
def test_truncate_end_of_anything_is_a_beginning_within_budget(text: str, budget: int) -> None:
    cut = truncate_end(text, max_tokens=budget)
    assert estimate(cut) <= budget
    assert text.startswith(cut.removesuffix("…")) or cut == text


@pytest.mark.parametrize("text", SAMPLES)
def test_truncate_middle_of_long_text_keeps_both_ends_and_uses_the_budget(text: str) -> None:
    cut = truncate_middle(text, max_tokens=100, mark="…✂…")
    head, _, tail = cut.partition("…✂…")
    assert text.startswith(head)
    assert text.endswith(tail)
    assert abs(len(head) - len(tail)) <= 2
    assert 90 <= estimate(cut) <= 100


def test_truncate_end_by_the_tokenizer_stays_within_its_budget() -> None:
    cut = truncate_end(CHINESE, max_tokens=50, kind="tokenizer")
    assert 40 <= estimate(cut, kind="tokenizer") <= 50


@pytest.mark.parametrize(
    "unit", ["👨\u200d👩\u200d👧", "e\u0301", "🇨🇳", "👍🏽", "❤\ufe0f", "\ud83d\ude00"]
)
def test_truncation_between_joined_characters_splits_none(unit: str) -> None:
    for budget in range(1, 12):
        cut = truncate_middle(unit * 12, max_tokens=budget, mark="|")
        for piece in cut.split("|"):
            assert piece == unit * (len(piece) // len(unit))
        end = truncate_end(unit * 12, max_tokens=budget, mark="")
        assert not end or not unicodedata.combining(unit[0])
        assert end == unit * (len(end) // len(unit))


def test_truncation_with_a_mark_that_does_not_fit_leaves_the_mark_out() -> None:
    cut = truncate_middle(ENGLISH, max_tokens=3, mark="a mark that is far too long to fit in there")
    assert cut
    assert ENGLISH.startswith(cut)


@pytest.mark.timeout(20)
def test_truncation_of_a_megabyte_ends() -> None:
    assert estimate(truncate_middle(CHINESE * 1000, max_tokens=1200, mark="…")) <= 1200
    assert truncate_middle(" " * 1_000_000, max_tokens=10, mark="…")
