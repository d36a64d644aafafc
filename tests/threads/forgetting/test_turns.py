"""Turns past their days and deleted threads: as complete as an erasure, and nothing besides.

Attack cases 131 (a run that finishes while its thread is deleted) and 169 (retention).
"""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from datetime import timedelta
from io import StringIO
from typing import Any

import pytest
from django.core.management import call_command
from django.db import connections
from django.utils import timezone

from governance.erasure.holds import place_hold, release_hold
from governance.erasure.problems import LegalHoldError
from governance.models import AuditEntry, CoreCandidate
from governance.policy import change_policy
from memory.errors import NotFoundError
from memory.models import CoreFact, Job, MemoryItem, RecallEntry
from memory.rls import scoped_transaction
from memory.scope import Scope
from tests.factories import (
    NOW,
    make_agent,
    make_end_user,
    make_key,
    make_run,
    make_tenant,
    scope_of,
)
from tests.fakes.openai_replies import text
from tests.fakes.openai_server import FakeOpenAI
from tests.governance.erasure.scenes import clear_books, fingerprints, rows_naming
from tests.isolation.worlds import World, make_world
from tests.talking import fake_provider, last_of, new_thread, prepare, tell
from tests.threads.api.client import Api, code_of
from threads.forgetting.retention import count_old_turns, forget_old_turns
from threads.forgetting.threads import delete_thread
from threads.models import KeptUsage, Message, Run, SummaryNode, Thread, ThreadSummary

pytestmark = pytest.mark.usefixtures("committed_db")


@pytest.fixture
def worlds(committed_db: None) -> tuple[World, World]:
    """Two tenants, each with two people and rows in every table; turns are of the fixed day."""
    found = make_world(), make_world()
    for world in found:
        clear_books(world)
    return found


@pytest.fixture
def server() -> Iterator[FakeOpenAI]:
    with FakeOpenAI() as running:
        yield running


def wide(world: World) -> Scope:
    return Scope(tenant_ids=(world.tenant.pk,), principal_id="test")


def keep_days(world: World, days: int) -> None:
    change_policy(scope=wide(world), changes={"retention_messages_days": days}, now=timezone.now())


def rows(scope: Scope, model: Any, **where: Any) -> list[Any]:
    with scoped_transaction(scope):
        return list(model.objects.in_scope(scope).filter(**where))


@pytest.mark.req("B19")
def test_case_169_old_turns_go_as_completely_as_by_an_erasure(
    worlds: tuple[World, World], superuser_url: str
) -> None:
    a, b = worlds
    first, other = a.people
    keep_days(a, 30)
    ids = f"{first.run.pk}|{first.thread.pk}|{first.spare_run.pk}"
    mine = "|".join((a.tenant.pk, a.mark))
    before = fingerprints(superuser_url, without=mine)
    facts = rows(wide(a), CoreFact, end_user_id=first.row.pk)
    assert facts
    now = NOW + timedelta(days=31)
    due = count_old_turns(scope=wide(a), now=now)
    gone, is_more = forget_old_turns(scope=wide(a), now=now)
    assert not is_more
    assert gone["runs"] == due >= 6
    assert rows_naming(superuser_url, ids).keys() <= {
        "governance_auditentry",
        "governance_disclosure",
        "governance_auditpending",
    }
    kept = rows(wide(a), CoreFact, end_user_id=first.row.pk)
    assert {fact.pk for fact in kept} == {fact.pk for fact in facts}
    assert {(fact.run_id, fact.candidate_id) for fact in kept} == {(None, None)}
    assert {fact.origin for fact in kept} <= {"staff", "api"}
    for model in (Run, Message, RecallEntry, CoreCandidate, Thread, Job):
        assert not rows(wide(a), model, end_user_id__in=[first.row.pk, other.row.pk]), model
    assert rows(wide(a), KeptUsage)
    assert fingerprints(superuser_url, without=mine) == before, "the other tenant"
    assert forget_old_turns(scope=wide(a), now=now) == ({}, False)
    assert rows(wide(b), Run)


def test_case_169_young_turns_stay_and_summaries_are_made_anew(
    worlds: tuple[World, World],
) -> None:
    a, _ = worlds
    person = a.people[0]
    keep_days(a, 30)
    now = NOW + timedelta(days=31)
    today = timezone.now()
    young = make_run(
        person.thread, input="今天的问题", output="answer", created_at=today, finished_at=today
    )
    forget_old_turns(scope=wide(a), now=now)
    left = rows(wide(a), Run, end_user_id=person.row.pk)
    assert [run.pk for run in left] == [young.pk]
    session = wide(a).narrowed(user_id=person.row.pk, thread_id=person.thread.pk)
    for model in (ThreadSummary, SummaryNode):
        assert not rows(session, model), model
    kinds = {job.kind for job in rows(wide(a), Job, end_user_id=person.row.pk)}
    assert "index_recall" in kinds


