"""Finding what bears on a question within one scope: five stages, six ways to do with less, a trace.

Scope → candidates → fusion (ranking by numbers) → scoring → gates. Nothing is written.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import ExitStack
from typing import ClassVar, Final

from memory.errors import ScopeError
from memory.retrieval.candidates import Candidate, find_candidates, most_candidates
from memory.retrieval.copies import forget, open_shelves
from memory.retrieval.found_rows import FoundRow, read_found, read_newest
from memory.retrieval.gates import pass_gates
from memory.retrieval.hits import best_first, collapsed, hit_of
from memory.retrieval.limits import OverTimeError, TimeLimit, reading_within
from memory.retrieval.question import read_question
from memory.retrieval.results import (
    RESULTS_CUT,
    SCOPE_MISSING,
    TIME_LIMIT,
    Hit,
    RecallQuery,
    Retrieval,
)
from memory.retrieval.shelf_copy import ShelfCopy
from memory.retrieval.shelf_reading import OPEN_SHELVES, ShelfState, states_values
from memory.retrieval.tracing import TraceBook
from memory.scope import Scope

# What reading the newest may take, whatever the limit of the search was.
_NEWEST_MS: Final = 1_000


class RecallScopeError(ScopeError):
    """A search needs a scope of one tenant that names a person or a team."""

    degraded: ClassVar[str] = SCOPE_MISSING


def search(*, scope: Scope, query: RecallQuery) -> Retrieval:
    """Return what bears on a question, best first, inside the caller's scoped transaction.

    Cost: four statements where the copies of the shelves are current, and numbers: under 3 ms for
    a few hundred entries. Writes nothing.

    Raises:
        RecallScopeError: The scope names neither person nor team, or not one tenant.
    """
    if len(scope.tenant_ids) != 1 or not (scope.user_id or scope.team_ids):
        raise RecallScopeError
    book = TraceBook(degraded=query.degraded)
    limit = TimeLimit(query.settings.limit_ms)
    try:
        with ExitStack() as reading:
            with book.stage("scope"):
                values = states_values(scope=scope)
                rows = reading_within(limit, opening=OPEN_SHELVES, values=values)
                states = [ShelfState(*row) for row in reading.enter_context(rows)]
            hits = _find(scope, query, states, limit, book)
    except OverTimeError:
        book.restart()
        book.note(TIME_LIMIT)
        hits = _newest(scope, query, book)
    with book.stage("gates"):
        kept = _gated(hits, query, book)
    return Retrieval(hits=kept, trace=book.closed(scope=scope, query=query, hits=kept))


def _find(
    scope: Scope,
    query: RecallQuery,
    states: Sequence[ShelfState],
    limit: TimeLimit,
    book: TraceBook,
) -> list[Hit]:
    """Return what passed gate 1, best first, without duplicates.

    Copies that show entries which are gone are forgotten, and the search made once more.
    """
    for known, is_last_try in ((states, False), (None, True)):
        copies = _open(scope, query, known, limit, book)
        candidates = _candidates(scope, query, copies, limit, book)
        with book.stage("scoring"):
            rows = _read(scope, query, candidates)
        limit.check()
        if len(rows) == len(candidates) or is_last_try:
            break
        book.restart()
        forget(
            scope=scope,
            copies=copies,
            model_id=query.model_id,
            most_codes=query.settings.exact_rows,
        )
    with book.stage("scoring"):
        return _scored(candidates, rows, query, book)


def _open(
    scope: Scope,
    query: RecallQuery,
    states: Sequence[ShelfState] | None,
    limit: TimeLimit,
    book: TraceBook,
) -> list[ShelfCopy]:
    with book.stage("scope"):
        return open_shelves(
            scope=scope,
            model_id=query.model_id,
            most_codes=query.settings.exact_rows,
            limit=limit,
            states=states,
        )


def _candidates(
    scope: Scope,
    query: RecallQuery,
    copies: Sequence[ShelfCopy],
    limit: TimeLimit,
    book: TraceBook,
) -> list[Candidate]:
    found: list[Candidate] = []
    with book.stage("candidates"):
        question = read_question(query.text, now=query.now)
        for copy in copies:
            limit.check()
            found += find_candidates(
                copy, scope=scope, query=query, question=question, limit=limit, book=book
            )
    limit.check()
    with book.stage("fusion"):
        found.sort(key=lambda one: (-one.first_score, one.entry_id))
        best = [
            one
            for kinds, most in query.groups
            for one in [one for one in found if one.kind in kinds][: most_candidates(most)]
        ]
        book.drop("top_k", len(found) - len(best))
        return best


def _read(scope: Scope, query: RecallQuery, candidates: Sequence[Candidate]) -> dict[str, FoundRow]:
    ids: dict[str, list[str]] = {}
    for one in candidates:
        ids.setdefault(one.kind, []).append(one.entry_id)
    return read_found(scope=scope, ids_by_kind=ids, query=query)


def _scored(
    candidates: Sequence[Candidate],
    rows: dict[str, FoundRow],
    query: RecallQuery,
    book: TraceBook,
) -> list[Hit]:
    hits = best_first(
        hit_of(rows[one.entry_id], relevance=one.relevance, parts=one.parts, query=query)
        for one in candidates
        if one.entry_id in rows and not rows[one.entry_id].is_over
    )
    kept: list[Hit] = []
    for kinds, most in query.groups:
        together = [hit for hit in hits if hit.kind in kinds]
        firsts, repeated = collapsed(together, rows=rows, most=most)
        book.drop("duplicate", repeated)
        book.drop("top_k", len(together) - len(firsts) - repeated)
        kept += firsts
    return best_first(kept)


def _newest(scope: Scope, query: RecallQuery, book: TraceBook) -> list[Hit]:
    """Return the newest in scope, at relevance 0; nothing if even that takes too long."""
    with book.stage("newest"):
        try:
            with reading_within(TimeLimit(_NEWEST_MS)):
                rows = read_newest(scope=scope, query=query)
        except OverTimeError:
            return []
    return [hit_of(row, relevance=0.0, parts={}, query=query) for row in rows]


def _gated(hits: Sequence[Hit], query: RecallQuery, book: TraceBook) -> tuple[Hit, ...]:
    gated = pass_gates(hits, limit=query.limit, most_tokens=query.most_tokens)
    book.drop("top_k", gated.top_k)
    book.drop("budget", gated.budget)
    if gated.is_cut:
        book.note(RESULTS_CUT)
    return gated.hits
