"""Gates two and three: how many, and at what cost."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from memory.retrieval.gates import pass_gates
from memory.retrieval.results import Hit, Scores
from memory.tokens import estimate
from memory.trust import Source
from tests.factories import NOW


def hit(content: str, score: float = 0.5) -> Hit:
    return Hit(
        id="rec_1",
        entry_id="idx_1",
        kind="recall",
        content=content,
        score=score,
        scores=Scores(relevance=score, recency=0, credence=0, frequency=0),
        parts={},
        tier="observed",
        source=Source(kind="run"),
        said_at=NOW,
    )


def test_limit_keeps_the_best_and_counts_the_rest() -> None:
    gated = pass_gates([hit("a"), hit("b"), hit("c")], limit=2, most_tokens=None)
    assert [one.content for one in gated.hits] == ["a", "b"]
    assert (gated.top_k, gated.budget, gated.is_cut) == (1, 0, False)


def test_what_does_not_fit_makes_room_for_a_smaller_one() -> None:
    small, large = "tea", "a long story about tea " * 40
    budget = estimate(small) * 2
    gated = pass_gates([hit(small), hit(large), hit(small)], limit=3, most_tokens=budget)
    assert [one.content for one in gated.hits] == [small, small]
    assert (gated.budget, gated.is_cut) == (1, False)


@pytest.mark.parametrize("text", ["a long story about tea " * 200, "关于龙井茶的长故事" * 200])
def test_best_hit_alone_too_large_is_cut(text: str) -> None:
    gated = pass_gates([hit(text)], limit=1, most_tokens=60)
    assert gated.is_cut
    assert "…" in gated.hits[0].content
    assert 20 < gated.hits[0].tokens <= 60


def test_no_budget_shows_nothing() -> None:
    gated = pass_gates([hit("tea")], limit=1, most_tokens=0)
    assert gated.hits == ()
    assert gated.budget == 1


@given(
    st.lists(st.text(min_size=1, max_size=400), max_size=8),
    st.integers(0, 10),
    st.integers(0, 200),
)
def test_gates_hold_whatever_comes(texts: list[str], limit: int, budget: int) -> None:
    gated = pass_gates([hit(text) for text in texts], limit=limit, most_tokens=budget)
    assert len(gated.hits) <= limit
    assert sum(one.tokens for one in gated.hits) <= budget
    assert len(gated.hits) + gated.top_k + gated.budget == len(texts)
    assert all(one.tokens == estimate(one.content) for one in gated.hits)
