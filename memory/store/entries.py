"""Index entries: adding what can be found, taking it away, counting its use."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Final

from django.db import connection
from django.db.models import Q

from memory.ids import new_id
from memory.models import IndexEntry
from memory.scope import Scope
from memory.store.shelves import Owner, ensure_shelf, next_version

_ADD: Final = """
    INSERT INTO memory_indexentry (id, tenant_id, end_user_id, team_id, shelf_id, kind, role,
        recall_id, chunk_id, item_id, fact_id, version, packed, tier, confidence, uses, as_of,
        created_at)
    SELECT given.id, %(tenant)s, %(end_user)s, %(team)s, %(shelf)s, kind, role,
        recall_id, chunk_id, item_id, fact_id, %(version)s, packed, tier, confidence, 0, as_of,
        %(now)s
    FROM unnest(%(ids)s::text[], %(kinds)s::text[], %(roles)s::text[], %(recalls)s::text[],
        %(chunks)s::text[], %(items)s::text[], %(facts)s::text[], %(packed)s::bytea[],
        %(tiers)s::text[], %(confidences)s::float8[], %(times)s::timestamptz[])
        AS given (id, kind, role, recall_id, chunk_id, item_id, fact_id, packed, tier, confidence,
            as_of)
    ON CONFLICT DO NOTHING RETURNING id
"""
_REMOVE: Final = """
    WITH gone AS (
        SELECT id FROM memory_indexentry WHERE tenant_id = %(tenant)s AND shelf_id = %(shelf)s AND (
            id = ANY (%(entries)s::text[]) OR recall_id = ANY (%(recalls)s::text[])
            OR item_id = ANY (%(items)s::text[]) OR fact_id = ANY (%(facts)s::text[])
            OR chunk_id IN (SELECT id FROM memory_knowledgechunk
                WHERE tenant_id = %(tenant)s AND document_id = %(document)s))
    ), vectors AS (
        DELETE FROM memory_embedding
        WHERE tenant_id = %(tenant)s AND entry_id IN (SELECT id FROM gone)
    )
    DELETE FROM memory_indexentry WHERE tenant_id = %(tenant)s AND id IN (SELECT id FROM gone)
"""
# Locked in one order, so that two workers that count the same entries wait instead of failing.
_USED: Final = """
    WITH used AS (
        SELECT entry.id, given.uses FROM memory_indexentry entry
        JOIN unnest(%(ids)s::text[], %(uses)s::int[]) AS given (id, uses) ON given.id = entry.id
        WHERE entry.tenant_id = %(tenant)s ORDER BY entry.id FOR NO KEY UPDATE OF entry
    )
    UPDATE memory_indexentry entry SET uses = entry.uses + used.uses,
        last_used_at = greatest(entry.last_used_at, %(now)s)
    FROM used WHERE entry.tenant_id = %(tenant)s AND entry.id = used.id
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class NewEntry:
    """One thing to be found from now on.

    Attributes:
        kind: `recall`, `knowledge`, `item` or `core`.
        role: The role it belongs to; empty for any.
        recall_id: The recall entry it leads to, or chunk_id the chunk, item_id the item, fact_id
            the core fact: one of the four.
        packed: Its record (memory.retrieval.records).
        tier: How far it may be trusted.
        confidence: 0 to 1, where somebody gave one.
        as_of: The time of what it says.
    """

    kind: str
    packed: bytes
    tier: str
    as_of: datetime
    role: str = ""
    recall_id: str | None = None
    chunk_id: str | None = None
    item_id: str | None = None
    fact_id: str | None = None
    confidence: float | None = None


def add_entries(
    *, scope: Scope, owner: Owner, entries: Sequence[NewEntry], now: datetime
) -> list[str]:
    """Add entries to an owner's shelf and return the ids of the new ones, in order.

    What leads to something that an entry leads to already is passed over, so the same work done
    twice adds nothing. Cost: three statements, whatever the number.

    Raises:
        NotFoundError: The scope may not see the owner's shelf.
    """
    if not entries:
        return []
    shelf_id = ensure_shelf(scope=scope, owner=owner)
    values: dict[str, Any] = {
        "tenant": scope.tenant_id,
        "end_user": owner.end_user_id,
        "team": owner.team_id,
        "shelf": shelf_id,
        "version": next_version(scope=scope, shelf_id=shelf_id),
        "now": now,
    }
    with connection.cursor() as cursor:
        cursor.execute(_ADD, values | _columns(entries))
        return sorted(row[0] for row in cursor.fetchall())


def _columns(entries: Sequence[NewEntry]) -> dict[str, list[Any]]:
    return {
        "ids": [new_id("idx") for _ in entries],
        "kinds": [entry.kind for entry in entries],
        "roles": [entry.role for entry in entries],
        "recalls": [entry.recall_id for entry in entries],
        "chunks": [entry.chunk_id for entry in entries],
        "items": [entry.item_id for entry in entries],
        "facts": [entry.fact_id for entry in entries],
        "packed": [entry.packed for entry in entries],
        "tiers": [entry.tier for entry in entries],
        "confidences": [entry.confidence for entry in entries],
        "times": [entry.as_of for entry in entries],
    }


def remove_entries(
    *,
    scope: Scope,
    shelf_id: str,
    entry_ids: Sequence[str] = (),
    recall_ids: Sequence[str] = (),
    item_ids: Sequence[str] = (),
    fact_ids: Sequence[str] = (),
    document_id: str | None = None,
) -> int:
    """Take entries and their vectors off a shelf, by any of these names; return how many went.

    Copies of the shelf are worthless from the commit on. What the entries led to stays. Cost: two
    statements.

    Raises:
        NotFoundError: The scope has no such shelf.
    """
    next_version(scope=scope, shelf_id=shelf_id, has_changed_old=True)
    values: dict[str, Any] = {
        "tenant": scope.tenant_id,
        "shelf": shelf_id,
        "entries": list(entry_ids),
        "recalls": list(recall_ids),
        "items": list(item_ids),
        "facts": list(fact_ids),
        "document": document_id,
    }
    with connection.cursor() as cursor:
        cursor.execute(_REMOVE, values)
        return int(cursor.rowcount)


def entry_ids_of(*, scope: Scope, led_to: Iterable[str]) -> dict[str, str]:
    """Return the entry of each recall entry, chunk, item or fact that has one, by the id it leads to.

    Cost: one query.
    """
    ids = list(led_to)
    leads = Q(recall_id__in=ids) | Q(chunk_id__in=ids) | Q(item_id__in=ids) | Q(fact_id__in=ids)
    rows = IndexEntry.objects.in_scope(scope).filter(leads)
    named = rows.values_list("pk", "recall_id", "chunk_id", "item_id", "fact_id")
    return {next(one for one in led if one): pk for pk, *led in named}


def note_uses(*, scope: Scope, uses: Mapping[str, int], now: datetime) -> None:
    """Count that entries were shown, by entry id; those that are gone are passed over.

    Copies stay as they are: uses are read with the text. Cost: one statement.
    """
    if not uses:
        return
    values: dict[str, Any] = {
        "tenant": scope.tenant_id,
        "ids": list(uses),
        "uses": list(uses.values()),
        "now": now,
    }
    with connection.cursor() as cursor:
        cursor.execute(_USED, values)
