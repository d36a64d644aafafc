"""Serving a lane: in order, one process at a time, whatever the handlers do."""

from __future__ import annotations

import signal
import subprocess
import sys
import textwrap
import threading
from datetime import timedelta
from typing import Any

import pytest
from django.db import connections
from django.utils import timezone
from django_q.models import OrmQ

from memory import lanes
from memory.errors import CredenceError
from memory.jobs import MAX_ATTEMPTS, Claim, lane_of
from memory.jobs.bell import silence
from memory.jobs.deadline import job_deadline
from memory.models import Lane
from memory.rls import open_scope
from memory.scope import Scope
from tests.factories import make_agent, make_end_user, make_tenant, make_thread
from tests.jobbook import ask, change, jobs_of, make_any_thread, only_job, wait_for
from tests.processes import environment_for_children
from threads.models import Thread
from threads.tasks import HANDLERS, DrainReport, Handler, control_tick, drain, work_lane


class ProviderDownError(CredenceError):
    """The provider is down."""

    code = "provider_down"


class Recorder:
    """A handler that remembers its calls and does what it is told."""

    def __init__(self, act: Any = None) -> None:
        self.claims: list[Claim] = []
        self.scopes: list[Scope] = []
        self.act = act

    def __call__(self, *, scope: Scope, claim: Claim) -> None:
        self.scopes.append(scope)
        self.claims.append(claim)
        if self.act:
            self.act()

    @property
    def threads(self) -> list[str | None]:
        return [claim.thread_id for claim in self.claims]


def serve(handler: Handler) -> DrainReport:
    return work_lane(lane=0, handlers={"roll_summary": handler})


def raising(error: Exception) -> Recorder:
    def act() -> None:
        raise error

    return Recorder(act)


@pytest.mark.django_db
@pytest.mark.req("A24")
@pytest.mark.req("E04")
def test_work_lane_does_every_due_job_in_the_order_they_were_asked_for() -> None:
    tenant = make_tenant()
    agent, person = make_agent(tenant), make_end_user(tenant)
    threads = [make_thread(agent, person) for _ in range(3)]
    for key in ("first", "second", "third"):
        for thread in threads:
            ask(thread, key)
    handler = Recorder()
    assert serve(handler) == DrainReport(done=9)
    for thread in threads:
        keys = [c.dedupe_key for c in handler.claims if c.thread_id == thread.id]
        assert keys == [f"{key}:{thread.id}" for key in ("first", "second", "third")]
    assert {job.status for job in jobs_of(tenant.id)} == {"done"}


@pytest.mark.django_db
def test_work_lane_gives_the_handler_the_narrowest_scope_and_no_open_transaction() -> None:
    thread = make_any_thread()
    ask(thread)
    seen = []
    handler = Recorder(lambda: seen.append(open_scope()))
    serve(handler)
    (scope,) = handler.scopes
    assert (scope.tenant_id, scope.principal_id) == (thread.tenant_id, "worker")
    assert (scope.user_id, scope.thread_id) == (thread.end_user_id, thread.id)
    assert seen == [None]


@pytest.mark.django_db
def test_work_lane_called_again_by_doubled_and_late_bells_does_nothing_more() -> None:
    """Case 139."""
    ask(make_any_thread())
    handler = Recorder()
    serve(handler)
    assert [serve(handler) for _ in range(10)] == [DrainReport()] * 10
    assert len(handler.claims) == 1


@pytest.mark.django_db
@pytest.mark.parametrize(
    ("error", "code"),
    [
        (ProviderDownError(), "provider_down"),
        (ValueError("what 王老师 wrote"), "internal_error"),
        (RecursionError(), "internal_error"),
        (MemoryError(), "internal_error"),
    ],
)
def test_work_lane_handler_raises_is_written_down_by_code_and_others_go_on(
    error: Exception, code: str | None, caplog: pytest.LogCaptureFixture
) -> None:
    bad, good = make_any_thread(), make_any_thread()
    ask(bad)
    ask(good)

    def act_on(*, scope: Scope, claim: Claim) -> None:
        if claim.thread_id == bad.id:
            raise error

    assert serve(act_on) == DrainReport(done=1, failed=1)
    assert (only_job(bad).status, only_job(bad).error_code) == ("ready", code)
    assert only_job(good).status == "done"
    assert "王老师" not in caplog.text


