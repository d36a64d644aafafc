"""The score that orders what was found: relevance, recency, credence and frequency, weighted. Pure."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Final

import numpy as np
from numpy.typing import NDArray

from memory.retrieval.results import Scores, Settings

DAY_SECONDS: Final = 86_400
# Uses from which on frequency is full.
MANY_USES: Final = 100
_ANY_HALF_LIFE_DAYS: Final = 180.0


def recency(*, age_seconds: float, half_life_days: float) -> float:
    """Return 1 for now, half of it after each half-life; what lies ahead counts as now."""
    halves = max(0.0, age_seconds) / (half_life_days * DAY_SECONDS)
    return float(0.5 ** min(halves, 1_000.0))


def credence(*, tier: str, confidence: float | None, by_tier: Mapping[str, float]) -> float:
    """Return how far something may be believed: its tier's share of 1, times its confidence.

    A tier that policy does not name is believed as little as the least of those it names.
    """
    of_tier = by_tier.get(tier, min(by_tier.values(), default=0.0))
    return _share(of_tier * (1.0 if confidence is None else confidence))


def frequency(*, uses: int) -> float:
    """Return 0 for what was never used, 1 from a hundred uses on, by the logarithm between."""
    return _share(math.log1p(max(0, uses)) / math.log1p(MANY_USES))


def weighted(scores: Scores, *, weights: Mapping[str, float]) -> float:
    """Return the sum of the four, 0 to 1 for weights that sum to 1."""
    return (
        weights["relevance"] * scores.relevance
        + weights["recency"] * scores.recency
        + weights["credence"] * scores.credence
        + weights["frequency"] * scores.frequency
    )


def half_life_of(kind: str, settings: Settings) -> float:
    """Return the half-life of a kind in days; core facts live as long as items."""
    lives = settings.half_life_days
    return lives.get(kind) or lives.get("item") or _ANY_HALF_LIFE_DAYS


def first_scores(
    relevance: NDArray[np.float64],
    *,
    age_seconds: NDArray[np.float64],
    half_life_days: NDArray[np.float64],
    weights: Mapping[str, float],
) -> NDArray[np.float64]:
    """Return what is known of many scores before the rows are read: relevance and recency."""
    halves = np.minimum(np.maximum(age_seconds, 0) / (half_life_days * DAY_SECONDS), 1_000.0)
    known: NDArray[np.float64] = weights["relevance"] * relevance
    return known + weights["recency"] * np.exp2(-halves)


def _share(value: float) -> float:
    return min(1.0, max(0.0, value))
