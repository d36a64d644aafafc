"""The vocabulary as far as a key reaches.

It is the tenant's: every key may look at it, and one that is limited to one person decides nothing
about it, nor sees what others said that proposed a term.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from typing import Any, Final

from django.db.models import F, Func, Prefetch, Q, TextField, Value

from governance import access
from governance.access import Principal
from governance.entities import decisions, editing, merges
from governance.entities.editing import EntityChange
from governance.models import Correction, EntityCandidate
from memory.errors import NotFoundError
from memory.models import Entity, EntityEvent
from memory.querysets import ScopedQuerySet
from memory.retrieval.names import name_key
from memory.rls import scoped_transaction

MOST_EVIDENCE: Final = 20


@dataclass(frozen=True, slots=True, kw_only=True)
class Filters:
    """Which entities to list; `text` is looked for in their names, whatever its case and width."""

    text: str | None = None
    entity_type: str | None = None
    status: str | None = None


def entities_of(*, principal: Principal, filters: Filters) -> ScopedQuerySet[Entity]:
    """Return the query of the tenant's entities."""
    rows = Entity.objects.in_scope(access.tenant_scope(principal))
    if filters.entity_type:
        rows = rows.filter(entity_type=filters.entity_type)
    if filters.status:
        rows = rows.filter(status=filters.status)
    if filters.text:
        joined = Func(F("aliases"), Value("\n"), function="array_to_string")
        joined.output_field = TextField()
        is_named = Q(term_key__contains=name_key(filters.text))
        has_alias: Any = Q(names__icontains=filters.text.strip())
        named: Any = rows.alias(names=joined)
        rows = named.filter(is_named | has_alias)
    return rows


def read_entity(*, principal: Principal, entity_id: str) -> Entity:
    """Return an entity. Cost: one query.

    Raises:
        NotFoundError: The tenant has none of that id.
    """
    scope = access.tenant_scope(principal)
    with scoped_transaction(scope):
        found = Entity.objects.in_scope(scope).filter(pk=entity_id).first()
    if found is None:
        raise NotFoundError
    return found


def events_of(*, principal: Principal, entity_id: str) -> ScopedQuerySet[EntityEvent]:
    """Return the query of an entity's events: a key of one person sees that person's hits only.

    Cost: one query here.

    Raises:
        NotFoundError: The tenant has none of that id.
    """
    read_entity(principal=principal, entity_id=entity_id)
    rows = EntityEvent.objects.in_scope(access.tenant_scope(principal))
    return rows.filter(entity_id=entity_id).select_related("end_user")


def candidates_of(
    *, principal: Principal, status: str | None, entity_type: str | None = None
) -> ScopedQuerySet[EntityCandidate]:
    """Return the query of candidates, each with its newest evidence as `shown_evidence`.

    Raises:
        ForbiddenError: The key may not act for everybody, and the evidence is anybody's.
    """
    access.require_act_for_anybody(principal=principal)
    scope = access.tenant_scope(principal)
    evidence = Correction.objects.in_scope(scope).order_by("-created_at", "-id")[:MOST_EVIDENCE]
    rows: Any = EntityCandidate.objects.in_scope(scope).prefetch_related(
        Prefetch("corrections", queryset=evidence, to_attr="shown_evidence")
    )
    rows = rows.filter(status=status) if status else rows
    shown: ScopedQuerySet[EntityCandidate] = (
        rows.filter(entity_type=entity_type) if entity_type else rows
    )
    return shown


def approve(
    *,
    principal: Principal,
    candidate_id: str,
    now: datetime,
    term: str | None = None,
    entity_type: str | None = None,
) -> EntityCandidate:
    """Approve a candidate for the staff; raises as `approve_candidate`, or ForbiddenError.

    Raises:
        ForbiddenError: The key may not act for everybody.
    """
    access.require_act_for_anybody(principal=principal)
    decisions.approve_candidate(
        scope=access.tenant_scope(principal),
        candidate_id=candidate_id,
        by=principal.id,
        now=now,
        term=term,
        entity_type=entity_type,
    )
    return _candidate(principal, candidate_id)


def reject(
    *, principal: Principal, candidate_id: str, reason: str, now: datetime
) -> EntityCandidate:
    """Reject a candidate for the staff; raises as `reject_candidate`, or ForbiddenError.

    Raises:
        ForbiddenError: The key may not act for everybody.
    """
    access.require_act_for_anybody(principal=principal)
    scope = access.tenant_scope(principal)
    decisions.reject_candidate(
        scope=scope, candidate_id=candidate_id, by=principal.id, reason=reason, now=now
    )
    return _candidate(principal, candidate_id)


def change(*, principal: Principal, entity_id: str, change: EntityChange, now: datetime) -> Entity:
    """Change an entity for the staff; raises as `change_entity`, or ForbiddenError.

    Raises:
        ForbiddenError: The key may not act for everybody.
    """
    access.require_act_for_anybody(principal=principal)
    scope = access.tenant_scope(principal)
    return editing.change_entity(
        scope=scope, entity_id=entity_id, change=change, by=principal.id, now=now
    )


def merge(*, principal: Principal, entity_id: str, target_id: str, now: datetime) -> Entity:
    """Merge an entity into another one for the staff, return that; raises as `merges.merge`.

    Raises:
        ForbiddenError: The key may not act for everybody.
    """
    access.require_act_for_anybody(principal=principal)
    scope = access.tenant_scope(principal)
    return merges.merge(
        scope=scope, source_id=entity_id, target_id=target_id, by=principal.id, now=now
    )


def unmerge(*, principal: Principal, entity_id: str, now: datetime) -> Entity:
    """Undo the merge of an entity for the staff, and return it; raises as `merges.unmerge`.

    Raises:
        ForbiddenError: The key may not act for everybody.
    """
    access.require_act_for_anybody(principal=principal)
    scope = access.tenant_scope(principal)
    return merges.unmerge(scope=scope, entity_id=entity_id, by=principal.id, now=now)


def _candidate(principal: Principal, candidate_id: str) -> EntityCandidate:
    rows = candidates_of(principal=principal, status=None)
    with scoped_transaction(access.tenant_scope(principal)):
        return rows.get(pk=candidate_id)
