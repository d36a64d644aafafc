"""Rows of recall, knowledge and the index for a tenant of the isolation tests, by every owner."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from memory.models import (
    Embedding,
    EmbeddingModel,
    IndexEntry,
    KnowledgeChunk,
    KnowledgeDocument,
    RecallEntry,
    Shelf,
    Tenant,
)
from tests.factories import NOW
from threads.models import Agent, Run

DIMENSIONS = 3


@dataclass(frozen=True, slots=True, kw_only=True)
class Spares:
    """Rows that lead to something no other row leads to yet."""

    entry: IndexEntry
    chunk: KnowledgeChunk


def make_model(tenant: Tenant, mark: str) -> EmbeddingModel:
    """The model that a tenant's vectors come from."""
    return EmbeddingModel.objects.create(
        tenant=tenant, kind="usem3", name=f"{mark}model", dimensions=DIMENSIONS, status="active"
    )


def recall(run: Run, agent: Agent, mark: str) -> RecallEntry:
    """What one run left behind."""
    return RecallEntry.objects.create(
        tenant_id=run.tenant_id,
        end_user_id=run.end_user_id,
        thread_id=run.thread_id,
        run=run,
        agent=agent,
        role=agent.role,
        said=f"{mark}said 说",
        answered=f"{mark}answered",
        speaker=mark,
        external_id=f"{mark}recall",
        tier="observed",
        said_at=NOW,
    )


def make_shelf(whose: dict[str, Any]) -> Shelf:
    """The shelf of an owner: `tenant`, and `end_user` or `team`."""
    return Shelf.objects.create(**whose)


def index(shelf: Shelf, whose: dict[str, Any], mark: str, **leads_to: Any) -> IndexEntry:
    """An entry that leads to a recall entry or a chunk."""
    return IndexEntry.objects.create(
        **whose,
        **leads_to,
        shelf=shelf,
        kind="recall" if "recall" in leads_to else "knowledge",
        version=1,
        packed=mark.encode(),
        tier="observed",
        as_of=NOW,
    )


def embed(entry: IndexEntry, model: EmbeddingModel, whose: dict[str, Any], mark: str) -> Embedding:
    """The vector of an entry."""
    return Embedding.objects.create(
        **whose,
        entry=entry,
        model=model,
        status="ready",
        vector=[1.0] * DIMENSIONS,
        code=mark.encode(),
        version=1,
    )


def document(whose: dict[str, Any], mark: str, *, chunks: int = 1) -> list[KnowledgeChunk]:
    """The chunks of an admitted document of an owner."""
    made = KnowledgeDocument.objects.create(
        **whose,
        title=f"{mark}title 标题",
        kind="manual",
        status="admitted",
        content=f"{mark}content",
        sha256="0" * 64,
        bytes=1,
        origin="api",
        external_id=f"{mark}document",
        decided_at=NOW,
        decided_by="test",
        chunk_count=chunks,
    )
    return [
        KnowledgeChunk.objects.create(
            **whose,
            document=made,
            position=position,
            start_char=position,
            end_char=position + 1,
            heading=f"{mark}heading",
            content=f"{mark}chunk 段",
        )
        for position in range(chunks)
    ]


def fill_owner(whose: dict[str, Any], model: EmbeddingModel, mark: str) -> None:
    """One row of each table that people, teams and tenants have in common."""
    (chunk,) = document(whose, mark)
    embed(index(make_shelf(whose), whose, mark, chunk=chunk), model, whose, mark)


def fill_person(run: Run, agent: Agent, model: EmbeddingModel, mark: str) -> None:
    """One row of each table of recall, of one person."""
    whose = {"tenant_id": run.tenant_id, "end_user_id": run.end_user_id}
    document(whose, mark)
    entry = index(make_shelf(whose), whose, mark, recall=recall(run, agent, mark))
    embed(entry, model, whose, mark)


def fill_shared(tenant: Tenant, model: EmbeddingModel, mark: str) -> Spares:
    """What a whole tenant shares, with an entry that has no vector and a chunk without entry."""
    whose: dict[str, Any] = {"tenant": tenant}
    first, second, third = document(whose, f"{mark}shared ", chunks=3)
    shelf = make_shelf(whose)
    embed(index(shelf, whose, mark, chunk=first), model, whose, mark)
    return Spares(entry=index(shelf, whose, mark, chunk=second), chunk=third)
