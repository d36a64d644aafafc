"""The book of jobs: asked once, claimed once, counted before the work, fenced by epoch."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest
from django.db.models import F
from django.utils import timezone
from django_q.models import OrmQ

from memory.errors import ConflictError, NotFoundError
from memory.jobs import (
    MAX_ATTEMPTS,
    LeaseLostError,
    NewJob,
    OutsideTransactionError,
    claim,
    enqueue,
    hold,
    lane_of,
    retry,
    ring,
)
from memory.jobs.bell import has_unanswered, silence
from memory.models import JobKind
from memory.rls import scoped_transaction
from tests.factories import make_agent, make_end_user, make_tenant, make_thread
from tests.jobbook import (
    ask,
    change,
    claim_of,
    due,
    end,
    jobs_of,
    make_any_thread,
    new_job,
    only_job,
    refuses_claim,
    tenant_scope,
)
from threads.models import Thread

pytestmark = pytest.mark.django_db


@pytest.fixture
def thread() -> Thread:
    return make_any_thread()


@pytest.mark.req("A24")
def test_enqueue_writes_the_job_and_rings_once(thread: Thread) -> None:
    assert ask(thread, cursor_to=7) is True
    job = only_job(thread)
    assert (job.status, job.attempts, job.epoch, job.cursor_to) == ("ready", 0, 0, 7)
    assert OrmQ.objects.count() == 1
    assert due(job) == [job.id]


def test_enqueue_rolled_back_leaves_neither_job_nor_bell(thread: Thread) -> None:
    with pytest.raises(ZeroDivisionError):
        ask_and_break_off(thread)
    assert jobs_of(thread.tenant_id) == []
    assert OrmQ.objects.count() == 0


def ask_and_break_off(thread: Thread) -> None:
    scope = tenant_scope(thread.tenant_id)
    with scoped_transaction(scope):
        enqueue(scope=scope, job=new_job(thread), now=timezone.now())
        raise ZeroDivisionError


def test_enqueue_outside_a_transaction_of_its_tenant_is_refused(thread: Thread) -> None:
    scope = tenant_scope(thread.tenant_id)
    with pytest.raises(OutsideTransactionError):
        enqueue(scope=scope, job=new_job(thread), now=timezone.now())
    with scoped_transaction(tenant_scope(make_tenant().id)), pytest.raises(OutsideTransactionError):
        enqueue(scope=scope, job=new_job(thread), now=timezone.now())


def test_enqueue_same_key_twice_keeps_one_job_with_the_longer_range(thread: Thread) -> None:
    assert ask(thread, cursor_to=4) is True
    assert ask(thread, cursor_to=9) is False
    assert ask(thread, cursor_to=6) is False
    assert only_job(thread).cursor_to == 9


def test_enqueue_same_key_again_after_done_makes_a_new_job(thread: Thread) -> None:
    ask(thread)
    end(claim_of(only_job(thread)))
    assert ask(thread) is True
    assert [job.status for job in jobs_of(thread.tenant_id)] == ["done", "ready"]


def test_enqueue_same_key_of_another_tenant_is_another_job(thread: Thread) -> None:
    for one in (thread, make_any_thread()):
        scope = tenant_scope(one.tenant_id)
        job = NewJob(
            kind=JobKind.ROLL_SUMMARY,
            thread_id=one.id,
            run_id=None,
            end_user_id=one.end_user_id,
            dedupe_key="the same",
        )
        with scoped_transaction(scope):
            assert enqueue(scope=scope, job=job, now=timezone.now()) is True


def test_enqueue_while_running_makes_the_job_run_once_more(thread: Thread) -> None:
    ask(thread, cursor_to=4)
    claimed = claim_of(only_job(thread))
    assert ask(thread, cursor_to=8) is False
    end(claimed)
    again = only_job(thread)
    assert (again.status, again.attempts, again.cursor_to) == ("ready", 0, 8)
    second = claim_of(again)
    assert second.cursor_to == 8
    end(second)
    assert only_job(thread).status == "done"


def test_ring_many_times_keeps_one_waiting_bell_a_lane(settings: Any) -> None:
    settings.CREDENCE_MEMORY_LANES = 2
    for _ in range(5):
        ring(0)
        ring(1)
    assert sorted(OrmQ.objects.values_list("key", flat=True)) == ["memory0", "memory1"]


def test_ring_beside_a_bell_already_taken_adds_another() -> None:
    ring(0)
    OrmQ.objects.update(lock=timezone.now() + timedelta(minutes=5))
    ring(0)
    assert OrmQ.objects.count() == 2


def test_bell_holds_a_lane_number_and_nothing_else(thread: Thread) -> None:
    ask(thread)
    task = OrmQ.objects.get().task
    assert (task["func"], task["kwargs"]) == ("threads.tasks.drain", {})
    assert task["args"] == (lane_of(thread.tenant_id),)


def test_has_unanswered_tells_old_taken_bells_from_fresh_ones(settings: Any) -> None:
    ring(0)
    retry_seconds = settings.Q_CLUSTER["retry"]
    assert not has_unanswered(queue="memory0", seconds=60)
    OrmQ.objects.update(lock=timezone.now() + timedelta(seconds=retry_seconds - 50))
    assert not has_unanswered(queue="memory0", seconds=60)
    OrmQ.objects.update(lock=timezone.now() + timedelta(seconds=retry_seconds - 70))
    assert has_unanswered(queue="memory0", seconds=60)
    assert not has_unanswered(queue="memory1", seconds=60)
    assert silence(queue="memory0") == 1
    assert not has_unanswered(queue="memory0", seconds=60)


def test_claim_counts_the_attempt_before_the_work(thread: Thread) -> None:
    ask(thread, cursor_to=3)
    claimed = claim_of(only_job(thread))
    job = only_job(thread)
    assert (job.status, job.attempts, job.epoch) == ("running", 1, 1)
    assert (claimed.attempts, claimed.epoch, claimed.cursor_to) == (1, 1, 3)
    assert (claimed.thread_id, claimed.end_user_id) == (thread.id, thread.end_user_id)
    assert job.lease_until == claimed.claimed_at + timedelta(seconds=180)


def test_claim_twice_or_after_done_gives_nothing(thread: Thread) -> None:
    """Case 139: twice, ten times, a month late."""
    ask(thread)
    job = only_job(thread)
    claimed = claim_of(job)
    assert all(refuses_claim(job) for _ in range(10))
    end(claimed)
    assert refuses_claim(job)
    assert only_job(thread).attempts == 1


def test_claim_with_the_id_of_another_tenant_gives_nothing(thread: Thread) -> None:
    ask(thread)
    assert claim(job_id=only_job(thread).id, tenant_id=make_tenant().id) is None


def test_claim_later_job_of_a_thread_waits_for_the_earlier_one(thread: Thread) -> None:
    """Order inside a thread holds even if bells and claims come in reverse (case 139)."""
    ask(thread, "first")
    ask(thread, "second")
    first, second = jobs_of(thread.tenant_id)
    assert due(first) == [first.id]
    assert refuses_claim(second)
    claimed = claim_of(first)
    assert refuses_claim(second)
    end(claimed)
    assert due(second) == [second.id]
    claim_of(second)


def test_claim_failed_earlier_job_still_holds_the_thread_back(thread: Thread) -> None:
    ask(thread, "first")
    ask(thread, "second")
    first, second = jobs_of(thread.tenant_id)
    end(claim_of(first), code="provider_error")
    assert due(first) == []
    assert refuses_claim(second)


def test_due_jobs_are_ordered_oldest_first_within_a_tenant() -> None:
    tenant = make_tenant()
    agent, person = make_agent(tenant), make_end_user(tenant)
    threads = [make_thread(agent, person) for _ in range(6)]
    for one in reversed(threads):
        ask(one)
    jobs = jobs_of(tenant.id)
    assert [job.thread_id for job in jobs] == [one.id for one in reversed(threads)]
    assert due(jobs[0]) == [job.id for job in jobs]


def test_claim_after_the_lease_ran_out_takes_the_job_and_fences_the_old_claim(
    thread: Thread,
) -> None:
    ask(thread)
    job = only_job(thread)
    old = claim_of(job)
    change(job, lease_until=timezone.now() - timedelta(minutes=1))
    new = claim_of(job)
    assert (new.epoch, new.attempts) == (old.epoch + 1, 2)
    with scoped_transaction(tenant_scope(thread.tenant_id)), pytest.raises(LeaseLostError):
        hold(scope=tenant_scope(thread.tenant_id), claim=old)
    for code in (None, "late"):
        with pytest.raises(LeaseLostError):
            end(old, code=code)
    assert only_job(thread).status == "running"
    with scoped_transaction(tenant_scope(thread.tenant_id)):
        hold(scope=tenant_scope(thread.tenant_id), claim=new)


def test_hold_after_complete_is_refused(thread: Thread) -> None:
    ask(thread)
    claimed = claim_of(only_job(thread))
    end(claimed)
    with scoped_transaction(tenant_scope(thread.tenant_id)), pytest.raises(LeaseLostError):
        hold(scope=tenant_scope(thread.tenant_id), claim=claimed)


def test_fail_backs_off_twice_as_long_each_time_and_ends_dead(thread: Thread) -> None:
    ask(thread)
    delays = []
    for _ in range(MAX_ATTEMPTS):
        job = only_job(thread)
        claimed = claim_of(job)
        end(claimed, code="provider_timeout")
        job = only_job(thread)
        delays.append(round((job.not_before - claimed.claimed_at).total_seconds() / 10))
        assert refuses_claim(job)
        change(job, not_before=timezone.now() - timedelta(minutes=1))
    assert delays == [1, 2, 4, 8, 16]
    job = only_job(thread)
    assert (job.status, job.error_code, job.attempts) == ("dead", "provider_timeout", 5)
    assert job.finished_at is not None
    assert refuses_claim(job)


def test_claim_after_five_lost_attempts_buries_the_job_and_lets_the_next_go(thread: Thread) -> None:
    """Case 140: whatever ended five processes does not get a sixth."""
    ask(thread, "poison")
    ask(thread, "next")
    poison, following = jobs_of(thread.tenant_id)
    for _ in range(MAX_ATTEMPTS):
        claim_of(poison)
        change(poison, lease_until=timezone.now() - timedelta(minutes=1))
    assert refuses_claim(poison)
    poison, following = jobs_of(thread.tenant_id)
    assert (poison.status, poison.error_code, poison.attempts) == ("dead", "worker_lost", 5)
    claim_of(following)


def test_retry_of_a_dead_job_makes_it_ready_with_all_attempts_and_rings(thread: Thread) -> None:
    ask(thread)
    job = only_job(thread)
    change(job, status="dead", attempts=5, not_before=F("not_before") + timedelta(hours=1))
    silence(queue="memory0")
    with scoped_transaction(tenant_scope(thread.tenant_id)):
        again = retry(
            scope=tenant_scope(thread.tenant_id),
            job_id=job.id,
            now=timezone.now() + timedelta(minutes=5),
        )
    assert (again.status, again.attempts, again.finished_at) == ("ready", 0, None)
    assert OrmQ.objects.count() == 1
    claim_of(again)


def test_retry_of_a_job_that_is_not_dead_or_not_ours_is_refused(thread: Thread) -> None:
    ask(thread)
    job = only_job(thread)
    with scoped_transaction(tenant_scope(thread.tenant_id)), pytest.raises(ConflictError):
        retry(scope=tenant_scope(thread.tenant_id), job_id=job.id, now=timezone.now())
    stranger = tenant_scope(make_tenant().id)
    with scoped_transaction(stranger), pytest.raises(NotFoundError):
        retry(scope=stranger, job_id=job.id, now=timezone.now())


def test_retry_while_the_same_work_waits_is_refused(thread: Thread) -> None:
    ask(thread)
    change(only_job(thread), status="dead")
    ask(thread)
    dead = jobs_of(thread.tenant_id)[0]
    with scoped_transaction(tenant_scope(thread.tenant_id)), pytest.raises(ConflictError):
        retry(scope=tenant_scope(thread.tenant_id), job_id=dead.id, now=timezone.now())
