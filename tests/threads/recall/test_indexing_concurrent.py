"""Indexing with real commits: two workers, a crash half-way, a late commit, an erasure meanwhile.

Attack cases 139, 143, 148 and 157 of the list of races, for the index.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import timedelta
from typing import Any

import pytest
from django.db import connection, connections
from django.utils import timezone

from memory import jobs, store
from memory.jobs import Claim, LeaseLostError
from memory.jobs.bell import silence
from memory.lanes import lane_of
from memory.models import Job
from memory.rls import scoped_transaction
from memory.store import Owner
from tests.factories import NOW, make_run
from tests.jobbook import somebody_waits_for_a_lock, tenant_scope, wait_for
from tests.recalling import Talk, beside, make_talk
from tests.talking import tell
from threads.models import Run, Thread
from threads.recall.indexing import BATCH_TURNS, index_job, index_recall
from threads.recall.sweeping import create_lost_jobs
from threads.sweep import sweep
from threads.tasks import work_lane

pytestmark = pytest.mark.usefixtures("committed_db")
HANDLERS = {"index_recall": index_recall}


def expire(claim: Claim) -> Claim:
    """Let a claim's lease run out and claim its job again, as a second worker does."""
    scope = tenant_scope(claim.tenant_id)
    with scoped_transaction(scope):
        rows = Job.objects.in_scope(scope).filter(pk=claim.job_id)
        rows.update(lease_until=timezone.now() - timedelta(minutes=9))
    again = jobs.claim(job_id=claim.job_id, tenant_id=claim.tenant_id)
    assert again is not None
    return again


class Worker:
    """One call on a connection of its own, begun at once; `error` is what it ended with."""

    def __init__(self, work: Callable[[], Any]) -> None:
        self.error: BaseException | None = None
        self.pid: int | None = None
        self._work = work
        self._thread = threading.Thread(target=self._run)
        self._thread.start()

    def _run(self) -> None:
        try:
            with connection.cursor() as cursor:
                cursor.execute("SELECT pg_backend_pid()")
                row = cursor.fetchone()
                self.pid = row[0] if row else None
            self._work()
        except BaseException as error:  # noqa: BLE001 - a crash of any kind
            self.error = error
        finally:
            connections.close_all()

    def join(self) -> None:
        self._thread.join(30)
        assert not self._thread.is_alive()


def indexer(talk: Talk, claim: Claim) -> Worker:
    return Worker(lambda: index_recall(scope=talk.scope, claim=claim))


@contextmanager
def locked(talk: Talk, model: Any, **which: Any) -> Iterator[None]:
    """Hold rows until the block ends."""
    with scoped_transaction(talk.wide):
        assert list(model.objects.in_scope(talk.wide).select_for_update().filter(**which))
        yield


def test_two_workers_at_one_thread_index_each_turn_once() -> None:
    """Case 139: the first lost its lease; it stops at its next write, which leaves nothing."""
    talk = make_talk()
    tell(talk.thread, [(f"question {n}", "") for n in range(5)])
    first = talk.claim()
    second = expire(first)
    with pytest.raises(LeaseLostError):
        index_recall(scope=talk.scope, claim=first)
    assert talk.recalled() == []
    index_recall(scope=talk.scope, claim=second)
    assert len(talk.recalled()) == len(talk.entries()) == 5


def test_two_claims_that_read_the_same_turns_write_them_once() -> None:
    """Case 139 again: both have read before either wrote."""
    talk = make_talk()
    tell(talk.thread, [(f"question {n}", "") for n in range(5)])
    first = talk.claim()
    with locked(talk, Job, pk=first.job_id):
        slow = indexer(talk, first)
        wait_for(somebody_waits_for_a_lock)
    slow.join()
    assert slow.error is None
    index_recall(scope=talk.scope, claim=expire(first))
    assert len(talk.recalled()) == len(talk.entries()) == 5


def test_crash_between_batches_is_gone_on_from_without_doubling() -> None:
    """Case 143: the connection dies while the second batch is written."""
    talk = make_talk()
    count = 2 * BATCH_TURNS
    tell(talk.thread, [(f"question {n}", "") for n in range(count)])
    claim = talk.claim()
    with locked(talk, Run, seq=BATCH_TURNS + 7):
        worker = indexer(talk, claim)
        wait_for(somebody_waits_for_a_lock)
        assert len(talk.recalled()) == BATCH_TURNS
        with connection.cursor() as cursor:
            cursor.execute("SELECT pg_cancel_backend(%s)", [worker.pid])
    worker.join()
    assert worker.error is not None
    assert len(talk.recalled()) == len(talk.entries()) == BATCH_TURNS
    index_recall(scope=talk.scope, claim=expire(claim))
    assert len({recall.run_id for recall in talk.recalled()}) == count
    assert len(talk.entries()) == count


def test_run_that_commits_after_later_ones_were_indexed_is_not_missed() -> None:
    """Case 148: number 1 is still being written while number 2 is indexed."""
    talk = make_talk()
    slow = make_run(
        talk.thread, input="slow", status="running", origin="run", finished_at=None,
        lease_until=timezone.now() + timedelta(minutes=5),
    )  # fmt: skip
    make_run(talk.thread, input="quick")
    ended, may_commit = threading.Event(), threading.Event()

    def finish() -> None:
        with scoped_transaction(talk.wide):
            Run.objects.in_scope(talk.wide).filter(pk=slow.pk).update(
                status="succeeded", finished_at=NOW, lease_until=None
            )
            ended.set()
            assert may_commit.wait(20)
            job = index_job(
                thread_id=talk.thread.pk, end_user_id=talk.thread.end_user_id, run_id=slow.pk
            )
            jobs.enqueue(scope=talk.wide, job=job, now=timezone.now())

    writer = Worker(finish)
    assert ended.wait(20)
    talk.index()
    assert [recall.said for recall in talk.recalled()] == ["quick"]
    may_commit.set()
    writer.join()
    assert writer.error is None
    work_lane(lane=lane_of(talk.tenant.pk), handlers=HANDLERS)
    assert {recall.said for recall in talk.recalled()} == {"quick", "slow"}
    assert [entry.version for entry in talk.entries()] == [1, 2]


