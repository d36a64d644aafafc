"""The sweep: whatever was lost between two steps is found in the book and set going again."""

from __future__ import annotations

import json
import threading
from datetime import timedelta
from io import StringIO
from typing import Any

import pytest
from django.core.management import call_command
from django.db import connections
from django.utils import timezone
from django_q.models import OrmQ

from governance.policy import change_policy
from memory.jobs import NewJob
from memory.jobs.bell import silence
from memory.rls import maintenance_transaction, scoped_transaction
from memory.scope import Scope
from tests.factories import make_agent, make_end_user, make_run, make_tenant, make_thread, scope_of
from tests.jobbook import (
    ask,
    change,
    claim_of,
    end,
    jobs_of,
    make_any_thread,
    new_job,
    only_job,
    tenant_scope,
)
from threads.forest.jobs import find_nodes
from threads.models import IdempotencyRecord, Run, Thread, ThreadSummary
from threads.summaries import find_roll
from threads.sweep import SweepReport, end_every_unfinished_run, sweep
from threads.tasks import work_lane

pytestmark = pytest.mark.usefixtures("committed_db")


def unfinished_run(thread: Thread, *, lease_seconds: float, status: str = "running") -> Run:
    """A run being worked on, whose lease ends that many seconds from now."""
    now = timezone.now()
    return make_run(
        thread,
        status=status,
        origin="run",
        output="",
        finished_at=None,
        lease_until=now + timedelta(seconds=lease_seconds),
    )


def again(run: Run) -> Run:
    """The run as it is stored now."""
    scope = tenant_scope(run.tenant_id)
    with scoped_transaction(scope):
        return Run.objects.in_scope(scope).get(id=run.id)


def swept(**changes: Any) -> SweepReport:
    return sweep(now=timezone.now(), **changes)


@pytest.mark.req("A24")
def test_sweep_run_past_its_lease_ends_as_interrupted_and_keeps_its_input() -> None:
    run = unfinished_run(make_any_thread(), lease_seconds=-1)
    assert swept() == SweepReport(runs_interrupted=1)
    run = again(run)
    assert (run.status, run.error_code, run.input) == ("failed", "interrupted", "question")
    assert run.finished_at is not None
    assert run.error_detail
    assert swept() == SweepReport()


def test_sweep_run_within_its_lease_or_ended_is_left_alone() -> None:
    thread = make_any_thread()
    running = unfinished_run(thread, lease_seconds=60)
    queued = unfinished_run(thread, lease_seconds=60, status="queued")
    succeeded = make_run(thread)
    assert swept() == SweepReport()
    assert [again(run).status for run in (running, queued, succeeded)] == [
        "running",
        "queued",
        "succeeded",
    ]


def test_sweep_queued_run_without_lease_is_ended_once_it_is_old() -> None:
    thread = make_any_thread()
    values = {"status": "queued", "origin": "run", "finished_at": None}
    old = make_run(thread, created_at=timezone.now() - timedelta(hours=1), **values)
    new = make_run(thread, created_at=timezone.now(), **values)
    assert swept().runs_interrupted == 1
    assert (again(old).status, again(new).status) == ("failed", "queued")


def test_sweep_run_that_is_being_finished_right_now_is_left_to_its_writer() -> None:
    run = unfinished_run(make_any_thread(), lease_seconds=-1)
    scope = tenant_scope(run.tenant_id)
    found = []

    def other() -> None:
        found.append(swept())
        connections.close_all()

    sweeper = threading.Thread(target=other)
    with scoped_transaction(scope):
        mine = Run.objects.in_scope(scope).select_for_update().get(id=run.id)
        sweeper.start()
        sweeper.join(20)
        mine.status, mine.finished_at = "succeeded", timezone.now()
        mine.save(update_fields=["status", "finished_at"])
    assert found == [SweepReport()]
    assert swept() == SweepReport()
    assert again(run).status == "succeeded"


