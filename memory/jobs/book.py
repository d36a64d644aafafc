"""The rows of the book: asking for work, claiming it, finishing it.

Leases and due times follow the database's clock, so hosts whose clocks differ agree.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import Any

from django.db import IntegrityError, connection, transaction
from django.db.models import Value
from django.db.models.functions import Least, Now

from memory.conf import job_lease_seconds, lane_count
from memory.errors import ConflictError, NotFoundError
from memory.ids import new_id
from memory.jobs.bell import ring
from memory.jobs.records import (
    BACKOFF_SECONDS,
    MAX_ATTEMPTS,
    Claim,
    LeaseLostError,
    NewJob,
    OutsideTransactionError,
)
from memory.lanes import lane_key, lane_of
from memory.models import Job, JobKind, JobStatus
from memory.rls import open_scope, scoped_transaction
from memory.scope import Scope

WORKER = "worker"
_ENQUEUE = """
    INSERT INTO memory_job AS job (id, tenant_id, end_user_id, thread_id, run_id, kind, dedupe_key,
        lane_key, status, attempts, not_before, epoch, cursor_from, cursor_to, error_code,
        created_at)
    SELECT given.id, %(tenant)s, given.end_user_id, given.thread_id, given.run_id, given.kind,
        given.dedupe_key, %(lane)s, 'ready', 0, transaction_timestamp(), 0, given.cursor_from,
        given.cursor_to, '', %(now)s
    FROM unnest(%(ids)s::text[], %(end_users)s::text[], %(threads)s::text[], %(runs)s::text[],
        %(kinds)s::text[], %(keys)s::text[], %(froms)s::bigint[], %(tos)s::bigint[])
        AS given (id, end_user_id, thread_id, run_id, kind, dedupe_key, cursor_from, cursor_to)
    ON CONFLICT (tenant_id, dedupe_key) WHERE status IN ('ready', 'running') DO UPDATE SET
        cursor_to = GREATEST(job.cursor_to, EXCLUDED.cursor_to),
        not_before = CASE WHEN job.status = 'running'
            THEN GREATEST(clock_timestamp(), job.not_before + interval '1 microsecond')
            ELSE job.not_before END
    RETURNING job.xmax = 0
"""
_IS_DUE = """
    job.id = %(job)s AND job.tenant_id = %(tenant)s AND (
        (job.status = 'ready' AND job.not_before <= statement_timestamp())
        OR (job.status = 'running' AND job.lease_until < statement_timestamp()))
"""
_CLAIM = f"""
    UPDATE memory_job AS job SET status = 'running', attempts = attempts + 1, epoch = epoch + 1,
        not_before = statement_timestamp(),
        lease_until = statement_timestamp() + make_interval(secs => %(lease)s)
    WHERE {_IS_DUE} AND job.attempts < %(most)s AND NOT EXISTS (
        SELECT 1 FROM memory_job earlier
        WHERE earlier.tenant_id = job.tenant_id AND earlier.thread_id = job.thread_id
            AND earlier.status IN ('ready', 'running') AND earlier.id < job.id)
    RETURNING kind, thread_id, end_user_id, run_id, dedupe_key, epoch, attempts, cursor_from,
        cursor_to, not_before
"""  # noqa: S608 - built from a constant
_BURY = f"""
    UPDATE memory_job AS job SET status = 'dead', error_code = 'worker_lost', lease_until = NULL,
        finished_at = statement_timestamp()
    WHERE {_IS_DUE} AND job.attempts >= %(most)s
"""  # noqa: S608 - built from a constant
_HOLD = """
    SELECT 1 FROM memory_job
    WHERE id = %s AND tenant_id = %s AND epoch = %s AND status = 'running' FOR UPDATE
"""
_COMPLETE = """
    UPDATE memory_job SET lease_until = NULL, error_code = '',
        status = CASE WHEN not_before > %(claimed_at)s THEN 'ready' ELSE 'done' END,
        attempts = CASE WHEN not_before > %(claimed_at)s THEN 0 ELSE attempts END,
        finished_at = CASE WHEN not_before > %(claimed_at)s THEN NULL ELSE %(now)s END,
        not_before = CASE WHEN not_before > %(claimed_at)s
            THEN transaction_timestamp() ELSE not_before END
    WHERE id = %(job)s AND tenant_id = %(tenant)s AND epoch = %(epoch)s AND status = 'running'
