"""Shelves for tests: turns and documents as the worker would have indexed them, toy vectors, queries."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from itertools import count
from typing import Any

import numpy as np

from memory.cleared import Cleared
from memory.models import (
    EmbeddingModel,
    EmbeddingStatus,
    EndUser,
    IndexEntry,
    KnowledgeDocument,
    Team,
    Tenant,
)
from memory.retrieval.codes import Vector
from memory.retrieval.copies import open_shelves
from memory.retrieval.limits import TimeLimit
from memory.retrieval.records import Described, pack
from memory.retrieval.results import RecallQuery, Retrieval, Settings
from memory.retrieval.search import search
from memory.retrieval.shelf_copy import ShelfCopy
from memory.retrieval.words import hashed, words_of
from memory.rls import scoped_transaction
from memory.scope import Scope
from memory.store import (
    NewChunk,
    NewEntry,
    NewRecall,
    NewVector,
    Origin,
    Owner,
    add_chunks,
    add_entries,
    add_recall,
    ensure_shelf,
    put_vectors,
)
from tests.factories import NOW, make_agent, make_end_user, make_tenant, make_thread, scope_of
from threads.models import Agent, Run, Thread

DIMENSIONS = 64
MANY = 20_000
_names = count(1)
SETTINGS = Settings(
    weights={"relevance": 0.7, "recency": 0.12, "credence": 0.13, "frequency": 0.05},
    half_life_days={"recall": 30, "item": 180, "knowledge": 365, "message": 30},
    credence={
        "fact": 1.0,
        "approved": 0.95,
        "stated": 0.8,
        "observed": 0.6,
        "material": 0.6,
        "derived": 0.5,
        "untrusted": 0.2,
    },
    freshness_days={"recall": 90, "knowledge": 365},
    exact_rows=20_000,
    limit_ms=30_000,
)


@dataclass(frozen=True)
class Person:
    """An end user with an agent and a thread to have said things in."""

    tenant: Tenant
    end_user: EndUser
    agent: Agent
    thread: Thread

    @property
    def scope(self) -> Scope:
        return scope_of(self.tenant, self.end_user)

    @property
    def owner(self) -> Owner:
        return Owner(end_user_id=self.end_user.id)


def make_person(tenant: Tenant | None = None, user_id: str | None = None) -> Person:
    """A person of a tenant, by default one of its own."""
    tenant = tenant or make_tenant()
    agent, end_user = make_agent(tenant), make_end_user(tenant, user_id)
    return Person(tenant, end_user, agent, make_thread(agent, end_user))


def make_team(tenant: Tenant) -> Team:
    """A team of the tenant, without members: scopes name it themselves."""
    with scoped_transaction(scope_of(tenant)):
        return Team.objects.create(tenant=tenant, name=f"team-{next(_names)}")


def make_model(tenant: Tenant, dimensions: int = DIMENSIONS, **values: Any) -> EmbeddingModel:
    """A model of toy vectors, active unless told otherwise."""
    values = {"kind": "usem3", "name": f"toy-{next(_names)}", "status": EmbeddingStatus.ACTIVE} | (
        values
    )
    with scoped_transaction(scope_of(tenant)):
        return EmbeddingModel.objects.create(tenant=tenant, dimensions=dimensions, **values)


def toy_vector(text: str, dimensions: int = DIMENSIONS) -> Vector:
    """A unit vector that is near for texts that share words."""
    total = np.zeros(dimensions)
    for word in hashed(words_of(text) or [text]).tolist():
        total += np.random.default_rng(word).normal(size=dimensions)
    return (total / np.linalg.norm(total)).astype(np.float32)


def shelve(
    person: Person,
    texts: Sequence[str],
    *,
    model: EmbeddingModel | None = None,
    answers: Sequence[str] | None = None,
    said_at: datetime = NOW,
    step: timedelta = timedelta(minutes=1),
    role: str = "",
    tier: str = "observed",
    thread: Thread | None = None,
    speaker: str | None = None,
    confidence: float | None = None,
) -> list[str]:
    """Index turns of a person and return the recall entries' ids, in the order of the texts.

    The first is said at `said_at`, each other a step later.
    """
    thread = thread or person.thread
    answers = answers or [""] * len(texts)
    runs = _runs(person, thread, texts)
    turns = [
        NewRecall(
            run_id=run.id,
            said=cleared(text),
            answered=cleared(answer) if answer else None,
            tier="untrusted" if tier == "untrusted" else "observed",
            said_at=said_at + step * place,
            speaker=cleared(speaker) if speaker else None,
        )
        for place, (run, text, answer) in enumerate(zip(runs, texts, answers, strict=True))
    ]
    origin = Origin(
        end_user_id=person.end_user.id, thread_id=thread.id, agent_id=person.agent.id, role=role
    )
    with scoped_transaction(person.scope):
        made = add_recall(scope=person.scope, origin=origin, turns=turns, now=NOW)
        recall_ids = [made[run.id] for run in runs]
        entries = [
            NewEntry(
                kind="recall",
                recall_id=made[turn.run_id],
                role=role,
                tier=tier,
                confidence=confidence,
                as_of=turn.said_at,
                packed=_packed(turn, thread=thread, place=run.seq, role=role),
            )
            for run, turn in zip(runs, turns, strict=True)
        ]
        add_entries(scope=person.scope, owner=person.owner, entries=entries, now=NOW)
    if model is not None:
        embed(person, model, recall_ids, texts)
    return recall_ids


def cleared(text: str, tier: str = "observed") -> Cleared:
    """Return a text as if the gate had let it through."""
    return Cleared(text=text, tier=tier)


def _packed(turn: NewRecall, *, thread: Thread, place: int, role: str) -> bytes:
    return pack(
        Described(
            kind="recall",
            text="\n".join(one.text if one else "" for one in (turn.said, turn.answered)),
            session=thread.id,
            place=place,
            said_at=turn.said_at,
            role=role,
            speaker=turn.speaker.text if turn.speaker else None,
        )
    )


def embed(
    person: Person,
    model: EmbeddingModel,
    recall_ids: Sequence[str],
    texts: Sequence[str],
    vectors: Sequence[Vector] | None = None,
) -> None:
    """Give entries their toy vectors, or those that are handed in."""
    vectors = vectors or [toy_vector(text, model.dimensions) for text in texts]
    with scoped_transaction(person.scope):
        entries = dict(
            IndexEntry.objects.in_scope(person.scope)
            .filter(recall_id__in=recall_ids)
            .values_list("recall_id", "id")
        )
        put_vectors(
            scope=person.scope,
            shelf_id=ensure_shelf(scope=person.scope, owner=person.owner),
            model_id=model.id,
            vectors=[
                NewVector(entry_id=entries[recall_id], vector=vector)
                for recall_id, vector in zip(recall_ids, vectors, strict=True)
            ],
            now=NOW,
        )


def file_document(
    tenant: Tenant,
    chunks: Sequence[str],
    *,
    owner: Owner | None = None,
    title: str = "Handbook",
    external_id: str | None = None,
) -> KnowledgeDocument:
    """Admit a document of the tenant, or of another owner, and index its chunks."""
    owner, scope = owner or Owner(), scope_of(tenant)
    with scoped_transaction(scope):
        document = KnowledgeDocument.objects.create(
            tenant=tenant,
            end_user_id=owner.end_user_id,
            team_id=owner.team_id,
            title=title,
            kind="handbook",
            status="admitted",
            content="\n".join(chunks),
            sha256="0" * 64,
            bytes=1,
            origin="staff",
            external_id=external_id,
            decided_at=NOW,
        )
        made = add_chunks(
            scope=scope,
            owner=owner,
            document_id=document.id,
            chunks=[
                NewChunk(
                    position=place, start_char=0, end_char=len(text) + 1, content=cleared(text)
                )
                for place, text in enumerate(chunks)
            ],
            now=NOW,
        )
        entries = [
            NewEntry(
                kind="knowledge",
                chunk_id=made[place],
                tier="material",
                as_of=NOW,
                packed=pack(
                    Described(
                        kind="knowledge",
                        text=text,
                        session=document.id,
                        place=place,
                        said_at=NOW,
                    )
                ),
            )
            for place, text in enumerate(chunks)
        ]
        add_entries(scope=scope, owner=owner, entries=entries, now=NOW)
    return document


def query_of(text: str, *, model: EmbeddingModel | None = None, **values: Any) -> RecallQuery:
    """A question at NOW; with a model, its toy vector too."""
    given: dict[str, Any] = {"now": NOW, "settings": SETTINGS}
    if model is not None:
        given |= {"vector": toy_vector(text, model.dimensions), "model_id": model.id}
    return RecallQuery(text=text, **given | values)


def ask(scope: Scope, query: RecallQuery) -> Retrieval:
    """Search in a scoped transaction of its own."""
    with scoped_transaction(scope):
        return search(scope=scope, query=query)


def opened_copies(
    scope: Scope, model: EmbeddingModel | None = None, most: int = MANY
) -> list[ShelfCopy]:
    """Current copies of the shelves of a scope."""
    model_id = model.id if model else None
    with scoped_transaction(scope):
        return open_shelves(
            scope=scope, model_id=model_id, most_codes=most, limit=TimeLimit(60_000)
        )


def only_copy(scope: Scope, model: EmbeddingModel | None = None, most: int = MANY) -> ShelfCopy:
    """The current copy of the only shelf of a scope."""
    (copy,) = opened_copies(scope, model, most)
    return copy


def packed_entries(person: Person) -> dict[bytes, bytes]:
    """A person's records by entry id."""
    with scoped_transaction(person.scope):
        rows = IndexEntry.objects.in_scope(person.scope).values_list("id", "packed")
        return {pk.encode(): bytes(packed) for pk, packed in rows}


def assert_equal_to_rows(copy: ShelfCopy, person: Person) -> None:
    """A copy holds each of a person's records, and no other."""
    rows = packed_entries(person)
    assert len(copy) == len(rows) == len(set(copy.ids.tolist()))
    start = 0
    for place, end in enumerate(copy.ends.tolist()):
        packed = copy.heads[place].tobytes() + copy.words[start:end].tobytes()
        assert packed == rows[bytes(copy.ids[place])]
        start = end
    assert start == len(copy.words)


def _runs(person: Person, thread: Thread, texts: Sequence[str]) -> list[Run]:
    with scoped_transaction(person.scope):
        last = Run.objects.in_scope(person.scope).filter(thread=thread).count()
        return Run.objects.bulk_create(
            Run(
                tenant=person.tenant,
                thread=thread,
                agent=person.agent,
                end_user=person.end_user,
                seq=last + place,
                status="succeeded",
                origin="api",
                input=text,
                output="",
                created_at=NOW,
                finished_at=NOW,
            )
            for place, text in enumerate(texts, 1)
        )