def test_sweep_after_the_queue_was_emptied_by_hand_rings_for_every_due_job() -> None:
    """Case 143."""
    threads = [make_any_thread() for _ in range(3)]
    for thread in threads:
        ask(thread)
    OrmQ.objects.all().delete()
    assert swept().lanes_rung == 1
    assert OrmQ.objects.filter(key="memory0").count() == 1
    assert work_lane(lane=0, handlers={"roll_summary": lambda **_: None}).done == 3
    silence(queue="memory0")
    assert swept().lanes_rung == 0


def test_sweep_rings_for_a_job_whose_worker_died() -> None:
    thread = make_any_thread()
    ask(thread)
    claim_of(only_job(thread))
    silence(queue="memory0")
    assert swept().lanes_rung == 0
    change(only_job(thread), lease_until=timezone.now() - timedelta(seconds=1))
    assert swept().lanes_rung == 1


def test_sweep_beside_another_sweep_does_nothing() -> None:
    unfinished_run(make_any_thread(), lease_seconds=-1)
    inside, may_end, reports = threading.Event(), threading.Event(), []

    def slow_finder(*, scope: Scope, thread_id: str) -> None:
        inside.set()
        may_end.wait(20)

    thread = make_any_thread()
    for _ in range(3):
        make_run(thread)

    def first() -> None:
        reports.append(swept(find_roll=slow_finder))
        connections.close_all()

    sweeper = threading.Thread(target=first)
    sweeper.start()
    assert inside.wait(20)
    assert swept() == SweepReport(is_skipped=True)
    may_end.set()
    sweeper.join(20)
    assert reports == [SweepReport(runs_interrupted=1)]


def test_sweep_thread_without_its_job_gets_it_once_and_in_its_own_scope() -> None:
    thread = make_any_thread()
    for _ in range(3):
        make_run(thread)
    scopes = []

    def find(*, scope: Scope, thread_id: str) -> NewJob | None:
        scopes.append(scope)
        return new_job(thread)

    assert swept(find_roll=find).rolls_created == 1
    assert swept(find_roll=find).rolls_created == 0
    (scope,) = scopes
    assert (scope.tenant_ids, scope.user_id) == ((thread.tenant_id,), thread.end_user_id)
    assert scope.thread_id == thread.id
    assert only_job(thread).status == "ready"


def test_sweep_finder_that_sees_no_need_makes_no_job() -> None:
    thread = make_any_thread()
    for _ in range(3):
        make_run(thread)
    assert swept(find_roll=lambda **_: None) == SweepReport()
    assert jobs_of(thread.tenant_id) == []


def test_sweep_asks_about_no_thread_that_a_summary_covers_or_that_is_too_short() -> None:
    short, covered = make_any_thread(), make_any_thread()
    make_run(short)
    for _ in range(4):
        make_run(covered)
    scope = tenant_scope(covered.tenant_id).narrowed(thread_id=covered.id)
    with scoped_transaction(scope):
        ThreadSummary.objects.create(
            tenant_id=covered.tenant_id,
            thread=covered,
            end_user_id=covered.end_user_id,
            summary_upto_seq=3,
        )
    asked = []
    swept(find_roll=lambda *, scope, thread_id: asked.append(thread_id))
    assert asked == []


def test_sweep_thread_whose_job_died_is_left_alone_until_a_new_turn() -> None:
    thread = make_any_thread()
    for _ in range(3):
        make_run(thread)
    ask(thread)
    change(only_job(thread), status="dead", finished_at=timezone.now() + timedelta(seconds=1))
    asked = []

    def find(*, scope: Scope, thread_id: str) -> None:
        asked.append(thread_id)

    swept(find_roll=find)
    assert asked == []
    scope = tenant_scope(thread.tenant_id)
    with scoped_transaction(scope):
        later = timezone.now() + timedelta(minutes=1)
        Thread.objects.in_scope(scope).filter(id=thread.id).update(updated_at=later)
    swept(find_roll=find)
    assert asked == [thread.id]