def test_writers_of_one_shelf_follow_each_other_by_version() -> None:
    """Case 148 for copies: whoever has read version n has seen all of it."""
    talk = make_talk()
    other = beside(talk)
    for each in (talk, other):
        tell(each.thread, [("question", "answer")])
    owner = Owner(end_user_id=talk.thread.end_user_id)
    with scoped_transaction(talk.scope):
        store.ensure_shelf(scope=talk.scope, owner=owner)
    claim = talk.claim_of_thread()
    with locked(talk, type(talk.shelf()), end_user_id=talk.thread.end_user_id):
        worker = indexer(talk, claim)
        wait_for(somebody_waits_for_a_lock)
        assert talk.entries() == []
    worker.join()
    other_claim = other.claim_of_thread()
    index_recall(scope=other.scope, claim=other_claim)
    assert [entry.version for entry in talk.entries()] == [1, 2]


@pytest.mark.parametrize("what", ["run", "thread"])
def test_turns_erased_while_they_are_indexed_leave_nothing(what: str) -> None:
    """Case 157: read and gated, then erased, then written."""
    talk = make_talk()
    tell(talk.thread, [("erased", ""), ("kept", "")])
    claim = talk.claim()
    with locked(talk, Job, pk=claim.job_id):
        worker = indexer(talk, claim)
        wait_for(somebody_waits_for_a_lock)
        if what == "run":
            Run.objects.in_scope(talk.wide).filter(thread_id=talk.thread.pk, seq=1).delete()
        else:
            Thread.objects.in_scope(talk.wide).filter(pk=talk.thread.pk).delete()
    worker.join()
    kept = ["kept"] if what == "run" else []
    assert [recall.said for recall in talk.recalled()] == kept
    assert len(talk.entries()) == len(kept)


def test_erasing_a_thread_takes_its_entries_along() -> None:
    talk = make_talk()
    other = beside(talk)
    for each in (talk, other):
        tell(each.thread, [("question", "answer")])
        each.index()
    with scoped_transaction(talk.wide):
        Thread.objects.in_scope(talk.wide).filter(pk=talk.thread.pk).delete()
    assert [recall.thread_id for recall in talk.recalled()] == [other.thread.pk]
    assert [entry.version for entry in talk.entries()] == [2]


@pytest.mark.req("A24")
def test_sweep_catches_up_with_deleted_jobs_and_an_emptied_queue() -> None:
    """Case 143 from outside: nothing but the rows of runs is left to tell."""
    talk = make_talk()
    done = make_talk()
    for each in (talk, done):
        tell(each.thread, [("question", "answer")])
    done.index()
    for each in (talk, done):
        with scoped_transaction(each.wide):
            Job.objects.in_scope(each.wide).delete()
    silence(queue="memory0")
    report = sweep(now=timezone.now(), find_lost=create_lost_jobs)
    assert [len(each.jobs_of("index_recall")) for each in (talk, done)] == [1, 0]
    assert [len(each.jobs_of("embed")) for each in (talk, done)] == [0, 1]
    assert report.recalls_created == 2
    assert sweep(now=timezone.now(), find_lost=create_lost_jobs).recalls_created == 0
    work_lane(lane=lane_of(talk.tenant.pk), handlers=HANDLERS)
    assert len(talk.entries()) == 1


def test_sweep_asks_for_vectors_that_are_missing_or_may_be_tried_again() -> None:
    talk = make_talk()
    tell(talk.thread, [("question", "answer")])
    talk.index()
    model_id = talk.model()
    (entry,) = talk.entries()

    def asked(*, minutes: int, failed: int = 0, is_good: bool = False) -> int:
        with scoped_transaction(talk.wide):
            Job.objects.in_scope(talk.wide).delete()
        for _ in range(failed):
            talk.put(model_id, entry.pk, is_good=False)
        if is_good:
            talk.put(model_id, entry.pk, is_good=True)
        now = timezone.now() + timedelta(minutes=minutes)
        return sweep(now=now, find_lost=create_lost_jobs).recalls_created

    assert asked(minutes=0) == 1
    assert asked(minutes=0, failed=1) == 0
    assert asked(minutes=11) == 1
    assert asked(minutes=11, failed=4) == 0
    assert asked(minutes=11, is_good=True) == 0


def test_sweep_leaves_a_dead_job_and_a_thread_without_write_back_alone() -> None:
    talk = make_talk(policy={"writeback": False})
    make_run(talk.thread)
    dead = make_talk()
    make_run(dead.thread)
    claim = dead.claim()
    with scoped_transaction(dead.wide):
        Job.objects.in_scope(dead.wide).filter(pk=claim.job_id).update(
            status="dead", finished_at=timezone.now(), lease_until=None
        )
    assert sweep(now=timezone.now(), find_lost=create_lost_jobs).recalls_created == 0
