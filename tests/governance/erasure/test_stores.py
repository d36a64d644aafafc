"""Erasing reaches what is shared, encoded, merged or many, and leaves to others what is theirs."""

from __future__ import annotations

from datetime import timedelta
from itertools import pairwise
from typing import Any

import pytest
from django.contrib.admin.models import CHANGE, LogEntry
from django.contrib.auth.models import User
from django.contrib.contenttypes.models import ContentType
from django.contrib.sessions.backends.db import SessionStore
from django.contrib.sessions.models import Session
from django.utils import timezone
from django_q.brokers.orm import ORM
from django_q.models import OrmQ, Task
from django_q.tasks import async_task  # noqa: TID251 - what a stranger may have put there

from governance.entities.decisions import approve_candidate
from governance.entities.merges import merge
from governance.models import Correction, EntityCandidate
from governance.policy import change_policy
from memory.models import (
    CoreFact,
    EndUser,
    Entity,
    EntityMerge,
    IndexEntry,
    MemoryItem,
    MemoryItemVersion,
    MemoryOp,
    Team,
    Tenant,
)
from memory.retrieval.names import name_key
from memory.rls import scoped_transaction
from tests.factories import (
    NOW,
    make_agent,
    make_end_user,
    make_run,
    make_staff,
    make_tenant,
    make_thread,
    scope_of,
)
from tests.governance.erasure.scenes import erase, rows_naming
from tests.isolation.learned_rows import _candidate
from tests.talking import tell
from threads.models import IdempotencyRecord, Run, Thread

pytestmark = pytest.mark.usefixtures("committed_db")


@pytest.fixture
def tenant(committed_db: None) -> Tenant:
    return make_tenant()


def thread_of(person: EndUser) -> Thread:
    return make_thread(make_agent(Tenant(id=person.tenant_id)), person)


def corrected(thread: Thread, term: str, *, candidate: EntityCandidate) -> None:
    """Evidence of one person for a candidate."""
    with scoped_transaction(scope_of(Tenant(id=thread.tenant_id))):
        Correction.objects.create(
            tenant_id=thread.tenant_id,
            end_user_id=thread.end_user_id,
            thread=thread,
            entity_type="course",
            term=term,
            term_key=name_key(term),
            candidate=candidate,
            created_by="test",
        )
        candidate.evidence_count += 1
        candidate.save(update_fields=["evidence_count"])


def candidate_named(tenant: Tenant, term: str) -> EntityCandidate:
    with scoped_transaction(scope_of(tenant)):
        return EntityCandidate.objects.create(
            tenant=tenant, entity_type="course", term=term, term_key=name_key(term)
        )


def approved(tenant: Tenant, candidate: EntityCandidate) -> Entity:
    _, entity = approve_candidate(
        scope=scope_of(tenant), candidate_id=candidate.pk, by="staff:1", now=timezone.now()
    )
    assert entity is not None
    return entity


def left(tenant: Tenant, model: Any) -> list[Any]:
    with scoped_transaction(scope_of(tenant)):
        return list(model.objects.in_scope(scope_of(tenant)).order_by("pk"))


@pytest.mark.req("B19")
def test_entities_born_of_one_persons_words_go_and_others_keep_their_evidence(
    tenant: Tenant,
) -> None:
    """Cases 163 and 164, bug report I5."""
    goes, stays = make_end_user(tenant), make_end_user(tenant)
    ours, theirs = thread_of(goes), thread_of(stays)
    private, shared = candidate_named(tenant, "Quillfeather"), candidate_named(tenant, "标准日语")
    corrected(ours, "Quillfeather", candidate=private)
    for thread in (ours, theirs):
        corrected(thread, "标准日语", candidate=shared)
    approved(tenant, private)
    kept = approved(tenant, shared)
    done = erase(goes)
    assert [entity.pk for entity in left(tenant, Entity)] == [kept.pk]
    (candidate,) = left(tenant, EntityCandidate)
    assert (candidate.pk, candidate.evidence_count) == (shared.pk, 1)
    assert done.counts["entities"] == done.counts["entity_candidates"] == 1


