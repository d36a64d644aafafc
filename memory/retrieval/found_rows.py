"""The rows that candidates lead to, read by id through the scope; and the newest of all."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Final

from django.db import connection

from memory.retrieval.results import RecallQuery
from memory.scope import Scope
from memory.trust import Source

_RECALL: Final = """
    SELECT entry.id, entry.tier, entry.confidence, entry.uses, entry.as_of,
        led.id, led.said, led.answered, coalesce(led.speaker, ''), led.run_id, led.thread_id,
        led.external_id
    FROM memory_indexentry entry
    JOIN memory_recallentry led ON led.tenant_id = entry.tenant_id AND led.id = entry.recall_id
    WHERE entry.tenant_id = %(tenant)s AND entry.id = ANY (%(ids)s::text[])
"""
_KNOWLEDGE: Final = """
    SELECT entry.id, entry.tier, entry.confidence, entry.uses, entry.as_of,
        led.id, led.content, document.title, document.id, document.external_id
    FROM memory_indexentry entry
    JOIN memory_knowledgechunk led ON led.tenant_id = entry.tenant_id AND led.id = entry.chunk_id
    JOIN memory_knowledgedocument document ON document.tenant_id = led.tenant_id
        AND document.id = led.document_id AND document.status = 'admitted'
    WHERE entry.tenant_id = %(tenant)s AND entry.id = ANY (%(ids)s::text[])
"""
# Over from its end on, though the worker takes it out of the index only later.
_ITEM: Final = """
    SELECT entry.id, entry.tier, entry.confidence, entry.uses, entry.as_of,
        led.id, led.content, led.title, led.origin, led.run_id, led.key,
        led.status <> 'active' OR led.expires_at <= %(now)s
    FROM memory_indexentry entry
    JOIN memory_memoryitem led ON led.tenant_id = entry.tenant_id AND led.id = entry.item_id
    WHERE entry.tenant_id = %(tenant)s AND entry.id = ANY (%(ids)s::text[])
"""
# A fact that holds no more stays in the index for those who ask what was so.
_CORE: Final = """
    SELECT entry.id, entry.tier, entry.confidence, entry.uses, entry.as_of,
        led.id, led.fact, led.subject, led.origin, led.run_id, NULL,
        led.valid_from > %(at)s OR led.valid_to <= %(at)s
    FROM memory_indexentry entry
    JOIN memory_corefact led ON led.tenant_id = entry.tenant_id AND led.id = entry.fact_id
    WHERE entry.tenant_id = %(tenant)s AND entry.id = ANY (%(ids)s::text[])
"""
# The index entry tells that it may be found at all.
_NEWEST: Final = """
    SELECT entry.id, entry.tier, entry.confidence, entry.uses, entry.as_of,
        led.id, led.said, led.answered, coalesce(led.speaker, ''), led.run_id, led.thread_id,
        led.external_id
    FROM memory_recallentry led
    JOIN memory_indexentry entry
        ON entry.tenant_id = led.tenant_id AND entry.recall_id = led.id
    WHERE led.tenant_id = %(tenant)s AND led.end_user_id = %(user)s
        AND (%(role)s IS NULL OR entry.role IN ('', %(role)s))
        AND (%(as_of)s IS NULL OR led.said_at <= %(as_of)s)
        AND (%(skip)s IS NULL OR led.thread_id <> %(skip)s)
    ORDER BY led.said_at DESC, led.id DESC LIMIT %(limit)s
"""
_NEWEST_KNOWLEDGE: Final = """
    SELECT entry.id, entry.tier, entry.confidence, entry.uses, entry.as_of,
        led.id, led.content, document.title, document.id, document.external_id
    FROM memory_knowledgedocument document
    JOIN memory_knowledgechunk led ON led.tenant_id = document.tenant_id
        AND led.document_id = document.id AND led.position = 0
    JOIN memory_indexentry entry ON entry.tenant_id = led.tenant_id AND entry.chunk_id = led.id
    WHERE document.tenant_id = %(tenant)s AND document.status = 'admitted'
        AND (document.end_user_id IS NULL OR document.end_user_id = %(user)s)
        AND (document.team_id IS NULL OR document.team_id = ANY (%(teams)s::text[]))
        AND (%(as_of)s IS NULL OR entry.as_of <= %(as_of)s)
    ORDER BY document.created_at DESC, document.id DESC LIMIT %(limit)s
"""
_NEWEST_ITEMS: Final = """
    SELECT entry.id, entry.tier, entry.confidence, entry.uses, entry.as_of,
        led.id, led.content, led.title, led.origin, led.run_id, led.key, FALSE
    FROM memory_memoryitem led
    JOIN memory_indexentry entry ON entry.tenant_id = led.tenant_id AND entry.item_id = led.id
    WHERE led.tenant_id = %(tenant)s AND led.status = 'active'
        AND (led.expires_at IS NULL OR led.expires_at > %(now)s)
        AND (led.end_user_id = %(user)s OR led.team_id = ANY (%(teams)s::text[]))
        AND (%(role)s IS NULL OR led.role = %(role)s)
        AND (%(as_of)s IS NULL OR entry.as_of <= %(as_of)s)
    ORDER BY led.updated_at DESC, led.id DESC LIMIT %(limit)s