@pytest.mark.django_db
def test_work_lane_kind_without_handler_fails_with_a_code() -> None:
    thread = make_any_thread()
    ask(thread)
    assert work_lane(lane=0, handlers={}) == DrainReport(failed=1)
    assert only_job(thread).error_code == "unknown_job_kind"


@pytest.mark.django_db
def test_work_lane_five_failures_leave_the_job_dead_and_the_thread_free() -> None:
    thread = make_any_thread()
    ask(thread, "bad")
    ask(thread, "good")
    for _ in range(MAX_ATTEMPTS):
        serve(raising(ProviderDownError()))
        change(jobs_of(thread.tenant_id)[0], not_before=timezone.now() - timedelta(hours=1))
    bad, good = jobs_of(thread.tenant_id)
    assert (bad.status, bad.attempts) == ("dead", 5)
    # The second job was held back until the first was buried, and then failed once itself.
    change(good, not_before=timezone.now() - timedelta(hours=1))
    assert serve(Recorder()) == DrainReport(done=1)


@pytest.mark.django_db
def test_work_lane_endless_handler_is_ended_at_the_job_timeout(settings: Any) -> None:
    """Case 140: an infinite loop."""
    settings.CREDENCE_JOB_TIMEOUT_SECONDS = 1
    thread = make_any_thread()
    ask(thread)

    def loop() -> None:
        while True:
            try:
                sum(range(1000))
            except Exception:  # noqa: BLE001 - a handler that swallows what it can
                continue

    assert serve(Recorder(loop)) == DrainReport(failed=1)
    assert only_job(thread).error_code == "job_timeout"


def test_job_deadline_winds_the_alarm_of_the_queue_up_again() -> None:
    rang = []
    old = signal.signal(signal.SIGALRM, lambda *_: rang.append(True))
    left = signal.setitimer(signal.ITIMER_REAL, 0.2)
    try:
        with job_deadline(seconds=60):
            assert signal.getitimer(signal.ITIMER_REAL)[0] > 50
        wait_for(lambda: rang)
    finally:
        signal.signal(signal.SIGALRM, old)
        signal.setitimer(signal.ITIMER_REAL, *left)


@pytest.mark.django_db
def test_work_lane_job_taken_over_meanwhile_counts_as_lost() -> None:
    thread = make_any_thread()
    ask(thread)
    steal = Recorder(lambda: change(only_job(thread), epoch=9))
    assert serve(steal) == DrainReport(lost=1)
    assert only_job(thread).status == "running"


@pytest.mark.django_db
def test_work_lane_over_its_time_rings_for_the_rest(settings: Any) -> None:
    settings.CREDENCE_JOB_TIMEOUT_SECONDS = 0.001
    for _ in range(3):
        ask(make_any_thread())
    silence(queue="memory0")

    def act(*, scope: Scope, claim: Claim) -> None:
        threading.Event().wait(0.01)

    report = work_lane(lane=0, handlers={"roll_summary": act})
    assert report.done + report.failed <= 1
    assert OrmQ.objects.filter(key="memory0").count() == 1


@pytest.mark.django_db
def test_work_lane_held_elsewhere_touches_nothing() -> None:
    """Case 137: an orphan of another cluster still holds the lane."""
    thread = make_any_thread()
    ask(thread)
    lanes.take(name="memory0", holder="another-machine:1:1", seconds=60)
    handler = Recorder()
    assert serve(handler) == DrainReport()
    assert handler.claims == []
    assert only_job(thread).attempts == 0


@pytest.mark.django_db
def test_work_lane_that_lost_its_lane_stops_before_the_next_job() -> None:
    for _ in range(2):
        ask(make_any_thread())
    handler = Recorder(lambda: Lane.objects.update(epoch=77))
    with pytest.raises(lanes.LaneLostError):
        serve(handler)
    assert len(handler.claims) == 1


