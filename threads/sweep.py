"""The sweep: finds whatever was lost between two steps and sets it going again.

It reads the book and the runs, never the queue, so an emptied queue or a new SECRET_KEY (which
makes every waiting bell unreadable) costs nothing but the time until the next sweep.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from typing import Final, Protocol

from django.db import connections
from django.db.models import Exists, F, OuterRef, Q
from django.db.models.functions import Coalesce, Now, Random

from memory.conf import lane_count, run_lease_seconds
from memory.jobs.bell import ring
from memory.jobs.book import due_jobs, enqueue, worker_scope
from memory.jobs.records import NewJob
from memory.models import Job, JobKind, JobStatus
from memory.querysets import ScopedQuerySet
from memory.rls import maintenance_transaction, scoped_transaction
from memory.scope import Scope
from threads.models import IdempotencyRecord, Run, RunStatus, Thread

INTERRUPTED: Final = "interrupted"
INTERRUPTED_DETAIL: Final = "The process that worked on this run ended before it finished."
IDEMPOTENCY_HOURS: Final = 24
_LOCK_KEY: Final = 0x63726564  # "cred": any number, as long as nobody else takes it
_REASON: Final = "The sweep looks after every tenant; it reads ids and states only."
_MOST_RUNS: Final = 500
_ALWAYS_VERBATIM: Final = 2  # the last turns, which never need a summary
_MOST_THREADS: Final = 100


class RollFinder(Protocol):
    """Decides whether a thread's summary is due although no job says so."""

    def __call__(self, *, scope: Scope, thread_id: str) -> NewJob | None:
        """Return the missing job; called inside a transaction of `scope`, one thread narrow."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SweepReport:
    """What one sweep did, in counts.

    Attributes:
        is_skipped: Another sweep was at it, so this one did nothing.
        runs_interrupted: Runs ended because their process is gone.
        lanes_rung: Lanes with due jobs.
        rolls_created: Summaries that were due without a job.
        idempotency_deleted: Answers kept for a day and now forgotten.
    """

    is_skipped: bool = False
    runs_interrupted: int = 0
    lanes_rung: int = 0
    rolls_created: int = 0
    idempotency_deleted: int = 0


def sweep(*, now: datetime, find_roll: RollFinder | None = None) -> SweepReport:
    """Sweep once, unless another sweep is running.

    Cost: a handful of statements, plus one check for each of at most 100 candidate threads.

    Args:
        now: For times that people read; leases follow the database's clock.
        find_roll: Says which threads lack a summary job; None looks for none.
    """
    with maintenance_transaction() as alias:
        if not _lock(alias):
            return SweepReport(is_skipped=True)
        report = SweepReport(
            runs_interrupted=_end_lost_runs(alias, now),
            idempotency_deleted=_forget_answers(alias, now),
        )
        rolls = _create_rolls(alias, find_roll=find_roll, now=now) if find_roll else 0
        return replace(report, rolls_created=rolls, lanes_rung=_ring_due_lanes())


def _lock(alias: str) -> bool:
    with connections[alias].cursor() as cursor:
        cursor.execute("SELECT pg_try_advisory_xact_lock(%s)", [_LOCK_KEY])
        row = cursor.fetchone()
    return row is not None and bool(row[0])


def _end_lost_runs(alias: str, now: datetime) -> int:
    """End the runs whose lease ran out; one that is being finished right now is left alone."""
    runs = Run.objects.unscoped(reason=_REASON).using(alias)
    unfinished = runs.filter(status__in=[RunStatus.QUEUED, RunStatus.RUNNING])
    never_began = Q(
        lease_until__isnull=True,
        created_at__lt=Now() - timedelta(seconds=run_lease_seconds()),
    )
    lost = (
        unfinished.filter(Q(lease_until__lt=Now()) | never_began)
        .select_for_update(skip_locked=True, of=("self",))
        .values_list("id", flat=True)[:_MOST_RUNS]
    )
    return _interrupt(unfinished.filter(id__in=list(lost)), now)


def end_every_unfinished_run(*, now: datetime) -> int:
    """End every unfinished run as interrupted, whatever its lease, and return how many.

    Only for whoever knows that no web process is left, as `make run` does before it starts its own
    and after that has ended; a retry with the same Idempotency-Key then need not wait for a lease.
    """
    with maintenance_transaction() as alias:
        runs = Run.objects.unscoped(reason=_REASON).using(alias)
        unfinished = runs.filter(status__in=[RunStatus.QUEUED, RunStatus.RUNNING])
        return _interrupt(unfinished, now)


def _interrupt(runs: ScopedQuerySet[Run], now: datetime) -> int:
    return runs.update(
        status=RunStatus.FAILED,
        error_code=INTERRUPTED,
        error_detail=INTERRUPTED_DETAIL,
        finished_at=now,
        lease_until=None,
    )


def _forget_answers(alias: str, now: datetime) -> int:
    records = IdempotencyRecord.objects.unscoped(reason=_REASON).using(alias)
    old = records.filter(created_at__lt=now - timedelta(hours=IDEMPOTENCY_HOURS))
    return old.delete()[0]


def _ring_due_lanes() -> int:
    rung = 0
    for lane in range(lane_count()):
        if due_jobs(lane=lane, most=1):
            ring(lane)
            rung += 1
    return rung


def _roll_candidates(alias: str) -> list[tuple[str, str, str]]:
    """Return (tenant, person, thread) where turns are uncovered and nothing is on its way.

    The most uncovered come first and equal ones in random order, so that every thread has its turn
    although a sweep looks at a hundred. A thread whose job died stays alone until a new turn.
    """
    jobs = (
        Job.objects.unscoped(reason=_REASON)
        .using(alias)
        .filter(tenant_id=OuterRef("tenant_id"), thread_id=OuterRef("id"))
        .filter(kind=JobKind.ROLL_SUMMARY)
    )
    waiting = jobs.filter(status__in=[JobStatus.READY, JobStatus.RUNNING])
    dead = jobs.filter(status=JobStatus.DEAD, finished_at__gte=OuterRef("updated_at"))
    uncovered = F("next_seq") - 1 - Coalesce(F("summary__summary_upto_seq"), 0)
    rows = (
        Thread.objects.unscoped(reason=_REASON)
        .using(alias)
        .annotate(uncovered=uncovered)
        .filter(~Exists(waiting), ~Exists(dead), uncovered__gt=_ALWAYS_VERBATIM)
        .order_by("-uncovered", Random())
        .values_list("tenant_id", "end_user_id", "id")
    )
    return list(rows[:_MOST_THREADS])


def _create_rolls(alias: str, *, find_roll: RollFinder, now: datetime) -> int:
    """Ask about each candidate and write the missing jobs, each as the worker in its own scope."""
    created = 0
    for tenant_id, end_user_id, thread_id in _roll_candidates(alias):
        scope = worker_scope(tenant_id).narrowed(user_id=end_user_id, thread_id=thread_id)
        with scoped_transaction(scope):
            job = find_roll(scope=scope, thread_id=thread_id)
            created += job is not None and enqueue(scope=scope, job=job, now=now)
    return created
