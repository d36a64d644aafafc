"""Scores: bounded, and moved the right way by each of what they are made of."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from memory.retrieval.results import Scores
from memory.retrieval.scoring import (
    credence,
    first_scores,
    frequency,
    half_life_of,
    recency,
    weighted,
)
from memory.trust import TIERS
from tests.shelving import SETTINGS

shares = st.floats(0, 1)
ages = st.floats(-1e12, 1e12)
days = st.floats(0.5, 3_650)


@given(ages, days)
def test_recency_stays_a_share(age: float, half_life: float) -> None:
    assert 0 <= recency(age_seconds=age, half_life_days=half_life) <= 1


@given(ages, ages, days)
def test_recency_of_the_older_is_no_higher(one: float, other: float, half_life: float) -> None:
    young, old = sorted((one, other))
    assert recency(age_seconds=young, half_life_days=half_life) >= recency(
        age_seconds=old, half_life_days=half_life
    )


def test_recency_halves_with_each_half_life() -> None:
    assert recency(age_seconds=0, half_life_days=30) == 1
    assert recency(age_seconds=30 * 86_400, half_life_days=30) == pytest.approx(0.5)
    assert recency(age_seconds=60 * 86_400, half_life_days=30) == pytest.approx(0.25)
    assert recency(age_seconds=-5, half_life_days=30) == 1


@given(st.sampled_from([*TIERS, "unheard of"]), st.none() | shares)
def test_credence_stays_a_share(tier: str, confidence: float | None) -> None:
    assert 0 <= credence(tier=tier, confidence=confidence, by_tier=SETTINGS.credence) <= 1


@given(st.sampled_from(TIERS), shares, shares)
def test_credence_rises_with_confidence(tier: str, one: float, other: float) -> None:
    low, high = sorted((one, other))
    by_tier = SETTINGS.credence
    assert credence(tier=tier, confidence=low, by_tier=by_tier) <= credence(
        tier=tier, confidence=high, by_tier=by_tier
    )


def test_credence_of_an_unknown_tier_is_the_least() -> None:
    by_tier = SETTINGS.credence
    assert credence(tier="x", confidence=None, by_tier=by_tier) == min(by_tier.values())
    assert credence(tier="stated", confidence=None, by_tier=by_tier) == 0.8
    assert credence(tier="stated", confidence=0.5, by_tier=by_tier) == pytest.approx(0.4)


@given(st.integers(0, 10**9), st.integers(0, 10**9))
def test_frequency_is_a_share_that_rises(one: int, other: int) -> None:
    low, high = sorted((one, other))
    assert 0 <= frequency(uses=low) <= frequency(uses=high) <= 1


def test_frequency_is_full_at_a_hundred_uses() -> None:
    assert frequency(uses=0) == 0
    assert frequency(uses=100) == pytest.approx(1)
    assert frequency(uses=3) > 3 * frequency(uses=99) / 99


@given(shares, shares, shares, shares)
def test_weighted_sum_stays_between_its_least_and_its_most(
    relevance: float, recent: float, credible: float, frequent: float
) -> None:
    parts = (relevance, recent, credible, frequent)
    scores = Scores(relevance=parts[0], recency=parts[1], credence=parts[2], frequency=parts[3])
    found = weighted(scores, weights=SETTINGS.weights)
    assert min(parts) - 1e-9 <= found <= max(parts) + 1e-9


@given(st.lists(st.tuples(st.floats(0, 1, width=32), ages), min_size=1, max_size=20), days)
def test_first_scores_are_what_the_whole_sum_begins_with(
    rows: list[tuple[float, float]], half_life: float
) -> None:
    found = first_scores(
        np.array([row[0] for row in rows], dtype=np.float32),
        age_seconds=np.array([row[1] for row in rows]),
        half_life_days=np.full(len(rows), half_life),
        weights=SETTINGS.weights,
    )
    for (relevance, age), score in zip(rows, found.tolist(), strict=True):
        whole = Scores(
            relevance=relevance,
            recency=recency(age_seconds=age, half_life_days=half_life),
            credence=0,
            frequency=0,
        )
        assert score == pytest.approx(weighted(whole, weights=SETTINGS.weights), abs=1e-6)


def test_half_life_of_a_core_fact_is_an_items() -> None:
    assert half_life_of("recall", SETTINGS) == 30
    assert half_life_of("core", SETTINGS) == 180