def test_entities_stay_without_evidence_where_policy_says_so(tenant: Tenant) -> None:
    """Case 164: policy decides, and nothing survives silently: the evidence is gone."""
    change_policy(scope=scope_of(tenant), changes={"erase_entities": False}, now=NOW)
    person = make_end_user(tenant)
    candidate = candidate_named(tenant, "Quillfeather")
    corrected(thread_of(person), "Quillfeather", candidate=candidate)
    entity = approved(tenant, candidate)
    erase(person)
    assert [one.pk for one in left(tenant, Entity)] == [entity.pk]
    assert left(tenant, EntityCandidate)[0].evidence_count == 0
    assert left(tenant, Correction) == []


@pytest.mark.parametrize("is_target", [True, False])
def test_a_merge_with_an_entity_that_goes_is_undone(tenant: Tenant, is_target: bool) -> None:
    """Bug report I5: no alias of the person's is left in another entity."""
    goes, stays = make_end_user(tenant), make_end_user(tenant)
    private, other = candidate_named(tenant, "Quillfeather"), candidate_named(tenant, "Anatomy")
    corrected(thread_of(goes), "Quillfeather", candidate=private)
    corrected(thread_of(stays), "Anatomy", candidate=other)
    born, kept = approved(tenant, private), approved(tenant, other)
    source, target = (kept, born) if is_target else (born, kept)
    merge(
        scope=scope_of(tenant),
        source_id=source.pk,
        target_id=target.pk,
        by="staff:1",
        now=timezone.now(),
    )
    erase(goes)
    (entity,) = left(tenant, Entity)
    assert (entity.pk, entity.status, entity.aliases) == (kept.pk, "active", [])
    assert left(tenant, EntityMerge) == []


def team_item(tenant: Tenant, team: Team, runs: list[Run], texts: list[str]) -> MemoryItem:
    """An item of a team that several runs have written in turn."""
    said: dict[str, Any] = {"tier": "observed", "origin": "run", "written_by": "test"}
    with scoped_transaction(scope_of(tenant)):
        item = MemoryItem.objects.create(
            tenant=tenant,
            team=team,
            category="memo",
            key="plan",
            key_folded="plan",
            title="Plan",
            content=texts[-1],
            run=runs[-1],
            version=len(runs),
            **said,
        )
        for number, (run, text) in enumerate(zip(runs, texts, strict=True), start=1):
            MemoryItemVersion.objects.create(
                tenant=tenant,
                team=team,
                item=item,
                version=number,
                title="Plan",
                content=text,
                run=run,
                **said,
            )
    return item


def test_a_teams_item_is_as_it_was_before_the_person_wrote_it(tenant: Tenant) -> None:
    goes, stays = make_end_user(tenant), make_end_user(tenant)
    first, second = make_run(thread_of(stays)), make_run(thread_of(goes))
    with scoped_transaction(scope_of(tenant)):
        team = Team.objects.create(tenant=tenant, name="tutors")
        alone = Team.objects.create(tenant=tenant, name="others")
    item = team_item(tenant, team, [first, second], ["call 13800138000", "what I said"])
    team_item(tenant, alone, [second], ["mine alone"])
    done = erase(goes)
    assert done.counts["shared_items"] == 2
    (found,) = left(tenant, MemoryItem)
    assert (found.pk, found.content, found.version) == (item.pk, "call 13800138000", 1)
    assert [span["kind"] for span in found.pii], "what is personal in it is tagged again"
    assert [version.run_id for version in left(tenant, MemoryItemVersion)] == [first.pk]
    assert [entry.item_id for entry in left(tenant, IndexEntry)] == [item.pk]


