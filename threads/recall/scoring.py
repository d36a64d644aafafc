"""The four-dimensional score of a message, so that it stands in one order with what is remembered."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from typing import Final

from memory.retrieval.results import Scores, Settings
from threads.models import MessageRole
from threads.recall.messages import MessageHit

_SECONDS_A_DAY: Final = 86_400
_TIERS: Final = {
    MessageRole.USER.value: "stated",
    MessageRole.ASSISTANT.value: "observed",
    MessageRole.SYSTEM.value: "untrusted",
    MessageRole.TOOL.value: "untrusted",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class ScoredMessage:
    """A message with its tier and its score; nobody counts how often a message is used."""

    hit: MessageHit
    tier: str
    scores: Scores
    score: float


def score_message(*, hit: MessageHit, settings: Settings, now: datetime) -> ScoredMessage:
    """Return the score: relevance, half-life of its age, and how far its speaker is believed."""
    tier = _TIERS.get(hit.role, "untrusted")
    age_days = max((now - hit.created_at).total_seconds() / _SECONDS_A_DAY, 0.0)
    scores = Scores(
        relevance=hit.relevance,
        recency=0.5 ** (age_days / settings.half_life_days["message"]),
        credence=settings.credence[tier],
        frequency=0.0,
    )
    weights = settings.weights
    total = sum(
        weights[name] * getattr(scores, name) for name in ("relevance", "recency", "credence")
    )
    return ScoredMessage(hit=hit, tier=tier, scores=scores, score=total)
