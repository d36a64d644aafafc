"""Keeping book of a search while it runs: times, counts, what went wrong; never a text."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Final

from django.utils.crypto import salted_hmac

from memory.retrieval.results import Hit, RecallQuery, RetrievalTrace
from memory.scope import Scope

_SALT: Final = "memory.retrieval.query"
_TOOL: Final = "retrieval"


class TraceBook:
    """What is known so far of how a search goes."""

    def __init__(self, *, degraded: Sequence[str]) -> None:
        """Start with what went wrong before the search."""
        self._stages: dict[str, float] = {}
        self._candidates: Counter[str] = Counter(vector=0, keyword=0)
        self._dropped: Counter[str] = Counter(duplicate=0, relevance=0, top_k=0, budget=0)
        self._degraded = dict.fromkeys(degraded)

    @contextmanager
    def stage(self, name: str) -> Iterator[None]:
        """Add the time of a stage."""
        started = time.perf_counter()
        try:
            yield
        finally:
            spent = (time.perf_counter() - started) * 1000
            self._stages[name] = round(self._stages.get(name, 0.0) + spent, 3)

    def count(self, leg: str, candidates: int) -> None:
        """Add candidates that a leg gave."""
        self._candidates[leg] += candidates

    def drop(self, gate: str, count: int) -> None:
        """Add what a gate kept out."""
        self._dropped[gate] += count

    def note(self, degradation: str) -> None:
        """Say that the search gets less than it asked for."""
        self._degraded[degradation] = None

    def restart(self) -> None:
        """Forget the counts of a try that is made again."""
        self._candidates = Counter(dict.fromkeys(self._candidates, 0))
        self._dropped = Counter(dict.fromkeys(self._dropped, 0))

    def closed(self, *, scope: Scope, query: RecallQuery, hits: Sequence[Hit]) -> RetrievalTrace:
        """Return the trace of a search that is over."""
        return RetrievalTrace(
            tool=_TOOL,
            query_hash=query_hash(scope=scope, text=query.text),
            scope={
                "tenant": scope.tenant_id,
                "user": scope.user_id,
                "thread": scope.thread_id,
                "teams": ",".join(scope.team_ids) or None,
            },
            stages_ms=dict(self._stages),
            candidates=dict(self._candidates),
            kept=len(hits),
            dropped=dict(self._dropped),
            degraded=tuple(self._degraded),
            top_score=hits[0].score if hits else None,
            tokens=sum(hit.tokens for hit in hits),
            entities=len(query.expansion.entities),
        )


def query_hash(*, scope: Scope, text: str) -> str:
    """Return a keyed hash of a question: equal ones of one tenant are seen to be equal, no more."""
    return salted_hmac(_SALT, f"{scope.tenant_id}\n{text}", algorithm="sha256").hexdigest()
