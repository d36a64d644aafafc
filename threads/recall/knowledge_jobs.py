"""Indexing an admitted document: its chunks, the entries that lead to them, and a wish for vectors.

The document's text never changes, so the chunks of a second try are those of the first: what is
there is passed over, and after a crash the next try goes on where this one ended.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Final

from django.utils import timezone

from governance.gate import stored
from governance.knowledge.chunking import Chunk, chunks
from governance.knowledge.decisions import JOB_KEY, owner_of
from memory import jobs, store
from memory.models import DocumentStatus, KnowledgeChunk, KnowledgeDocument
from memory.querysets import ScopedQuerySet
from memory.rls import scoped_transaction
from memory.scope import Scope
from threads.recall.chunk_records import chunk_record

BATCH_CHUNKS: Final = 500


@dataclass(frozen=True, slots=True)
class _Packed:
    """A chunk and the record it is found by."""

    chunk: Chunk
    record: bytes


def index_knowledge(*, scope: Scope, claim: jobs.Claim) -> None:
    """Handle an `index_knowledge` job: make an admitted document findable.

    A document that is gone, refused or still waiting is left alone. Each batch is cut and packed
    outside transactions and stored in one of its own. Cost: about eight statements for each 500
    chunks, and 0.1 ms a chunk.

    Raises:
        LeaseLostError: The job was claimed again; that claim goes on instead.
    """
    document_id = claim.dedupe_key.removeprefix(JOB_KEY)
    with scoped_transaction(scope):
        document = _admitted(scope, document_id).first()
    if document is None:
        return
    planned = chunks(document.content)
    _clear_other_chunks(scope, claim, document, planned)
    for start in range(0, len(planned), BATCH_CHUNKS):
        batch = list(_packed(document, planned[start : start + BATCH_CHUNKS]))
        if not _store(scope, claim, document, batch):
            return
    with scoped_transaction(scope):
        jobs.hold(scope=scope, claim=claim)
        _admitted(scope, document_id).update(chunk_count=len(planned))


def _admitted(scope: Scope, document_id: str) -> ScopedQuerySet[KnowledgeDocument]:
    rows = KnowledgeDocument.objects.in_scope(scope)
    return rows.filter(pk=document_id, status=DocumentStatus.ADMITTED)


def _is_locked(scope: Scope, document_id: str) -> bool:
    """Keep the document from being deleted until this transaction ends; False where it is gone."""
    rows = _admitted(scope, document_id).select_for_update(no_key=True, of=("self",))
    return bool(rows.values_list("pk", flat=True))


def _packed(document: KnowledgeDocument, batch: Sequence[Chunk]) -> Iterator[_Packed]:
    for chunk in batch:
        packed = chunk_record(
            title=document.title,
            heading=chunk.heading,
            content=chunk.content,
            document_id=document.pk,
            position=chunk.position,
            said_at=_said_at(document),
        )
        yield _Packed(chunk, packed)


def _said_at(document: KnowledgeDocument) -> datetime:
    return document.as_of or document.created_at


def _clear_other_chunks(
    scope: Scope, claim: jobs.Claim, document: KnowledgeDocument, planned: Sequence[Chunk]
) -> None:
    """Take away what an earlier version of this program cut differently, if there is any."""
    spans = {chunk.position: (chunk.start, chunk.end) for chunk in planned}
    with scoped_transaction(scope):
        jobs.hold(scope=scope, claim=claim)
        if not _is_locked(scope, document.pk):
            return
        rows = KnowledgeChunk.objects.in_scope(scope).filter(document_id=document.pk)
        there = rows.values_list("position", "start_char", "end_char")
        if all(spans.get(position) == (start, end) for position, start, end in there):
            return
        shelf_id = store.ensure_shelf(scope=scope, owner=owner_of(document))
        store.remove_entries(scope=scope, shelf_id=shelf_id, document_id=document.pk)
        rows.delete()


def _store(
    scope: Scope, claim: jobs.Claim, document: KnowledgeDocument, batch: Sequence[_Packed]
) -> bool:
    """Store a batch, the job before the shelf; False if the document is gone meanwhile."""
    owner, now = owner_of(document), timezone.now()
    with scoped_transaction(scope):
        jobs.hold(scope=scope, claim=claim)
        if not _is_locked(scope, document.pk):
            return False
        shelf_id = store.ensure_shelf(scope=scope, owner=owner)
        follow = jobs.embed_job(shelf_id=shelf_id, end_user_id=document.end_user_id)
        jobs.enqueue(scope=scope, job=follow, now=now)
        new = store.add_chunks(
            scope=scope,
            owner=owner,
            document_id=document.pk,
            chunks=[_new_chunk(document, packed.chunk) for packed in batch],
            now=now,
        )
        entries = [
            store.NewEntry(
                kind="knowledge",
                packed=packed.record,
                tier=document.tier,
                as_of=_said_at(document),
                chunk_id=new[packed.chunk.position],
            )
            for packed in batch
            if packed.chunk.position in new
        ]
        store.add_entries(scope=scope, owner=owner, entries=entries, now=now)
    return True


def _new_chunk(document: KnowledgeDocument, chunk: Chunk) -> store.NewChunk:
    heading = stored(text=chunk.heading, tier=document.tier) if chunk.heading else None
    return store.NewChunk(
        position=chunk.position,
        start_char=chunk.start,
        end_char=chunk.end,
        content=stored(text=chunk.content, tier=document.tier),
        heading=heading,
    )
