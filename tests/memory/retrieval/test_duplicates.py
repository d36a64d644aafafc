"""Near-duplicates: what says the same, and what only looks like it."""

from __future__ import annotations

from datetime import timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from memory.retrieval.duplicates import duplicate_key, without_duplicates
from tests.factories import NOW

SAME = [
    ("I like tea.", "i like TEA!"),
    ("I don’t eat meat", "I do not eat meat"),
    ("She can't swim", "She cannot swim"),
    ("It costs １００ yuan", "it costs 100 yuan"),
    ("我喜欢龙井茶。", "我喜欢龙井茶"),
    ("ＧＰＴ-4 is slow", "gpt 4 is slow"),
    ("We’re   late", "we are late"),
]
OTHER = [
    ("I eat meat", "I do not eat meat"),
    ("I like tea", "I don't like tea"),
    ("It costs 15 euros", "It costs 1.5 euros"),
    ("It is -5 degrees", "It is 5 degrees"),
    ("I flew from Paris to Rome", "I flew from Rome to Paris"),
    ("You like tea.", "You like tea?"),
    ("我会去北京", "我不会去北京"),
    ("我喜欢茶", "我喜欢茶吗？"),
    ("房租是3000元", "房租是3500元"),
    ("I will move to Oslo", "I moved to Oslo"),
    ("!!!", "???"),
]


@pytest.mark.parametrize(("one", "other"), SAME)
def test_same_said_otherwise_is_a_duplicate(one: str, other: str) -> None:
    assert duplicate_key(one, said_at=NOW) == duplicate_key(other, said_at=NOW)


@pytest.mark.parametrize(("one", "other"), OTHER)
def test_other_number_negation_or_order_is_no_duplicate(one: str, other: str) -> None:
    assert duplicate_key(one, said_at=NOW) != duplicate_key(other, said_at=NOW)


@pytest.mark.parametrize("text", ["I went to the gym today", "我昨天去了健身房"])
def test_what_names_a_day_is_another_thing_on_another_day(text: str) -> None:
    later = NOW + timedelta(days=1)
    assert duplicate_key(text, said_at=NOW) != duplicate_key(text, said_at=later)
    assert duplicate_key(text, said_at=NOW) == duplicate_key(text, said_at=NOW)


def test_what_names_no_day_is_the_same_on_any() -> None:
    later = NOW + timedelta(days=40)
    assert duplicate_key("I like tea", said_at=NOW) == duplicate_key("I like tea", said_at=later)


def test_two_people_say_two_things() -> None:
    one, other = (duplicate_key("Me too", said_at=NOW, speaker=name) for name in ("Ann", "Bo"))
    assert one != other


@given(st.text(max_size=200))
def test_key_takes_any_text_and_is_stable(text: str) -> None:
    assert duplicate_key(text, said_at=NOW) == duplicate_key(text, said_at=NOW)


def test_first_of_each_is_kept_in_order() -> None:
    asked = []

    def key(item: str) -> bytes:
        asked.append(item)
        return item.lower().encode()

    def firsts(items: list[str], most: int) -> tuple[list[str], int]:
        return without_duplicates(items, rough=str.lower, key=key, most=most)

    assert firsts(["a", "b", "A", "c", "B"], 9) == (["a", "b", "c"], 2)
    asked.clear()
    assert firsts(["a", "A", "b", "c", "d"], 2) == (["a", "b"], 1)
    assert set(asked) == {"a", "A"}
    assert firsts(["a"], 0) == ([], 0)
    # Alike in the rough, and yet each says something else.
    apart = without_duplicates(["x?", "x"], rough=lambda one: one[0], key=str.encode, most=9)
    assert apart == (["x?", "x"], 0)