def test_sweep_forgets_idempotent_answers_after_a_day() -> None:
    """Case 130: after 24 h the key is new again."""
    thread = make_any_thread()
    scope = tenant_scope(thread.tenant_id)
    now = timezone.now()
    with scoped_transaction(scope):
        for hours in (23, 25):
            IdempotencyRecord.objects.create(
                tenant_id=thread.tenant_id,
                principal_id="key",
                idempotency_key=str(hours),
                request_sha256="0",
                created_at=now - timedelta(hours=hours),
                lease_until=now,
            )
    assert swept() == SweepReport(idempotency_deleted=1)
    with maintenance_transaction() as alias:
        rows = IdempotencyRecord.objects.unscoped(reason="test").using(alias)
        assert [row.idempotency_key for row in rows] == ["23"]


def test_sweep_leaves_finished_and_backed_off_jobs_in_peace() -> None:
    done, failed = make_any_thread(), make_any_thread()
    for thread in (done, failed):
        ask(thread)
    end(claim_of(only_job(done)))
    end(claim_of(only_job(failed)), code="provider_error")
    silence(queue="memory0")
    assert swept().lanes_rung == 0


def test_sweep_command_reports_counts_as_json_and_as_lines() -> None:
    unfinished_run(make_any_thread(), lease_seconds=-1)
    out = StringIO()
    call_command("sweep", "--json", stdout=out)
    assert json.loads(out.getvalue())["runs_interrupted"] == 1
    out = StringIO()
    call_command("sweep", stdout=out)
    assert "runs interrupted: 0" in out.getvalue()


def test_every_unfinished_run_is_ended_when_no_process_is_left(committed_db: None) -> None:
    tenant = make_tenant()
    thread = make_thread(make_agent(tenant), make_end_user(tenant))
    lease = timezone.now() + timedelta(hours=1)
    going = make_run(thread, status="running", origin="run", finished_at=None, lease_until=lease)
    done = make_run(thread)
    assert end_every_unfinished_run(now=timezone.now()) == 1
    with scoped_transaction(scope_of(tenant)):
        rows = {run.pk: run for run in Run.objects.in_scope(scope_of(tenant))}
    assert (rows[going.pk].status, rows[going.pk].error_code) == ("failed", "interrupted")
    assert rows[done.pk].status == "succeeded"


def lossless_thread(*, turns: int) -> Thread:
    """A thread of a lossless agent, with so many turns of 200 tokens."""
    tenant = make_tenant()
    agent = make_agent(tenant, thread_strategy="lossless", policy={"forest_base_tokens": 200})
    thread = make_thread(agent, make_end_user(tenant))
    for _ in range(turns):
        make_run(thread, turn_tokens=200)
    return thread


def test_sweep_lossless_thread_whose_nodes_are_due_gets_its_job_once_and_no_roll() -> None:
    """143: nothing but the runs says that nodes are due."""
    due, early = lossless_thread(turns=8), lossless_thread(turns=7)
    report = swept(find_roll=find_roll, find_nodes=find_nodes)
    assert (report.rolls_created, report.builds_created) == (0, 1)
    assert swept(find_roll=find_roll, find_nodes=find_nodes).builds_created == 0
    assert only_job(due).kind == "build_nodes"
    assert jobs_of(early.tenant_id) == []


def test_sweep_lossless_thread_without_write_back_gets_no_job() -> None:
    thread = lossless_thread(turns=8)
    scope = tenant_scope(thread.tenant_id)
    change_policy(scope=scope, changes={"writeback": False}, now=timezone.now())
    assert swept(find_nodes=find_nodes).builds_created == 0
    assert jobs_of(thread.tenant_id) == []


def test_sweep_rolling_thread_is_not_asked_about_nodes() -> None:
    thread = make_any_thread()
    for _ in range(8):
        make_run(thread)
    asked = []
    swept(find_nodes=lambda *, scope, thread_id: asked.append(thread_id))
    assert asked == []
