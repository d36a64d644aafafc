"""Indexing anew: what was stored before there was an index, or before words were made otherwise."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Final

from django.db import connection

from governance.gate import stored
from governance.policy import tenant_overrides
from governance.policy_rules import effective
from memory import jobs, store
from memory.cleared import Cleared
from memory.errors import NotFoundError
from memory.models import IndexEntry, Shelf
from memory.retrieval.learned_records import fact_record, item_record
from memory.retrieval.words import message_terms
from memory.rls import scoped_transaction
from memory.scope import Scope
from threads.models import Message, Thread
from threads.recall.chunk_records import chunk_record
from threads.recall.indexing import index_job
from threads.recall.learning import record_of

_BATCH: Final = 500
_SET_TERMS: Final = """
    UPDATE threads_message message SET terms = given.terms::int[]
    FROM unnest(%(ids)s::text[], %(terms)s::text[]) AS given (id, terms)
    WHERE message.tenant_id = %(tenant)s AND message.id = given.id AND message.terms IS NULL
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class ReindexReport:
    """What was done, in counts.

    Attributes:
        messages: Messages that got their words.
        threads: Threads whose index was asked for and had no job for that yet.
        entries: Entries whose record was written anew.
    """

    messages: int
    threads: int
    entries: int


def reindex(*, scope: Scope, now: datetime, is_rebuild: bool = False) -> ReindexReport:
    """Fill in what a tenant's index lacks, in batches of one transaction each; safe to repeat.

    Threads are indexed by the worker; those whose policy keeps nothing are left out. Cost: linear in
    the tenant's messages and threads, and with `is_rebuild` in its entries.

    Args:
        scope: Of one tenant, without a person.
        now: For the jobs' times.
        is_rebuild: Write all records anew, after words or traits have changed.
    """
    return ReindexReport(
        messages=sum(_fill_terms(scope)),
        threads=sum(_ask(scope, now)),
        entries=sum(_rebuild(scope)) if is_rebuild else 0,
    )


def _fill_terms(scope: Scope) -> Iterator[int]:
    """Give messages their words, oldest id first; yield how many of each batch."""
    after = ""
    while True:
        with scoped_transaction(scope):
            rows = Message.objects.in_scope(scope).filter(terms__isnull=True, id__gt=after)
            batch = list(rows.order_by("id").values_list("id", "content")[:_BATCH])
            if not batch:
                return
            terms = [_array(message_terms(content)) for _, content in batch]
            ids = [message_id for message_id, _ in batch]
            with connection.cursor() as cursor:
                values: dict[str, Any] = {"tenant": scope.tenant_id, "ids": ids, "terms": terms}
                cursor.execute(_SET_TERMS, values)
                yield cursor.rowcount
        after = batch[-1][0]


def _array(terms: list[int]) -> str:
    # Arrays of different lengths are no array of arrays, so each is written out.
    return "{" + ",".join(map(str, terms)) + "}"


def _ask(scope: Scope, now: datetime) -> Iterator[int]:
    """Ask for the index of every thread; yield how many jobs of each batch are new."""
    after = ""
    while True:
        with scoped_transaction(scope):
            tenant = tenant_overrides(scope=scope)
            rows = Thread.objects.in_scope(scope).filter(id__gt=after, run_count__gt=0)
            named = rows.order_by("id").values_list("id", "end_user_id", "agent__policy")
            batch = list(named[:_BATCH])
            if not batch:
                return
            wanted = [
                index_job(thread_id=thread_id, end_user_id=end_user_id, run_id=None)
                for thread_id, end_user_id, policy in batch
                if effective(tenant, policy).is_on("writeback")
            ]
            yield jobs.enqueue_all(scope=scope, wanted=wanted, now=now)
        after = batch[-1][0]


def _rebuild(scope: Scope) -> Iterator[int]:
    with scoped_transaction(scope):
        shelves = list(Shelf.objects.in_scope(scope).order_by("id").values_list("id", flat=True))
    for shelf_id in shelves:
        yield from _rebuild_shelf(scope, shelf_id)


def _rebuild_shelf(scope: Scope, shelf_id: str) -> Iterator[int]:
    """Write the records of a shelf anew; yield how many of each batch."""
    after = ""
    while True:
        with scoped_transaction(scope):
            rows = IndexEntry.objects.in_scope(scope).filter(shelf_id=shelf_id, id__gt=after)
            rows = rows.select_related("recall__run", "chunk__document", "item", "fact").order_by(
                "id"
            )
            batch = list(rows[:_BATCH])
            if not batch:
                return
            packed = {entry.pk: _record(entry) for entry in batch}
            yield store.repack(scope=scope, shelf_id=shelf_id, packed=packed)
        after = batch[-1].pk


def _record(entry: IndexEntry) -> bytes:
    if entry.item is not None:
        return item_record(
            item_id=entry.item.pk,
            role=entry.role,
            key=entry.item.key,
            title=entry.item.title,
            content=entry.item.content,
            said_at=entry.as_of,
        )
    if entry.fact is not None:
        fact, subject = entry.fact.fact, entry.fact.subject
        return fact_record(fact_id=entry.fact.pk, fact=fact, subject=subject, said_at=entry.as_of)
    if entry.recall is None:
        return _chunk_record(entry)
    recall = store.NewRecall(
        run_id=entry.recall.run_id,
        said=_stored(entry, entry.recall.said),
        answered=_stored(entry, entry.recall.answered),
        tier=entry.tier,
        said_at=entry.as_of,
        speaker=_stored(entry, entry.recall.speaker or ""),
    )
    place, thread_id = entry.recall.run.seq, entry.recall.thread_id
    return record_of(thread_id=thread_id, place=place, recall=recall, role=entry.role)


def _stored(entry: IndexEntry, text: str) -> Cleared | None:
    return stored(text=text, tier=entry.tier) if text else None


def _chunk_record(entry: IndexEntry) -> bytes:
    """Return the record of a stretch of a document, as the job that indexes documents makes it."""
    chunk = entry.chunk
    if chunk is None:
        raise NotFoundError
    return chunk_record(
        title=chunk.document.title,
        heading=chunk.heading,
        content=chunk.content,
        document_id=chunk.document_id,
        position=chunk.position,
        said_at=entry.as_of,
    )
