"""The sweep: finds whatever was lost between two steps and sets it going again.

It reads the book and the runs, never the queue, so an emptied queue or a new SECRET_KEY (which
makes every waiting bell unreadable) costs nothing but the time until the next sweep.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from typing import Final, Protocol

from django.db import connections
from django.db.models import Exists, F, OuterRef, Q, Subquery
from django.db.models.functions import Coalesce, Now, Random

from memory.conf import lane_count, run_lease_seconds
from memory.jobs.bell import ring
from memory.jobs.book import due_jobs, enqueue, worker_scope
from memory.jobs.records import NewJob
from memory.models import Job, JobKind, JobStatus
from memory.querysets import ScopedQuerySet
from memory.rls import maintenance_transaction, scoped_transaction
from memory.scope import Scope
from threads.models import (
    IdempotencyRecord,
    Run,
    RunStatus,
    SummaryNode,
    Thread,
    ThreadStrategy,
)

INTERRUPTED: Final = "interrupted"
INTERRUPTED_DETAIL: Final = "The process that worked on this run ended before it finished."
IDEMPOTENCY_HOURS: Final = 24
_LOCK_KEY: Final = 0x63726564  # "cred": any number, as long as nobody else takes it
_REASON: Final = "The sweep looks after every tenant; it reads ids and states only."
_MOST_RUNS: Final = 500
_ALWAYS_VERBATIM: Final = 2  # the last turns, which never need a summary and are in no node
_MOST_THREADS: Final = 100


class JobFinder(Protocol):
    """Decides whether a thread's summary, or its nodes, are due although no job says so."""

    def __call__(self, *, scope: Scope, thread_id: str) -> NewJob | None:
        """Return the missing job; called inside a transaction of `scope`, one thread narrow."""


class LostFinder(Protocol):
    """Asks for the jobs of recall that are missing."""

    def __call__(self, *, alias: str, now: datetime) -> int:
        """Return how many jobs are new; called inside the sweep's own transaction on `alias`."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SweepReport:
    """What one sweep did, in counts.

    Attributes:
        is_skipped: Another sweep was at it, so this one did nothing.
        runs_interrupted: Runs ended because their process is gone.
        lanes_rung: Lanes with due jobs.
        rolls_created: Summaries that were due without a job.
        builds_created: Forests that were due without a job.
        recalls_created: Threads and shelves whose index was due without a job.
        idempotency_deleted: Answers kept for a day and now forgotten.
    """

    is_skipped: bool = False
    runs_interrupted: int = 0
    lanes_rung: int = 0
    rolls_created: int = 0
    builds_created: int = 0
    recalls_created: int = 0
    idempotency_deleted: int = 0


def sweep(
    *,
    now: datetime,
    find_roll: JobFinder | None = None,
    find_nodes: JobFinder | None = None,
    find_lost: LostFinder | None = None,
) -> SweepReport:
    """Sweep once, unless another sweep is running.

    Cost: a handful of statements, plus one check for each of at most 100 candidate threads of each
    strategy.

    Args:
        now: For times that people read; leases follow the database's clock.
        find_roll: Says which rolling threads lack a summary job; None looks for none.
        find_nodes: Says which lossless threads lack a job for their nodes; None looks for none.
        find_lost: Asks for what recall lacks; None does not.
    """
    with maintenance_transaction() as alias:
        if not _lock(alias):
            return SweepReport(is_skipped=True)
        report = SweepReport(
            runs_interrupted=_end_lost_runs(alias, now),
            idempotency_deleted=_forget_answers(alias, now),
        )
        rolls, builds = 0, 0
        if find_roll:
            rolls = _create_jobs(_roll_candidates(alias), find=find_roll, now=now)
        if find_nodes:
            builds = _create_jobs(_build_candidates(alias), find=find_nodes, now=now)
        recalls = find_lost(alias=alias, now=now) if find_lost else 0
        return replace(
            report,
            rolls_created=rolls,
            builds_created=builds,
            recalls_created=recalls,
            lanes_rung=_ring_due_lanes(),
        )


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
    """Return (tenant, person, thread) of rolling threads with uncovered turns and no job."""
    covered = Coalesce(F("summary__summary_upto_seq"), 0)
    rows = _without_job(alias, JobKind.ROLL_SUMMARY).filter(
        agent__thread_strategy=ThreadStrategy.ROLLING
    )
    return _most_uncovered(rows, covered)


def _build_candidates(alias: str) -> list[tuple[str, str, str]]:
    """Return (tenant, person, thread) of lossless threads with uncovered turns and no job."""
    roots = SummaryNode.objects.unscoped(reason=_REASON).using(alias)
    last = roots.filter(thread_id=OuterRef("id"), parent__isnull=True).order_by("-start_seq")
    covered = Coalesce(Subquery(last.values("end_seq")[:1]), 0)
    kinds = (JobKind.BUILD_NODES, JobKind.CONSOLIDATE_NODES)
    rows = _without_job(alias, *kinds).filter(agent__thread_strategy=ThreadStrategy.LOSSLESS)
    return _most_uncovered(rows, covered)


def _without_job(alias: str, *kinds: JobKind) -> ScopedQuerySet[Thread]:
    """Return the threads where no such job is on its way.

    A thread whose job died stays alone until a new turn.
    """
    jobs = (
        Job.objects.unscoped(reason=_REASON)
        .using(alias)
        .filter(tenant_id=OuterRef("tenant_id"), thread_id=OuterRef("id"))
        .filter(kind__in=kinds)
    )
    waiting = jobs.filter(status__in=[JobStatus.READY, JobStatus.RUNNING])
    dead = jobs.filter(status=JobStatus.DEAD, finished_at__gte=OuterRef("updated_at"))
    threads = Thread.objects.unscoped(reason=_REASON).using(alias)
    return threads.filter(~Exists(waiting), ~Exists(dead))


def _most_uncovered(rows: ScopedQuerySet[Thread], covered: Coalesce) -> list[tuple[str, str, str]]:
    """Return a hundred threads: the most uncovered first and equal ones in random order.

    So every thread has its turn although a sweep looks at a hundred.
    """
    uncovered = F("next_seq") - 1 - covered
    named = rows.annotate(uncovered=uncovered).filter(uncovered__gt=_ALWAYS_VERBATIM)
    ordered = named.order_by("-uncovered", Random())
    return list(ordered.values_list("tenant_id", "end_user_id", "id")[:_MOST_THREADS])


def _create_jobs(
    candidates: Sequence[tuple[str, str, str]], *, find: JobFinder, now: datetime
) -> int:
    """Ask about each candidate and write the missing jobs, each as the worker in its own scope."""
    created = 0
    for tenant_id, end_user_id, thread_id in candidates:
        scope = worker_scope(tenant_id).narrowed(user_id=end_user_id, thread_id=thread_id)
        with scoped_transaction(scope):
            job = find(scope=scope, thread_id=thread_id)
            created += job is not None and enqueue(scope=scope, job=job, now=now)
    return created