"""
_NEWEST_CORE: Final = """
    SELECT entry.id, entry.tier, entry.confidence, entry.uses, entry.as_of,
        led.id, led.fact, led.subject, led.origin, led.run_id, NULL, FALSE
    FROM memory_corefact led
    JOIN memory_indexentry entry ON entry.tenant_id = led.tenant_id AND entry.fact_id = led.id
    WHERE led.tenant_id = %(tenant)s AND led.end_user_id = %(user)s
        AND led.valid_from <= %(at)s AND (led.valid_to IS NULL OR led.valid_to > %(at)s)
    ORDER BY led.valid_from DESC, led.id DESC LIMIT %(limit)s
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class FoundRow:
    """What an entry leads to; `id` is the recall entry's, the chunk's, the item's or the fact's.

    `is_over` says that it is there but not to be shown: expired, or not so at the time asked for.
    """

    entry_id: str
    id: str
    kind: str
    content: str
    tier: str
    confidence: float | None
    uses: int
    said_at: datetime
    source: Source
    title: str = ""
    thread_id: str | None = None
    speaker: str = ""
    is_over: bool = False


def read_found(
    *, scope: Scope, ids_by_kind: dict[str, list[str]], query: RecallQuery
) -> dict[str, FoundRow]:
    """Return the rows of entries by entry id; those that are gone, or not the scope's, are missing.

    Cost: one statement a kind that is asked for.
    """
    values: dict[str, Any] = {"tenant": scope.tenant_id, **_moments(query)}
    found: dict[str, FoundRow] = {}
    for kind, ids in ids_by_kind.items():
        with connection.cursor() as cursor:
            statement, made = _READING[kind]
            cursor.execute(statement, values | {"ids": ids})
            found |= {row[0]: made(row) for row in cursor.fetchall()}
    return found


def _moments(query: RecallQuery) -> dict[str, datetime]:
    return {"now": query.now, "at": query.as_of or query.now}


def read_newest(*, scope: Scope, query: RecallQuery) -> list[FoundRow]:
    """Return the newest of each kind of the scope's person, as the query filters.

    Of a document its beginning. Cost: one statement for each kind that is asked for.
    """
    values: dict[str, Any] = {
        "tenant": scope.tenant_id,
        "user": scope.user_id,
        "teams": list(scope.team_ids),
        "role": query.role,
        "as_of": query.as_of,
        "skip": query.skip_thread_id,
        **_moments(query),
    }
    found: list[FoundRow] = []
    for kind, (statement, made) in _READING_NEWEST.items():
        if kind in query.kinds and (scope.user_id is not None or kind in _SHARED):
            limit = query.limit_by_kind.get(kind, query.limit)
            with connection.cursor() as cursor:
                cursor.execute(statement, values | {"limit": limit})
                found += [made(row) for row in cursor.fetchall()]
    return found


def _turn(row: Sequence[Any]) -> FoundRow:
    entry_id, tier, confidence, uses, as_of, led_id, said, answered, speaker, *ids = row
    run_id, thread_id, external_id = ids
    return FoundRow(
        entry_id=entry_id,
        id=led_id,
        kind="recall",
        content=f"{said}\n{answered}" if said and answered else said or answered,
        tier=tier,
        confidence=confidence,
        uses=uses,
        said_at=as_of,
        source=Source(kind="run", id=run_id, external_id=external_id),
        thread_id=thread_id,
        speaker=speaker,
    )


def _chunk(row: Sequence[Any]) -> FoundRow:
    entry_id, tier, confidence, uses, as_of, led_id, content, title, document, external = row
    return FoundRow(
        entry_id=entry_id,
        id=led_id,
        kind="knowledge",
        content=content,
        tier=tier,
        confidence=confidence,
        uses=uses,
        said_at=as_of,
        source=Source(kind="document", id=document, external_id=external),
        title=title,
    )


def _learned(kind: str, *, has_title: bool) -> Callable[[Sequence[Any]], FoundRow]:
    """Return what makes the row of an item or of a fact; of an item its title is shown."""

    def made(row: Sequence[Any]) -> FoundRow:
        entry_id, tier, confidence, uses, as_of, led_id, content, title, *origin = row
        origin_kind, run_id, key, is_over = origin
        return FoundRow(
            entry_id=entry_id,
            id=led_id,
            kind=kind,
            content=content,
            tier=tier,
            confidence=confidence,
            uses=uses,
            said_at=as_of,
            source=Source(kind=origin_kind, id=run_id, external_id=key),
            title=title if has_title else "",
            is_over=is_over is True,
        )

    return made


_item, _fact = _learned("item", has_title=True), _learned("core", has_title=False)
_READING: Final = {
    "recall": (_RECALL, _turn),
    "knowledge": (_KNOWLEDGE, _chunk),
    "item": (_ITEM, _item),
    "core": (_CORE, _fact),
}
_READING_NEWEST: Final = {
    "recall": (_NEWEST, _turn),
    "item": (_NEWEST_ITEMS, _item),
    "core": (_NEWEST_CORE, _fact),
    "knowledge": (_NEWEST_KNOWLEDGE, _chunk),
}
# What there is without a person too.
_SHARED: Final = frozenset({"item", "knowledge"})
