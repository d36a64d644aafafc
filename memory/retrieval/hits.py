"""Hits out of the rows that were found: scored, ordered, near-duplicates collapsed."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from datetime import timedelta

from memory.retrieval.duplicates import duplicate_key, pieces_of, without_duplicates
from memory.retrieval.found_rows import FoundRow
from memory.retrieval.results import Hit, RecallQuery, Scores
from memory.retrieval.scoring import credence, frequency, half_life_of, recency, weighted


def hit_of(
    row: FoundRow, *, relevance: float, parts: Mapping[str, float], query: RecallQuery
) -> Hit:
    """Return a hit with its four scores and their weighted sum."""
    settings = query.settings
    age = query.now - row.said_at
    scores = Scores(
        relevance=relevance,
        recency=recency(
            age_seconds=age.total_seconds(), half_life_days=half_life_of(row.kind, settings)
        ),
        credence=credence(tier=row.tier, confidence=row.confidence, by_tier=settings.credence),
        frequency=frequency(uses=row.uses),
    )
    fresh_days = settings.freshness_days.get(row.kind)
    return Hit(
        id=row.id,
        entry_id=row.entry_id,
        kind=row.kind,
        content=row.content,
        score=weighted(scores, weights=settings.weights),
        scores=scores,
        parts=parts,
        tier=row.tier,
        source=row.source,
        said_at=row.said_at,
        confidence=row.confidence,
        stale=fresh_days is not None and age > timedelta(days=fresh_days),
        title=row.title,
        thread_id=row.thread_id,
    )


def best_first(hits: Iterable[Hit]) -> list[Hit]:
    """Return hits by score, then the newest, then by id."""
    return sorted(hits, key=lambda hit: (-hit.score, -hit.said_at.timestamp(), hit.id))


def collapsed(
    hits: Sequence[Hit], *, rows: Mapping[str, FoundRow], most: int
) -> tuple[list[Hit], int]:
    """Return the best hits that each say something else, in order, and how many repeat one.

    Args:
        hits: Best first.
        most: How many are wanted.
        rows: The rows they were made of, by entry id, which know who speaks.
    """
    return without_duplicates(
        hits,
        rough=lambda hit: pieces_of(hit.content),
        key=lambda hit: duplicate_key(
            hit.content, said_at=hit.said_at, speaker=rows[hit.entry_id].speaker
        ),
        most=most,
    )