def thread_in_lane(lane: int) -> Thread:
    """A thread of a new tenant whose work goes through `lane`."""
    while lane_of((thread := make_any_thread()).tenant_id) != lane:
        pass
    return thread


@pytest.mark.django_db
def test_drain_serves_only_tenants_of_its_lane(settings: Any) -> None:
    settings.CREDENCE_MEMORY_LANES = 2
    mine, others = [thread_in_lane(1) for _ in range(2)], [thread_in_lane(0) for _ in range(2)]
    for thread in (mine[0], others[0], mine[1], others[1]):
        ask(thread)
    handler = Recorder()
    work_lane(lane=1, handlers={"roll_summary": handler})
    assert handler.threads == [thread.id for thread in mine]
    assert {only_job(thread).status for thread in others} == {"ready"}


@pytest.mark.django_db
def test_drain_lets_no_exception_out_and_logs_only_its_code(
    caplog: pytest.LogCaptureFixture,
) -> None:
    Lane.objects.create(name="memory0", epoch=1)
    thread = make_any_thread()
    ask(thread)
    kept = HANDLERS.copy()
    HANDLERS["roll_summary"] = Recorder(lambda: Lane.objects.update(epoch=77))
    ask(make_any_thread())
    try:
        drain(0)
    finally:
        HANDLERS.clear()
        HANDLERS.update(kept)
    assert [vars(record)["code"] for record in caplog.records if record.msg == "drain_failed"] == [
        "lane_lost"
    ]


def test_control_tick_shows_life_and_rings_for_due_jobs(committed_db: None) -> None:
    thread = make_any_thread()
    ask(thread)
    silence(queue="memory0")
    control_tick()
    assert lanes.states()["control"].heartbeat_at is not None
    assert OrmQ.objects.filter(key="memory0").count() == 1


def test_work_lane_two_at_once_never_work_together(committed_db: None) -> None:
    """Case 137, with two real connections: one works, the other goes home."""
    threads = [make_any_thread() for _ in range(6)]
    for thread in threads:
        ask(thread)
    inside, most, done = [], [], []
    lock = threading.Lock()

    def act(*, scope: Scope, claim: Claim) -> None:
        with lock:
            inside.append(claim.job_id)
            most.append(len(inside))
        threading.Event().wait(0.05)
        with lock:
            inside.remove(claim.job_id)
            done.append(claim.job_id)

    def run() -> None:
        while len(done) < 6:
            work_lane(lane=0, handlers={"roll_summary": act})
        connections.close_all()

    workers = [threading.Thread(target=run) for _ in range(3)]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join(60)
    assert sorted(done) == sorted(job.id for t in threads for job in jobs_of(t.tenant_id))
    assert max(most) == 1


POISON = textwrap.dedent(
    """
    import os, sys, django
    django.setup()
    from threads.tasks import work_lane

    def act(*, scope, claim):
        if claim.thread_id == sys.argv[1]:
            os._exit(9)

    work_lane(lane=0, handlers={"roll_summary": act})
    """
)


def test_work_lane_poison_that_kills_its_process_ends_dead_and_others_go_on(
    committed_db: None,
) -> None:
    """Case 140, with real processes that die of it."""
    poison, other = make_any_thread(), make_any_thread()
    ask(poison)
    ask(other)
    codes = []
    for _ in range(MAX_ATTEMPTS + 1):
        codes.append(run_python(POISON, poison.id).returncode)
        if only_job(poison).status == "running":
            change(only_job(poison), lease_until=timezone.now() - timedelta(seconds=1))
    assert codes == [9] * MAX_ATTEMPTS + [0]
    job = only_job(poison)
    assert (job.status, job.error_code, job.attempts) == ("dead", "worker_lost", MAX_ATTEMPTS)
    assert only_job(other).status == "done"


def run_python(code: str, *arguments: str) -> subprocess.CompletedProcess[bytes]:
    """Run code in a process of its own on the same database."""
    return subprocess.run(
        [sys.executable, "-c", code, *arguments],
        env=environment_for_children(),
        check=False,
        timeout=60,
    )
