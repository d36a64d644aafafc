"""Candidates out of corrections: the same name is the same candidate, and evidence adds up.

Nothing here writes an entity. Exact names decide, never likeness: a name that an active entity has
already, as its term or an alias, is further evidence for that entity.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Final

from governance import audit, gate
from governance.entities.problems import NotRememberedError
from governance.entities.terms import admit_term, flags_of
from governance.models import Correction, EntityCandidate, EntityCandidateStatus
from governance.policy import policy_for
from memory.cleared import Cleared
from memory.models import Entity, EntityStatus
from memory.retrieval.names import name_key
from memory.rls import scoped_transaction
from memory.scope import Scope
from memory.store.corrections import (
    add_decided_candidate,
    add_entity_candidate,
    distrust_corrections,
    link_corrections,
)
from memory.store.entities import hold_vocabulary

PASS_CORRECTIONS: Final = 50
_Name = tuple[str, str]


@dataclass(frozen=True, slots=True, kw_only=True)
class ProposalReport:
    """What one pass made of the oldest corrections, in counts.

    Attributes:
        corrections: How many were looked at.
        candidates: Candidates that are new.
        evidence: Corrections that became evidence.
        distrusted: Corrections that the gate would not take any more.
        is_more: Whether others may wait.
    """

    corrections: int = 0
    candidates: int = 0
    evidence: int = 0
    distrusted: int = 0
    is_more: bool = False


def propose(*, scope: Scope, now: datetime, limit: int = PASS_CORRECTIONS) -> ProposalReport:
    """Make the oldest corrections that belong to no candidate evidence of one.

    Again changes nothing, and any number at once do as one: the vocabulary is held meanwhile. Cost:
    about four statements for each name, and the gate's time, in one transaction.

    Args:
        scope: The tenant's.
        now: When.
        limit: How many corrections to look at.
    """
    with scoped_transaction(scope):
        hold_vocabulary(scope=scope)
        policy = policy_for(scope=scope, agent_overrides={})
        rows = Correction.objects.in_scope(scope).filter(candidate__isnull=True, tier="stated")
        found = list(rows.order_by("created_at", "id").select_for_update(of=("self",))[:limit])
        terms: dict[str, Cleared] = {}
        for correction in found:
            try:
                terms[correction.pk] = admit_term(text=correction.term, policy=policy)
            except NotRememberedError:
                continue
        trusted = {pk: term for pk, term in terms.items() if term.tier != gate.UNTRUSTED}
        distrusted = [one.pk for one in found if one.pk not in trusted]
        if distrusted:
            distrust_corrections(scope=scope, correction_ids=distrusted)
        named = _by_name([one for one in found if one.pk in trusted], trusted)
        made = [
            _propose_name(scope, name, [(pk, trusted[pk]) for pk in ids], now)
            for name, ids in sorted(named.items())
        ]
    return ProposalReport(
        corrections=len(found),
        candidates=sum(is_new for is_new, _ in made),
        evidence=sum(linked for _, linked in made),
        distrusted=len(distrusted),
        is_more=len(found) == limit,
    )


def entity_named(
    *, scope: Scope, entity_type: str, key: str, except_id: str | None = None
) -> Entity | None:
    """Return the active entity of a type that has this name, as its term first or as an alias.

    Inside the caller's transaction. Cost: one query, two where no term is it.
    """
    rows = Entity.objects.in_scope(scope).filter(
        entity_type=entity_type, status=EntityStatus.ACTIVE
    )
    if except_id is not None:
        rows = rows.exclude(pk=except_id)
    found = rows.filter(term_key=key).first()
    if found is not None:
        return found
    # Few entities of a type have aliases at all.
    for entity in rows.exclude(aliases=[]).order_by("id"):
        if any(name_key(alias) == key for alias in entity.aliases):
            return entity
    return None


def _by_name(
    corrections: Sequence[Correction], terms: Mapping[str, Cleared]
) -> dict[_Name, list[str]]:
    named: dict[_Name, list[str]] = {}
    for one in corrections:
        named.setdefault((one.entity_type, name_key(terms[one.pk].text)), []).append(one.pk)
    return named


def _propose_name(
    scope: Scope, name: _Name, corrections: Sequence[tuple[str, Cleared]], now: datetime
) -> tuple[bool, int]:
    """Return whether the candidate is new, and how much evidence it got."""
    entity_type, key = name
    entity = entity_named(scope=scope, entity_type=entity_type, key=key)
    if entity is not None:
        candidate_id, is_new = _candidate_of(scope, entity, now), False
    else:
        first = corrections[0][1]
        candidate_id, is_new = add_entity_candidate(
            scope=scope, entity_type=entity_type, term=first, flags=flags_of(first), now=now
        )
    ids = [pk for pk, _ in corrections]
    linked = link_corrections(scope=scope, candidate_id=candidate_id, correction_ids=ids, now=now)
    if is_new:
        audit.record(
            scope=scope,
            action="entity_candidate_proposed",
            target_kind="entity_candidate",
            target_id=candidate_id,
            now=now,
            detail=gate.written_detail(
                kind="entity_candidate", cleared=[corrections[0][1]], run_id=None, origin="api"
            ),
        )
    return is_new, linked


def _candidate_of(scope: Scope, entity: Entity, now: datetime) -> str:
    """Return the candidate that an active entity's evidence belongs to."""
    rows = EntityCandidate.objects.in_scope(scope).filter(status=EntityCandidateStatus.APPROVED)
    known = rows.filter(entity_id=entity.pk).order_by("id").values_list("pk", flat=True).first()
    if known is not None:
        return str(known)
    return add_decided_candidate(scope=scope, entity_id=entity.pk, now=now)
