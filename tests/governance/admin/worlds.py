"""Two of everything: a tenant whose every string is a canary, and one that must never see it."""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import timedelta
from itertools import count
from typing import Any

from django.contrib.auth.models import User
from django.db import models
from django.test import Client

from governance.models import (
    ApiKey,
    AuditEntry,
    AuditSeal,
    BulkDecision,
    CoreCandidate,
    Correction,
    EntityCandidate,
    Erasure,
    ExportLink,
    LegalHold,
    TenantPolicy,
)
from governance.policy import change_policy
from memory.models import (
    BehaviourSample,
    CoreFact,
    EndUser,
    Entity,
    EntityEvent,
    EntityMerge,
    Job,
    KnowledgeDocument,
    MemoryItem,
    MemoryOp,
    Tenant,
)
from memory.rls import scoped_transaction
from tests.factories import (
    NOW,
    MadeKey,
    make_agent,
    make_end_user,
    make_key,
    make_provider,
    make_run,
    make_staff,
    make_tenant,
    make_thread,
    scope_of,
)
from threads.models import (
    Agent,
    Artifact,
    ContextTrace,
    Message,
    Provider,
    Run,
    RunTrace,
    Thread,
    ThreadSummary,
)

_numbers = count(1)
ROOMS: tuple[type[models.Model], ...] = (
    Tenant, EndUser, ApiKey, AuditEntry, Job, MemoryOp, Provider, Agent, Thread, Run, Message,
    Artifact, ContextTrace, KnowledgeDocument, CoreCandidate, CoreFact, EntityCandidate, Entity,
    EntityMerge, Correction, BehaviourSample, MemoryItem, BulkDecision, TenantPolicy, AuditSeal,
    Erasure, LegalHold, ExportLink,
)  # fmt: skip


@dataclass
class World:
    """One tenant with a row in every room, all of whose texts hold `word`."""

    word: str
    tenant: Tenant
    end_user: EndUser
    provider: Provider
    agent: Agent
    thread: Thread
    run: Run
    message: Message
    artifact: Artifact
    trace: ContextTrace
    job: Job
    op: MemoryOp
    document: KnowledgeDocument
    key: MadeKey
    staff: User
    rows: dict[type[models.Model], str] = field(default_factory=dict)

    def strings(self) -> set[str]:
        """What nobody else may ever be shown."""
        return {self.word, *self.rows.values()}


def make_world(word: str) -> World:
    tenant = make_tenant(slug=word)
    world = fill(tenant, word, staff=make_staff(tenant))
    with scoped_transaction(scope_of(tenant)):
        entry = AuditEntry.objects.in_scope(scope_of(tenant)).order_by("id").first()
    assert entry is not None
    world.rows[AuditEntry] = entry.id
    return world


def _policy_row(tenant: Tenant) -> str:
    scope = scope_of(tenant)
    change_policy(scope=scope, changes={"idle_minutes": 31}, now=NOW)
    with scoped_transaction(scope):
        return TenantPolicy.objects.in_scope(scope).get().pk


def fill(tenant: Tenant, word: str, *, staff: User) -> World:
    """Put a row of each kind into the tenant."""
    person = make_end_user(tenant, user_id=f"{word}-person")
    provider = make_provider(tenant, name=f"{word}-provider", vendor=f"{word}-vendor")
    agent = make_agent(tenant, provider, name=f"{word}-agent", system_prompt=f"{word} prompt")
    thread = make_thread(agent, person, title=f"{word} title", external_key=f"{word}-key")
    run = make_run(thread, input=f"{word} question", output=f"{word} answer")
    hanging = _hanging_rows(word, tenant, run, thread, person)
    key = make_key(tenant, name=f"{word} key")
    world = World(
        word=word, tenant=tenant, end_user=person, provider=provider, agent=agent, thread=thread,
        run=run, key=key, staff=staff, **hanging,
    )  # fmt: skip
    learned = _learned_rows(word, tenant, run, message=hanging["message"], staff=staff)
    proved = _proved_rows(word, tenant, person)
    made = (tenant, person, provider, agent, thread, run, *hanging.values(), *learned, *proved)
    world.rows = {type(row): str(row.pk) for row in made} | {ApiKey: key.id}
    world.rows[TenantPolicy] = _policy_row(tenant)
    return world