def test_hold_stops_retention_for_its_person_alone(worlds: tuple[World, World]) -> None:
    a, _ = worlds
    held, other = a.people
    keep_days(a, 30)
    place_hold(scope=wide(a), person=held.row, reason="诉讼", now=timezone.now())
    now = NOW + timedelta(days=31)
    forget_old_turns(scope=wide(a), now=now)
    assert rows(wide(a), Run, end_user_id=held.row.pk)
    assert not rows(wide(a), Run, end_user_id=other.row.pk)
    release_hold(scope=wide(a), person=held.row, now=timezone.now())
    forget_old_turns(scope=wide(a), now=now)
    assert not rows(wide(a), Run, end_user_id=held.row.pk)


def test_retention_in_small_steps_ends_the_same(
    worlds: tuple[World, World], monkeypatch: pytest.MonkeyPatch
) -> None:
    a, _ = worlds
    keep_days(a, 30)
    monkeypatch.setattr("threads.forgetting.retention.BATCH", 1)
    now = NOW + timedelta(days=31)
    rounds = 0
    while True:
        _, is_more = forget_old_turns(scope=wide(a), now=now, until=0.0)
        rounds += 1
        if rounds > 3:
            break
        assert is_more, "no time, so nothing was done"
    forget_old_turns(scope=wide(a), now=now)
    assert not rows(wide(a), Run)


def test_expire_command_counts_and_forgets_turns(worlds: tuple[World, World]) -> None:
    a, _ = worlds
    keep_days(a, 1)
    out = StringIO()
    call_command("expire", tenant=a.tenant.slug, dry_run=True, json=True, stdout=out)
    due = json.loads(out.getvalue())["turns"]
    assert due == len(rows(wide(a), Run)) > 0
    out = StringIO()
    call_command("expire", tenant=a.tenant.slug, json=True, stdout=out)
    assert json.loads(out.getvalue())["turns"] == due
    assert not rows(wide(a), Run)
    acts = rows(wide(a), AuditEntry, action="retention_applied")
    assert sum(act.detail.get("runs", 0) for act in acts) == due
    assert a.mark not in json.dumps([act.detail for act in acts])


def test_deleted_thread_takes_everything_along(
    worlds: tuple[World, World], superuser_url: str
) -> None:
    a, b = worlds
    person = a.people[0]
    others = "|".join((a.tenant.pk, a.mark))
    api, stranger = Api(make_key(a.tenant)), Api(make_key(b.tenant))
    before = fingerprints(superuser_url, without=others)
    path = f"/v1/threads/{person.thread.pk}"
    assert code_of(stranger.delete(path)) == (404, "not_found")
    assert api.delete(path).status_code == 204
    assert code_of(api.delete(path)) == (404, "not_found")
    assert code_of(api.get(f"/v1/runs/{person.run.pk}")) == (404, "not_found")
    named = rows_naming(superuser_url, person.thread.pk, person.run.pk)
    assert named.keys() <= {
        "governance_auditentry",
        "governance_disclosure",
        "governance_auditpending",
    }
    assert rows(wide(a), Run, end_user_id=person.row.pk), "of the other thread"
    assert not rows(wide(a), MemoryItem, run_id=person.run.pk)
    assert fingerprints(superuser_url, without=others) == before
    (act,) = rows(wide(a), AuditEntry, action="thread_deleted")
    assert act.detail["messages"] == 2
    assert a.mark not in json.dumps(act.detail)


def test_deleted_thread_of_a_held_person_stays(worlds: tuple[World, World]) -> None:
    a, _ = worlds
    person = a.people[0]
    place_hold(scope=wide(a), person=person.row, reason="", now=timezone.now())
    with pytest.raises(LegalHoldError):
        delete_thread(scope=wide(a), thread_id=person.thread.pk, now=timezone.now())
    assert rows(wide(a), Run, thread_id=person.thread.pk)
    with pytest.raises(NotFoundError):
        delete_thread(scope=wide(a), thread_id=a.people[1].run.pk, now=timezone.now())


def test_case_131_run_that_finishes_while_its_thread_is_deleted(server: FakeOpenAI) -> None:
    """Whoever comes second finds nothing to write to, and nothing is left of either."""
    tenant = make_tenant()
    agent = make_agent(tenant, provider=fake_provider(tenant, server), model="fake-1")
    person = make_end_user(tenant, "teacher-7")
    thread = new_thread(agent, person)
    tell(thread, [("你好", "hello")])
    scope = scope_of(tenant)
    server.script(text("late"))
    prepared = prepare(make_key(tenant), agent, "and now?", thread_id=thread.pk)
    started = threading.Barrier(2)

    def deleting() -> None:
        started.wait()
        delete_thread(scope=scope, thread_id=thread.pk, now=timezone.now())
        connections.close_all()

    worker = threading.Thread(target=deleting)
    worker.start()
    started.wait()
    last_of(prepared)
    worker.join(30)
    for model in (Thread, Run, Message, Job):
        assert not rows(scope, model), model