@pytest.mark.req("E06")
def test_all_of_many_facts_go_and_the_report_says_how_many(tenant: Tenant) -> None:
    """Bug report I2: 2,500 facts, not the first page of them."""
    person = make_end_user(tenant)
    run = make_run(thread_of(person))
    whose: dict[str, Any] = {"tenant_id": tenant.pk, "end_user_id": person.pk}
    with scoped_transaction(scope_of(tenant)):
        candidate = _candidate(whose, run, "c", status="confirmed", decided_at=NOW)
        facts = [
            CoreFact(
                **whose,
                fact=f"fact {number}",
                fact_key=f"key {number}",
                origin="run",
                run=run,
                candidate=candidate,
                valid_from=NOW,
                decided_by_kind="staff",
                decided_by_id="staff:1",
            )
            for number in range(2500)
        ]
        rows = CoreFact.objects.get_queryset().unscoped(reason="rows of a test")
        rows.bulk_create(facts)
        # Each was superseded by one that is older by its id.
        for older, newer in pairwise(facts[:40]):
            CoreFact.objects.in_scope(scope_of(tenant)).filter(pk=newer.pk).update(
                superseded_by=older
            )
    done = erase(person)
    assert done.counts["core_facts"] == 2500
    assert left(tenant, CoreFact) == []


def test_what_names_the_person_in_books_of_the_framework_goes(
    tenant: Tenant, superuser_url: str
) -> None:
    """Bug report I7: sessions, the queue's payloads and results, the admin log, kept answers."""
    person, other = make_end_user(tenant, "u-77"), make_end_user(tenant, "u-78")
    threads = {one.pk: thread_of(one) for one in (person, other)}
    staff = User.objects.get(pk=make_staff(tenant).pk)
    for one in (person, other):
        thread = threads[one.pk]
        session = SessionStore()
        session["last_seen"] = {"thread": thread.pk}
        session.create()
        async_task("threads.tasks.drain", one.pk, broker=ORM(list_key="elsewhere"))
        Task.objects.create(
            id=f"{one.pk[-30:]}"[:32],
            name="n",
            func="f",
            args=(thread.pk,),
            kwargs={"user": "x" * 5000},
            result={"thread": thread.pk},
            started=NOW,
            stopped=NOW,
        )
        LogEntry.objects.create(
            user=staff,
            content_type=ContentType.objects.get_for_model(Thread),
            object_id=thread.pk,
            object_repr=thread.pk,
            action_flag=CHANGE,
        )
        with scoped_transaction(scope_of(tenant)):
            for number, body in enumerate(
                (f'{{"thread": "{thread.pk}"}}', f'{{"members": ["{one.user_id}"]}}')
            ):
                IdempotencyRecord.objects.create(
                    tenant=tenant,
                    principal_id="key",
                    idempotency_key=f"{one.user_id}-{number}",
                    request_sha256="0" * 64,
                    body=body,
                    lease_until=NOW + timedelta(seconds=1),
                )
    done = erase(person)
    assert Session.objects.count() == 1
    assert Task.objects.count() == 1
    assert OrmQ.objects.filter(key="elsewhere").count() == 1
    assert LogEntry.objects.count() == 1
    assert [row.idempotency_key for row in left(tenant, IdempotencyRecord)] == ["u-78-0", "u-78-1"]
    assert done.counts["idempotency_answers"] == 2
    names = rows_naming(superuser_url, threads[person.pk].pk, "u-77")
    assert set(names) == set()


def test_costs_of_memory_work_stay_and_are_nobodys(tenant: Tenant) -> None:
    person = make_end_user(tenant)
    thread = thread_of(person)
    tell(thread, [("a", "b")])
    with scoped_transaction(scope_of(tenant)):
        MemoryOp.objects.create(
            tenant=tenant,
            end_user=person,
            thread=thread,
            kind="roll_summary",
            model="m",
            outcome="ok",
            input_tokens=7,
            output_tokens=3,
        )
    erase(person)
    (op,) = left(tenant, MemoryOp)
    assert (op.end_user_id, op.thread_id, op.job_id, op.input_tokens) == (None, None, None, 7)
