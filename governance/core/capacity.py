"""How much core memory holds, and which facts make room: the least recently used first."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime

from governance.core.problems import CoreFullError
from memory.models import CoreFact
from memory.querysets import ScopedQuerySet
from memory.scope import Scope


def holding(*, scope: Scope, end_user_id: str) -> ScopedQuerySet[CoreFact]:
    """Return the query of the facts of a person that hold now."""
    rows = CoreFact.objects.in_scope(scope).filter(end_user_id=end_user_id)
    return rows.filter(valid_to__isnull=True)


def used_at(fact: CoreFact) -> datetime:
    """Return when a fact was used last; one that never was counts from when it began to hold."""
    return fact.last_used_at or fact.valid_from


@dataclass(frozen=True, slots=True, kw_only=True)
class Room:
    """The facts that stay, and what policy lets there be at most."""

    facts: Sequence[CoreFact]
    most_facts: int
    most_characters: int

    def make(self, characters: int, *, may_evict: bool) -> list[CoreFact]:
        """Return which facts have to end for one more of so many characters; none where it fits.

        Raises:
            CoreFullError: Some would have to, and may not; or no number of them would do.
        """
        oldest = sorted(self.facts, key=lambda fact: (used_at(fact), fact.pk))
        evicted: list[CoreFact] = []
        while not self._fits(oldest, characters):
            if not may_evict or not oldest:
                raise CoreFullError(oldest[0] if oldest else None)
            evicted.append(oldest.pop(0))
        return evicted

    def _fits(self, facts: Sequence[CoreFact], characters: int) -> bool:
        used = sum(len(fact.fact) for fact in facts)
        return len(facts) < self.most_facts and used + characters <= self.most_characters
