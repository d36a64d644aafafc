"""The book of jobs under real commits from several connections."""

from __future__ import annotations

import threading
from datetime import timedelta

from django.db import connection
from django.utils import timezone
from django_q.models import OrmQ

from memory.jobs import claim, complete, due_jobs, enqueue, lane_of, ring
from memory.rls import scoped_transaction
from tests.jobbook import (
    ask,
    claim_of,
    jobs_of,
    make_any_thread,
    new_job,
    only_job,
    somebody_waits_for_a_lock,
    tenant_scope,
    wait_for,
)


def test_enqueue_beside_a_shared_bell_keeps_the_worker_waiting_until_commit(
    committed_db: None,
) -> None:
    thread = make_any_thread()
    ring(lane_of(thread.tenant_id))
    bell = OrmQ.objects.get()
    shared, may_commit, taken = threading.Event(), threading.Event(), threading.Event()
    seen = []

    def write() -> None:
        scope = tenant_scope(thread.tenant_id)
        with scoped_transaction(scope):
            enqueue(scope=scope, job=new_job(thread), now=timezone.now())
            shared.set()
            may_commit.wait(20)
        connection.close()

    def dequeue() -> None:
        until = timezone.now() + timedelta(minutes=9)
        OrmQ.objects.filter(id=bell.id, lock=bell.lock).update(lock=until)
        seen.extend(due_jobs(lane=lane_of(thread.tenant_id), most=5))
        taken.set()
        connection.close()

    writer, worker = threading.Thread(target=write), threading.Thread(target=dequeue)
    writer.start()
    assert shared.wait(20)
    worker.start()
    wait_for(somebody_waits_for_a_lock)
    assert not taken.is_set()
    may_commit.set()
    writer.join(20)
    worker.join(20)
    assert OrmQ.objects.count() == 1
    assert [tenant_id for _, tenant_id in seen] == [thread.tenant_id]


def test_claim_by_many_threads_at_once_is_won_by_one(committed_db: None) -> None:
    thread = make_any_thread()
    ask(thread)
    job, start, won = only_job(thread), threading.Barrier(8), []

    def race() -> None:
        start.wait(20)
        claimed = claim(job_id=job.id, tenant_id=job.tenant_id)
        if claimed is not None:
            won.append(claimed)
        connection.close()

    racers = [threading.Thread(target=race) for _ in range(8)]
    for racer in racers:
        racer.start()
    for racer in racers:
        racer.join(20)
    assert len(won) == 1
    assert only_job(thread).attempts == 1


def test_enqueue_while_the_same_key_is_being_completed_is_not_lost(committed_db: None) -> None:
    thread = make_any_thread()
    ask(thread)
    claimed, results = claim_of(only_job(thread)), []

    def ask_meanwhile() -> None:
        results.append(ask(thread))
        connection.close()

    other = threading.Thread(target=ask_meanwhile)
    scope = tenant_scope(thread.tenant_id)
    with scoped_transaction(scope):
        complete(scope=scope, claim=claimed, now=timezone.now())
        other.start()
        wait_for(somebody_waits_for_a_lock)
    other.join(20)
    assert results == [True]
    assert [job.status for job in jobs_of(thread.tenant_id)] == ["done", "ready"]