def _proved_rows(word: str, tenant: Tenant, person: EndUser) -> tuple[models.Model, ...]:
    """A link of the chain, an erasure that is done, a hold that is over, a link to an export."""
    about = {"tenant": tenant, "subject_id": person.pk}
    with scoped_transaction(scope_of(tenant)):
        return (
            AuditSeal.objects.create(
                tenant=tenant,
                seq=next(_numbers),
                entries=1,
                root="0" * 64,
                hash="1" * 64,
                sealed_at=NOW,
            ),
            Erasure.objects.create(
                **about,
                subject_hmac="2" * 64,
                subject_epoch=1,
                mode="tagged",
                status="failed",
                error_code=f"{word}-code",
                receipt={"said": word},
                requested_by=f"{word}-asked",
            ),
            LegalHold.objects.create(
                **about, reason=f"{word} reason", placed_by="test", released_at=NOW
            ),
            ExportLink.objects.create(
                tenant=tenant,
                end_user=person,
                token_sha256=word,
                created_by="test",
                created_at=NOW,
                expires_at=NOW + timedelta(days=1),
            ),
        )


def _hanging_rows(
    word: str, tenant: Tenant, run: Run, thread: Thread, person: EndUser
) -> dict[str, Any]:
    place = {"tenant": tenant, "end_user_id": run.end_user_id, "thread_id": run.thread_id}
    with scoped_transaction(scope_of(tenant)):
        message = Message.objects.create(
            **place, run=run, position=0, role="user", content=f"{word} content"
        )
        RunTrace.objects.create(
            tenant=tenant, run=run, end_user_id=run.end_user_id, items=[{"content": word}]
        )
        artifact = Artifact.objects.create(
            **place, run=run, name=f"{word}.md", content=f"{word} file", bytes=1
        )
        trace = ContextTrace.objects.create(
            **place, agent_id=run.agent_id, messages=[{"content": word}], items=[{"content": word}]
        )
        job = make_dead_job(tenant, word, thread_id=run.thread_id)
        op = MemoryOp.objects.create(
            **place, kind="roll_summary", model=f"{word}-model", outcome=f"{word}-outcome",
            input_tokens=1, output_tokens=1,
        )  # fmt: skip
        document = KnowledgeDocument.objects.create(
            tenant=tenant, end_user=person, title=f"{word} document", kind="note", origin="api",
            content=f"{word} knowledge", sha256="0" * 64, bytes=1, reason=f"{word} reason",
        )  # fmt: skip
    with scoped_transaction(scope_of(tenant, person, thread)):
        ThreadSummary.objects.create(
            tenant=tenant,
            thread_id=run.thread_id,
            end_user_id=run.end_user_id,
            rolling_summary=f"{word} summary",
            summary_upto_seq=7,
        )
    return {
        "message": message, "artifact": artifact, "trace": trace, "job": job, "op": op,
        "document": document,
    }  # fmt: skip


