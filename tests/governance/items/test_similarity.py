"""The guard against keys that drift: what it finds close, measured on labelled pairs."""

from __future__ import annotations

from typing import Any, Final

import pytest

from governance.items import meaning
from governance.items.names import count_otherwise, folded_name, name_likeness
from governance.items.similarity import Named, key_and_title, similar_keys
from governance.policy_rules import RULES
from tests.governance.items.pairs import DIFFERENT, SIMILAR, Pair

LEAST: Final = float(str(RULES["similar_key"].default))
# They may only rise. The thresholds were set on these very pairs.
LEAST_PRECISION: Final = 1.0
LEAST_RECALL: Final = 0.83
# What letters alone can tell: of a pair across scripts nothing.
LEAST_RECALL_BY_LETTERS: Final = 0.3


def is_close(pair: Pair, *, by_meaning: bool = True) -> bool:
    (key, title), (other_key, other_title) = pair
    found = similar_keys(
        new=Named(key=key, title=title),
        existing=[Named(key=other_key, title=other_title)],
        least=LEAST,
        by_meaning=by_meaning,
    )
    return bool(found)


def test_labels_are_balanced_and_once_each() -> None:
    assert len(SIMILAR) == len(DIFFERENT) == len({*SIMILAR, *DIFFERENT}) // 2 >= 30


@pytest.mark.req("C04")
def test_precision_and_recall_on_labelled_pairs_only_rise() -> None:
    found = sum(is_close(pair) for pair in SIMILAR)
    wrong = [pair for pair in DIFFERENT if is_close(pair)]
    assert found / max(found + len(wrong), 1) >= LEAST_PRECISION, wrong
    assert found / len(SIMILAR) >= LEAST_RECALL


@pytest.mark.req("C04")
def test_closeness_does_not_depend_on_which_came_first() -> None:
    for pair in (*SIMILAR, *DIFFERENT):
        assert is_close(pair) == is_close((pair[1], pair[0])), pair


@pytest.mark.req("C04")
def test_without_the_model_names_alone_decide(settings: Any, monkeypatch: Any) -> None:
    settings.CREDENCE_EMBEDDING_MODEL = "none"
    monkeypatch.setattr(meaning, "_kept", type(meaning._kept)())
    found = [is_close(pair) for pair in SIMILAR]
    assert sum(found) / len(SIMILAR) >= LEAST_RECALL_BY_LETTERS
    assert found == [is_close(pair, by_meaning=False) for pair in SIMILAR]
    assert not any(is_close(pair) for pair in DIFFERENT)
    assert is_close((("standard_japan", "标日学习"), ("standard_japanese", "Standard Japanese")))


@pytest.mark.req("C04")
def test_closest_key_comes_first_and_the_same_key_is_no_neighbour() -> None:
    existing = [
        Named(key="travel_plans", title="Trips"),
        Named(key="travel_plan_list", title="旅行计划"),
        Named(key="diet", title="饮食"),
        Named(key="travel_plan", title="Travel plan"),
    ]
    found = similar_keys(
        new=Named(key="travel_plan", title="Travel plan"), existing=existing, least=LEAST
    )
    assert {one.key for one in found} == {"travel_plans", "travel_plan_list"}
    scores = [one.score for one in found]
    assert scores == sorted(scores, reverse=True)
    assert all(LEAST <= score <= 1 for score in scores)


@pytest.mark.parametrize(
    ("first", "second", "is_same"),
    [
        ("standard_japan", "standard_japanese", True),
        ("StandardJapanese", "standard japanese", True),
        ("travel_plan", "plan_of_travel", True),
        ("weekly_report", "daily_report", False),
        ("mother_birthday", "father_birthday", False),
        ("ａｂｃｄ", "abcd", True),
        ("a", "b", False),
        ("", "a", False),
    ],
)
def test_names_are_compared_word_by_word(first: str, second: str, is_same: bool) -> None:
    likeness = name_likeness(folded_name(first), folded_name(second))
    assert (likeness >= LEAST) is is_same
    assert 0 <= likeness <= 1


@pytest.mark.parametrize(
    ("first", "second", "is_other"),
    [
        ("chapter 3", "chapter 4", True),
        ("chapter 3", "第 三 章", False),
        ("chapter 03", "chapter 3", False),
        ("customer a", "customer b", True),
        ("客户甲", "客户乙", True),
        ("a plan", "plan", False),
    ],
)
def test_other_numbers_and_labels_are_other_things(first: str, second: str, is_other: bool) -> None:
    assert count_otherwise(first, second) is is_other
    assert count_otherwise(second, first) is is_other


def test_names_of_an_item_are_kept_within_their_column() -> None:
    assert key_and_title(key="standard_japan", title="标日学习") == "standard japan\n标日学习"
    assert len(key_and_title(key="k" * 64, title="ﷺ" * 200)) <= 600
