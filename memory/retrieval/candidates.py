"""Which entries of a shelf come into question, by numbers alone: ranking, filters, gate 1."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from memory.retrieval.codes import Vector, cosines_of
from memory.retrieval.limits import TimeLimit
from memory.retrieval.nearest import nearest_cosines
from memory.retrieval.question import Question
from memory.retrieval.ranking import Floats, Ranked, rank
from memory.retrieval.records import KINDS, name_hash, session_hash
from memory.retrieval.results import (
    EMBEDDING_UNAVAILABLE,
    KEYWORD_UNAVAILABLE,
    RecallQuery,
)
from memory.retrieval.scoring import first_scores, half_life_of
from memory.retrieval.shelf_copy import ShelfCopy
from memory.retrieval.tracing import TraceBook
from memory.scope import Scope


@dataclass(frozen=True, slots=True)
class Candidate:
    """An entry above gate 1, before its row is read; `first_score` is relevance and recency."""

    entry_id: str
    kind: str
    relevance: float
    parts: Mapping[str, float]
    first_score: float


def find_candidates(
    copy: ShelfCopy,
    *,
    scope: Scope,
    query: RecallQuery,
    question: Question,
    limit: TimeLimit,
    book: TraceBook,
) -> list[Candidate]:
    """Return the best entries of one shelf above gate 1, at most two for each hit asked for, and at least 24.

    Cost: one pass of numbers over the shelf; for a big one a statement for the nearest vectors.

    Raises:
        OverTimeError: The database took too long.
    """
    cosines = _cosines(copy, scope, query, limit, book)
    ranked = _ranked(copy, question, query, cosines, book)
    book.count("vector", ranked.vector_count)
    book.count("keyword", ranked.keyword_count)
    allowed = _allowed(copy, query)
    passing = np.flatnonzero(allowed & (ranked.relevance > query.min_relevance))
    book.drop("relevance", int(allowed.sum()) - len(passing))
    best = [
        candidate
        for kinds, limit in query.groups
        for candidate in _best(
            copy, ranked, query, _of_kinds(copy, passing, kinds), most_candidates(limit)
        )
    ]
    book.drop("top_k", len(passing) - len(best))
    return best


def most_candidates(limit: int) -> int:
    """Return how many rows are read at most: credence and frequency may move what is near."""
    return max(24, 2 * limit)


def _cosines(
    copy: ShelfCopy, scope: Scope, query: RecallQuery, limit: TimeLimit, book: TraceBook
) -> Floats | None:
    if query.vector is None or not len(copy):
        return None
    if copy.is_big or len(copy) > query.settings.exact_rows:
        return nearest_cosines(copy, scope=scope, query=query, limit=limit, book=book)
    if copy.codes is None:
        return None
    try:
        return cosines_of(copy.codes, query.vector)
    except ValueError:
        # The question's vector is of another length than the shelf's.
        book.note(EMBEDDING_UNAVAILABLE)
        return None


def _ranked(
    copy: ShelfCopy,
    question: Question,
    query: RecallQuery,
    cosines: Floats | None,
    book: TraceBook,
) -> Ranked:
    vector: Vector | None = None if cosines is None else query.vector
    if not copy.is_damaged:
        try:
            return rank(
                copy,
                question,
                vector=vector,
                cosines=cosines,
                usual_cosine=query.usual_cosine,
                expansion=query.expansion,
            )
        except (ArithmeticError, LookupError, ValueError):
            pass
    book.note(KEYWORD_UNAVAILABLE)
    return rank(
        copy,
        question,
        vector=vector,
        cosines=cosines,
        has_keywords=False,
        usual_cosine=query.usual_cosine,
    )


def _allowed(copy: ShelfCopy, query: RecallQuery) -> NDArray[np.bool_]:
    """Return which entries the query's filters let through."""
    heads = copy.heads
    allowed: NDArray[np.bool_] = np.ones(len(copy), dtype=bool)
    if not set(KINDS) <= set(query.kinds):
        allowed &= np.isin(heads["kind"], [KINDS.index(kind) for kind in query.kinds])
    if query.role is not None:
        allowed &= (heads["role"] == 0) | (heads["role"] == name_hash(query.role))
    if query.as_of is not None:
        allowed &= heads["said_at"] <= query.as_of.timestamp()
    if query.skip_thread_id is not None:
        allowed &= heads["session"] != session_hash(query.skip_thread_id)
    return allowed


def _of_kinds(copy: ShelfCopy, rows: NDArray[np.intp], kinds: frozenset[str]) -> NDArray[np.intp]:
    numbers = [KINDS.index(kind) for kind in kinds if kind in KINDS]
    return rows[np.isin(copy.heads["kind"][rows], numbers)]


def _best(
    copy: ShelfCopy, ranked: Ranked, query: RecallQuery, passing: NDArray[np.intp], most: int
) -> list[Candidate]:
    settings = query.settings
    lives = np.array([half_life_of(kind, settings) for kind in KINDS])
    kinds = np.minimum(copy.heads["kind"][passing], len(KINDS) - 1)
    scores = first_scores(
        ranked.relevance[passing],
        age_seconds=query.now.timestamp() - copy.heads["said_at"][passing],
        half_life_days=lives[kinds],
        weights=settings.weights,
    )
    if len(passing) > most:
        best = np.argpartition(-scores, most)[:most]
        passing, scores, kinds = passing[best], scores[best], kinds[best]
    parts = {name: values[passing].tolist() for name, values in ranked.parts.items()}
    relevance = ranked.relevance[passing].tolist()
    return [
        Candidate(
            entry_id=copy.ids[row].decode(),
            kind=KINDS[kinds[at]],
            relevance=relevance[at],
            parts={name: values[at] for name, values in parts.items()},
            first_score=float(scores[at]),
        )
        for at, row in enumerate(passing.tolist())
    ]
