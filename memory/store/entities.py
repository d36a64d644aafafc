"""The only writer of the vocabulary: entities, their events, and merges of two.

Each function writes inside the caller's scoped transaction. Whoever changes names or states holds
the tenant's vocabulary first, so that two decisions never cross; weights move without it, each by
one statement on rows locked in one order. `updated_at` moves with names and states only, always
forward, so that a copy of the names knows when it is old.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Final

from django.db import connection
from django.db.models import QuerySet

from memory.cleared import Cleared
from memory.ids import new_id
from memory.models import Entity, EntityEvent, EntityMerge, EntityStatus
from memory.retrieval.names import name_key
from memory.scope import Scope

_HOLD: Final = "SELECT pg_advisory_xact_lock(%s)"
_STAMP: Final = """
    SELECT greatest(%(now)s, (SELECT max(updated_at) + interval '1 microsecond'
        FROM memory_entity WHERE tenant_id = %(tenant)s))
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class NewEvent:
    """One change of an entity, and its weight before and after."""

    kind: str
    weight_before: float
    weight_after: float
    other: str = ""


def hold_vocabulary(*, scope: Scope) -> None:
    """Keep others from changing names and states of the tenant until this transaction ends."""
    digest = hashlib.sha256(f"vocabulary {scope.tenant_id}".encode()).digest()
    with connection.cursor() as cursor:
        cursor.execute(_HOLD, (int.from_bytes(digest[:8], "big", signed=True),))


def add_entity(
    *,
    scope: Scope,
    candidate_id: str,
    entity_type: str,
    term: Cleared,
    by: str,
    now: datetime,
) -> Entity:
    """Store the active entity of an approved candidate, at weight 1. Cost: two statements.

    Raises:
        IntegrityError: The candidate is not approved, or the type has an entity of that name.
    """
    entity = Entity(
        tenant_id=scope.tenant_id,
        entity_type=entity_type,
        term=term.text,
        term_key=name_key(term.text),
        candidate_id=candidate_id,
        approved_at=now,
        approved_by=by,
        created_at=now,
        updated_at=_stamp(scope, now),
    )
    entity.save(force_insert=True)
    return entity


def rename_entity(*, scope: Scope, entity_id: str, term: Cleared, now: datetime) -> None:
    """Give an entity another term. Cost: two statements.

    Raises:
        IntegrityError: Its type has an entity of that name.
    """
    _change(scope, entity_id, now, term=term.text, term_key=name_key(term.text))


def set_aliases(
    *,
    scope: Scope,
    entity_id: str,
    kept: Sequence[str],
    added: Sequence[Cleared],
    now: datetime,
) -> list[str]:
    """Set an entity's aliases: some that it or a merged entity has already, and new ones.

    Each name once, whatever its case. Cost: two statements.
    """
    aliases: dict[str, str] = {}
    for alias in (*kept, *(one.text for one in added)):
        aliases.setdefault(name_key(alias), alias)
    names = [alias for key, alias in aliases.items() if key]
    _change(scope, entity_id, now, aliases=names)
    return names


def activate_entity(
    *,
    scope: Scope,
    entity_id: str,
    now: datetime,
    by: str | None = None,
    candidate_id: str | None = None,
) -> None:
    """Make a retired entity active, approved anew where a candidate says so. Two statements."""
    approved = {}
    if candidate_id is not None:
        approved = {"candidate_id": candidate_id, "approved_by": by, "approved_at": now}
    _change(scope, entity_id, now, status=EntityStatus.ACTIVE, **approved)


def retire_entity(*, scope: Scope, entity_id: str, now: datetime) -> None:
    """Take an entity out of use. Cost: two statements."""
    _change(scope, entity_id, now, status=EntityStatus.RETIRED)


def move_into(
    *, scope: Scope, source_id: str, target_id: str, weight: float, now: datetime
) -> None:
    """Let an entity live on in another one, whose weight is then `weight`. Four statements."""
    _change(scope, source_id, now, status=EntityStatus.MERGED, merged_into_id=target_id)
    _change(scope, target_id, now, weight=weight)


def move_out(
    *, scope: Scope, source_id: str, target_id: str, status: str, weight: float, now: datetime
) -> None:
    """Let a merged entity live by itself again, in the status it had. Four statements."""
    _change(scope, source_id, now, status=status, merged_into_id=None)
    _change(scope, target_id, now, weight=weight)


def add_event(*, scope: Scope, entity_id: str, event: NewEvent, by: str, now: datetime) -> None:
    """Write down one change of an entity. Cost: one statement."""
    EntityEvent.objects.create(
        tenant_id=scope.tenant_id,
        entity_id=entity_id,
        kind=event.kind,
        weight_before=event.weight_before,
        weight_after=event.weight_after,
        other=event.other,
        by=by,
        at=now,
    )


def add_merge(
    *, scope: Scope, source_id: str, target_id: str, score: float, now: datetime
) -> EntityMerge:
    """Propose to merge two entities. Cost: one statement.

    Raises:
        IntegrityError: It was proposed, refused or done before.
    """
    merge = EntityMerge(
        id=new_id("emrg"),
        tenant_id=scope.tenant_id,
        source_id=source_id,
        target_id=target_id,
        score=score,
        created_at=now,
    )
    merge.save(force_insert=True)
    return merge


def decide_merge(*, merge: EntityMerge, status: str, by: str, now: datetime, **values: Any) -> None:
    """Write down what was decided about a merge, and what it takes to undo it. One statement."""
    decided = {"status": status, "decided_by": by, "decided_at": now, **values}
    for name, value in decided.items():
        setattr(merge, name, value)
    merge.save(update_fields=list(decided))


def _stamp(scope: Scope, now: datetime) -> datetime:
    with connection.cursor() as cursor:
        cursor.execute(_STAMP, {"now": now, "tenant": scope.tenant_id})
        stamp: datetime = cursor.fetchone()[0]
    return stamp


def _change(scope: Scope, entity_id: str, now: datetime, **values: Any) -> None:
    rows: QuerySet[Entity] = Entity.objects.in_scope(scope).filter(pk=entity_id)
    rows.update(updated_at=_stamp(scope, now), **values)