"""
_FAIL = """
    UPDATE memory_job SET lease_until = NULL, error_code = %(code)s,
        status = CASE WHEN attempts >= %(most)s THEN 'dead' ELSE 'ready' END,
        finished_at = CASE WHEN attempts >= %(most)s THEN %(now)s::timestamptz END,
        not_before = statement_timestamp() + make_interval(secs => %(backoff)s)
    WHERE id = %(job)s AND tenant_id = %(tenant)s AND epoch = %(epoch)s AND status = 'running'
"""
_DUE = "SELECT job_id, tenant_id FROM credence_due_jobs(%s, %s, %s)"


def enqueue(*, scope: Scope, job: NewJob, now: datetime) -> bool:
    """Write one job and ring for it, in the caller's transaction; say whether the row is new.

    An unfinished job with the same key takes the wish over: its range grows, and if it is being
    worked on right now it runs once more afterwards, since that work may not have seen what this
    transaction wrote. Cost: two statements, or three.

    Raises:
        OutsideTransactionError: No scoped transaction of this tenant is open.
    """
    return enqueue_all(scope=scope, wanted=(job,), now=now) == 1


def enqueue_all(*, scope: Scope, wanted: Sequence[NewJob], now: datetime) -> int:
    """Write several jobs as `enqueue` does, in order, and return how many are new.

    No two of them may have the same key. Cost: that of one, however many there are; none for none.

    Raises:
        OutsideTransactionError: No scoped transaction of this tenant is open.
    """
    _require_transaction(scope)
    if not wanted:
        return 0
    tenant_id = scope.tenant_id
    values: dict[str, Any] = {
        "tenant": tenant_id,
        "lane": lane_key(tenant_id),
        "now": now,
        "ids": [new_id("job") for _ in wanted],
        "end_users": [job.end_user_id for job in wanted],
        "threads": [job.thread_id for job in wanted],
        "runs": [job.run_id for job in wanted],
        "kinds": [job.kind for job in wanted],
        "keys": [job.dedupe_key for job in wanted],
        "froms": [job.cursor_from for job in wanted],
        "tos": [job.cursor_to for job in wanted],
    }
    with connection.cursor() as cursor:
        cursor.execute(_ENQUEUE, values)
        new = [is_new for (is_new,) in cursor.fetchall()].count(True)
    if new:
        ring(lane_of(tenant_id))
    return new


def due_jobs(*, lane: int, most: int) -> list[tuple[str, str]]:
    """Return (job id, tenant id) of a lane's due jobs, oldest first, one a thread.

    Needs no scope: the lookup is one of the two audited definer functions.
    """
    with connection.cursor() as cursor:
        cursor.execute(_DUE, (lane, lane_count(), most))
        return [(job_id, tenant_id) for job_id, tenant_id in cursor.fetchall()]


def claim(*, job_id: str, tenant_id: str) -> Claim | None:
    """Claim a due job in a transaction of its own, or return None; the attempt counts at once.

    A job whose last allowed attempt was never answered is buried here: whatever ended the process
    would end the next one too. Cost: four statements.
    """
    values: dict[str, Any] = {
        "job": job_id,
        "tenant": tenant_id,
        "lease": job_lease_seconds(),
        "most": MAX_ATTEMPTS,
    }
    with scoped_transaction(worker_scope(tenant_id)), connection.cursor() as cursor:
        cursor.execute(_CLAIM, values)
        row = cursor.fetchone()
        if row is None:
            cursor.execute(_BURY, values)
            return None
    return Claim(
        job_id=job_id,
        tenant_id=tenant_id,
        kind=row[0],
        thread_id=row[1],
        end_user_id=row[2],
        run_id=row[3],
        dedupe_key=row[4],
        epoch=row[5],
        attempts=row[6],
        cursor_from=row[7],
        cursor_to=row[8],
        claimed_at=row[9],
    )


def hold(*, scope: Scope, claim: Claim) -> None:
    """Lock the claimed job's row until the writer's transaction ends. Cost: one statement.

    Raises:
        LeaseLostError: The job was claimed again, or finished, since this claim.
        OutsideTransactionError: No scoped transaction of this tenant is open.
    """
    _require_transaction(scope)
    with connection.cursor() as cursor:
        cursor.execute(_HOLD, (claim.job_id, claim.tenant_id, claim.epoch))
        if cursor.fetchone() is None:
            raise LeaseLostError


def ask_again(*, scope: Scope, claim: Claim, now: datetime) -> None:
    """Ask for another round of this very job, once it is through. Cost: one transaction.

    Raises:
        LeaseLostError: The job was claimed again; that claim goes on instead.
    """
    job = NewJob(
        kind=JobKind(claim.kind),
        thread_id=claim.thread_id,
        run_id=claim.run_id,
        end_user_id=claim.end_user_id,
        dedupe_key=claim.dedupe_key,
        cursor_to=claim.cursor_to,
    )
    with scoped_transaction(scope):
        hold(scope=scope, claim=claim)
        enqueue(scope=scope, job=job, now=now)


def complete(*, scope: Scope, claim: Claim, now: datetime) -> None:
    """Close a claimed job, or make it ready again if it was asked for while it ran.

    Raises:
        LeaseLostError: The job was claimed again, or finished, since this claim.
        OutsideTransactionError: No scoped transaction of this tenant is open.
    """
    _finish(_COMPLETE, scope=scope, claim=claim, now=now)


def fail(*, scope: Scope, claim: Claim, error_code: str, now: datetime) -> None:
    """Give a claimed job back, to be tried after 10 × 2^n seconds; after the last try it is dead.

    Raises:
        LeaseLostError: The job was claimed again, or finished, since this claim.
        OutsideTransactionError: No scoped transaction of this tenant is open.
    """
    backoff = BACKOFF_SECONDS * 2 ** (claim.attempts - 1)
    _finish(_FAIL, scope=scope, claim=claim, now=now, code=error_code[:64], backoff=backoff)


def retry(*, scope: Scope, job_id: str, now: datetime) -> Job:
    """Make a dead job ready again with all its attempts, and ring; the caller audits.

    Raises:
        NotFoundError: The scope has no such job.
        ConflictError: It is not dead, or the same work is waiting already.
        OutsideTransactionError: No scoped transaction of this tenant is open.
    """
    _require_transaction(scope)
    job = Job.objects.in_scope(scope).select_for_update().filter(id=job_id).first()
    if job is None:
        raise NotFoundError
    if job.status != JobStatus.DEAD:
        raise ConflictError("Only a dead job can be retried.")
    again = Job.objects.in_scope(scope).filter(id=job_id)
    try:
        with transaction.atomic():
            again.update(
                status=JobStatus.READY,
                attempts=0,
                finished_at=None,
                # Due at once, also where the caller's clock runs ahead of the database's.
                not_before=Least(Value(now), Now()),
            )
    except IntegrityError as error:
        raise ConflictError("The same work is waiting already.") from error
    ring(lane_of(job.tenant_id))
    return again.get()


def worker_scope(tenant_id: str) -> Scope:
    """Return the scope in which the worker keeps the book of one tenant."""
    return Scope(tenant_ids=(tenant_id,), principal_id=WORKER)


def _finish(statement: str, *, scope: Scope, claim: Claim, now: datetime, **more: Any) -> None:
    _require_transaction(scope)
    values: dict[str, Any] = {
        "job": claim.job_id,
        "tenant": claim.tenant_id,
        "epoch": claim.epoch,
        "claimed_at": claim.claimed_at,
        "most": MAX_ATTEMPTS,
        "now": now,
    }
    with connection.cursor() as cursor:
        cursor.execute(statement, values | more)
        if cursor.rowcount == 0:
            raise LeaseLostError


def _require_transaction(scope: Scope) -> None:
    opened = open_scope()
    if opened is None or not set(scope.tenant_ids) <= set(opened.tenant_ids):
        raise OutsideTransactionError