def _vocabulary_rows(
    word: str, whose: dict[str, Any], run: Run, *, message: Message, actor: str
) -> tuple[models.Model, ...]:
    """A correction, its candidate, an entity with a history and a merge of two."""
    tenant = whose["tenant"]
    proposed, approved = (
        EntityCandidate.objects.create(
            tenant=tenant, entity_type="course", term=f"{word} term {status}",
            term_key=f"{word} {status}", status=status, decided_at=at, evidence_count=1,
        )
        for status, at in (("pending", None), ("approved", NOW))
    )  # fmt: skip
    correction = Correction.objects.create(
        **whose, thread_id=run.thread_id, run=run, message=message, entity_type="course",
        term=f"{word} term", term_key=f"{word} term", wrong=f"{word} wrong",
        right=f"{word} right", candidate=proposed, created_by=f"{word} key",
        pii=[{"kind": "phone", "start": 0, "end": 2}],
    )  # fmt: skip
    other, entity = (
        Entity.objects.create(
            tenant=tenant, entity_type="course", term=f"{word} entity {number}",
            term_key=f"{word} entity {number}", aliases=[f"{word} alias"], candidate=approved,
            approved_at=NOW, approved_by=actor,
        )
        for number in (1, 2)
    )  # fmt: skip
    for after in (1.1, 1.21):
        EntityEvent.objects.create(
            tenant=tenant, entity=entity, kind="edited", weight_before=1, weight_after=after,
            by=f"{word} worker",
        )  # fmt: skip
    merge = EntityMerge.objects.create(tenant=tenant, source=other, target=entity, score=0.9)
    return proposed, entity, merge, correction


def _learned_rows(
    word: str, tenant: Tenant, run: Run, *, message: Message, staff: User
) -> tuple[models.Model, ...]:
    """A row of each table of governed memory."""
    whose: dict[str, Any] = {"tenant": tenant, "end_user_id": run.end_user_id}
    by_run = {"origin": "run", "run": run}
    actor = f"staff:{staff.pk}"
    with scoped_transaction(scope_of(tenant)):
        waits, confirmed = (
            CoreCandidate.objects.create(
                **whose, **by_run, fact=f"{word} fact {status}", subject=f"{word} subject",
                fact_key=f"{word} {status}", evidence=f"{word} evidence", proposed_by="worker",
                pii=[{"kind": "phone", "start": 0, "end": 2}], flags=["pii"], status=status,
                decided_at=at, reason=f"{word} reason",
            )
            for status, at in (("pending", None), ("confirmed", NOW))
        )  # fmt: skip
        fact = CoreFact.objects.create(
            **whose, **by_run, fact=f"{word} holds", subject=f"{word} subject",
            fact_key=f"{word} holds", candidate=confirmed, valid_from=NOW,
            decided_by_kind="staff", decided_by_id=actor, pii=[{"kind": "email", "start": 0, "end": 2}],
        )  # fmt: skip
        terms = _vocabulary_rows(word, whose, run, message=message, actor=actor)
        sample = BehaviourSample.objects.create(
            tenant=tenant, agent_id=run.agent_id, kind="intent", name=f"{word} name",
            content=f"{word} rule", sample_key=word, origin="api", proposed_by=f"{word} key",
        )  # fmt: skip
        item = MemoryItem.objects.create(
            **whose, category="memo", key="canary", key_folded=word, title=f"{word} title",
            content=f"{word} item", tier="stated", origin="api", written_by=f"{word} key",
            status="held",
            pii=[
                {"kind": "phone", "start": 0, "end": 2},
                {"kind": "phone", "start": 0, "end": 2},
            ],
        )  # fmt: skip
        bulk = BulkDecision.objects.create(
            tenant=tenant, kind="core_candidate", action="reject", reason=f"{word} reason",
            actor=actor, ids=[waits.pk],
        )  # fmt: skip
    return waits, fact, *terms, sample, item, bulk


def make_dead_job(tenant: Tenant, word: str, **values: Any) -> Job:
    with scoped_transaction(scope_of(tenant)):
        return Job.objects.create(
            tenant=tenant, kind="roll_summary", dedupe_key=f"{word}-dedupe", lane_key=1,
            status="dead", attempts=5, error_code=f"{word}-error", finished_at=NOW, **values,
        )  # fmt: skip


def signed_in(account: User) -> Client:
    client = Client()
    client.force_login(account, backend="django.contrib.auth.backends.ModelBackend")
    return client


def url_of(model: type[models.Model], tail: str = "") -> str:
    return f"/admin/{model._meta.app_label}/{model._meta.model_name}/{tail}"
