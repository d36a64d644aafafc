"""Near-duplicates: the same said twice is found, two facts are never taken for one."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from memory.compression.dedupe import dedupe, folded, is_same, numbers_and_negations

pytestmark = pytest.mark.req("B08")


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("我喜欢喝咖啡。", "我很喜欢喝咖啡"),
        ("预算300元", "预算 ３００ 元！"),
        ("- 每周五下午三点开周会", "每周五下午三点开周会。"),
        ("Don't call me.", "do not call me"),
        ("I can't come", "I cannot come."),
        ("The users like it", "users like it"),
        ("The user prefers short reports", "the user prefers short report"),
        ("I like  Tea,\nplease", "i like tea, please!"),
        ("“好的”", "好的"),
    ],
)
def test_is_same_of_the_same_said_otherwise_holds_both_ways(one: str, other: str) -> None:
    assert is_same(one, other)
    assert is_same(other, one)
    assert dedupe([one, other]) == (0, 0)


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("预算300元", "预算500元"),
        ("第3版改好了，发给教务", "第4版改好了，发给教务"),
        ("我喜欢咖啡", "我不喜欢咖啡"),
        ("他来过北京", "他没来过北京"),
        ("I like coffee", "I never like coffee"),
        ("call me", "don't call me"),
        ("Maria Schmidt, Berlin, nurse", "Maria Schmidt, Graz, pilot"),
        ("Alice pays Bob", "Bob pays Alice"),
        ("小王给小李打电话", "小李给小王打电话"),
        ("move it from 3 to 5", "move it from 5 to 3"),
        ("Mr Adams came by", "Mr Adam came by"),
        ("it grew by 10²", "it grew by 102"),
        ("-5 degrees", "5 degrees"),
        (".5 of it", "5 of it"),
        ("it is 5%", "it is 5"),
        ("$5", "¥5"),
        ("你来吗？", "你来吗"),
        ("👍", "👎"),
        ("版本三", "版本四"),
    ],
)
def test_is_same_of_another_number_negation_name_or_order_does_not_hold(
    one: str, other: str
) -> None:
    """Bug report B7, two people merged, and its kin."""
    assert not is_same(one, other)
    assert dedupe([one, other]) == (0, 1)


def test_dedupe_of_a_bridge_does_not_join_what_it_is_like() -> None:
    """Bug report B4: similar to both, and yet both stay apart."""
    left, bridge, right = "we take care of it", "we take cares of it", "we take caress of it"
    assert is_same(left, bridge)
    assert is_same(bridge, right)
    assert not is_same(left, right)
    assert dedupe([left, bridge, right]) == (0, 0, 2)


def test_dedupe_of_texts_that_come_again_names_the_first() -> None:
    texts = ["今天下雨", "It rains", "今天下雨。", "it rains!", "今天不下雨"]
    assert dedupe(texts) == (0, 1, 0, 1, 4)
    assert dedupe([]) == ()


WORDS = st.lists(
    st.sampled_from(
        [
            "我",
            "很",
            "不",
            "没",
            "喜欢",
            "预算",
            "300元",
            "500元",
            "the ",
            "user ",
            "users ",
            "not ",
            "never ",
            "don't ",
            "likes ",
            "Adam ",
            "Adams ",
            "1",
            "2",
            ".",
            "-",
            "?",
            "，",
            "²",
            "½",
            " ",
        ]
    ),
    max_size=7,
).map("".join)
TEXTS = st.lists(st.one_of(WORDS, st.text(max_size=8)), max_size=12)


@settings(deadline=None, max_examples=100)
@given(texts=TEXTS)
def test_dedupe_of_anything_points_at_a_kept_text_that_is_the_same(texts: list[str]) -> None:
    found = dedupe(texts)
    assert len(found) == len(texts)
    for index, first in enumerate(found):
        assert found[first] == first <= index
        assert is_same(texts[first], texts[index])
        assert numbers_and_negations(texts[first]) == numbers_and_negations(texts[index])


@settings(deadline=None, max_examples=100)
@given(texts=TEXTS, number=st.integers(0, 10**6))
def test_dedupe_of_a_text_with_another_number_never_drops_it(texts: list[str], number: int) -> None:
    pairs = [f"{text} 编号 {number + at}" for at, text in enumerate(texts)]
    assert dedupe(pairs) == tuple(range(len(pairs)))


@settings(deadline=None, max_examples=100)
@given(text=st.one_of(WORDS, st.text(max_size=20)))
def test_folded_of_anything_is_idempotent(text: str) -> None:
    assert folded(folded(text)) == folded(text)
    assert is_same(text, text)
