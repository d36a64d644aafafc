"""How well a threshold tells questions with an answer from those without. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from tests.evaluation.asking import Ranked
from tests.evaluation.datasets import Question

TOP: Final = 3  # as many as a prompt gets
Found = Mapping[str, Sequence[Ranked]]


@dataclass(frozen=True, slots=True, kw_only=True)
class Point:
    """What one threshold does; all three are shares from 0 to 1.

    Attributes:
        unrelated: Questions that no memory bears on, but that get a result.
        cross_person: Questions about somebody else that get a result.
        lost: Of the recall in the first three of questions with an answer.
    """

    threshold: float
    unrelated: float
    cross_person: float
    lost: float


def curve(
    *,
    found: Found,
    answered: Sequence[Question],
    unrelated: Sequence[Question],
    cross_person: Sequence[Question],
    thresholds: Sequence[float],
) -> list[Point]:
    """Return a point for each threshold. Cost: one pass over all results a threshold."""
    headline = [one for one in answered if one.is_headline and one.gold]
    whole = _recall(found, headline, None)
    return [
        Point(
            threshold=threshold,
            unrelated=_spoken(found, unrelated, threshold),
            cross_person=_spoken(found, cross_person, threshold),
            lost=1 - _recall(found, headline, threshold) / whole if whole else 0.0,
        )
        for threshold in thresholds
    ]


def _spoken(found: Found, questions: Sequence[Question], threshold: float) -> float:
    """The share of questions that get any result."""
    loud = sum(bool(_kept(found[one.id], threshold)) for one in questions)
    return loud / len(questions) if questions else 0.0


def _recall(found: Found, questions: Sequence[Question], threshold: float | None) -> float:
    """The mean recall in the first three that pass."""
    if not questions:
        return 0.0
    shares = [
        len(one.gold & {hit.corpus_id for hit in _kept(found[one.id], threshold)[:TOP]})
        / len(one.gold)
        for one in questions
    ]
    return sum(shares) / len(shares)


def _kept(hits: Sequence[Ranked], threshold: float | None) -> list[Ranked]:
    """What is above the threshold; all without one."""
    return [hit for hit in hits if threshold is None or hit.relevance > threshold]
