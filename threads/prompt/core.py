"""The section core: every confirmed fact of a person, and nothing that waits or was rejected."""

from __future__ import annotations

from collections.abc import Sequence

from governance.core.facts import facts_of
from memory.models import CoreFact
from memory.sanitize import sanitize
from memory.scope import Scope
from memory.sections import Candidate
from memory.trust import ContextItem, Source

SECTION = "core"
KIND = "core"


def core_candidates(*, scope: Scope) -> list[Candidate]:
    """Return the facts of the scope's person that hold, the most recently used first.

    Inside the caller's transaction. Cost: one query; none for somebody who is not known yet.
    """
    if scope.user_id is None:
        return []
    return as_candidates(facts_of(scope=scope, end_user_id=scope.user_id))


def as_candidates(facts: Sequence[CoreFact]) -> list[Candidate]:
    """Return facts as items of the section, each with its tier, source and date of confirmation."""
    return [_candidate(fact) for fact in facts]


def _candidate(fact: CoreFact) -> Candidate:
    # Cleaned before it stands in a line of ours: a role's name at its head would no longer be one.
    text = sanitize(fact.fact).text
    item = ContextItem(
        section=SECTION,
        kind=KIND,
        id=fact.pk,
        tier=fact.tier,
        source=Source(kind="run" if fact.run_id else fact.origin, id=fact.run_id),
        created_at=fact.created_at,
        approved_at=fact.valid_from,
        confidence=fact.confidence,
        content=text,
    )
    return Candidate(item=item, label="", text=text)
