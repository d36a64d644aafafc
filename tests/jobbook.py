"""The book of jobs as tests use it: ask, look, claim, end, each in a transaction of its own."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any

from django.db import connection
from django.utils import timezone

from memory.jobs import Claim, NewJob, claim, complete, due_jobs, enqueue, fail, lane_of
from memory.models import Job, JobKind, JobStatus
from memory.rls import scoped_transaction
from memory.scope import Scope
from tests.factories import make_agent, make_end_user, make_tenant, make_thread
from threads.models import Thread


def tenant_scope(tenant_id: str) -> Scope:
    """The worker's scope on one tenant."""
    return Scope(tenant_ids=(tenant_id,), principal_id="worker")


def make_any_thread() -> Thread:
    """A thread of a tenant of its own."""
    tenant = make_tenant()
    return make_thread(make_agent(tenant), make_end_user(tenant))


def new_job(thread: Thread, key: str = "roll", cursor_to: int | None = None) -> NewJob:
    """A summary job of a thread."""
    return NewJob(
        kind=JobKind.ROLL_SUMMARY,
        thread_id=thread.id,
        run_id=None,
        end_user_id=thread.end_user_id,
        dedupe_key=f"{key}:{thread.id}",
        cursor_to=cursor_to,
    )


def ask(thread: Thread, key: str = "roll", cursor_to: int | None = None) -> bool:
    """Enqueue one job; say whether it is new."""
    scope = tenant_scope(thread.tenant_id)
    with scoped_transaction(scope):
        return enqueue(scope=scope, job=new_job(thread, key, cursor_to), now=timezone.now())


def jobs_of(tenant_id: str) -> list[Job]:
    """Every job of a tenant, oldest first."""
    scope = tenant_scope(tenant_id)
    with scoped_transaction(scope):
        return list(Job.objects.in_scope(scope).order_by("id"))


def only_job(thread: Thread) -> Job:
    """The one job of a thread's tenant."""
    (job,) = jobs_of(thread.tenant_id)
    return job


def change(job: Job, **values: Any) -> None:
    """Change a job's row behind the book's back."""
    scope = tenant_scope(job.tenant_id)
    with scoped_transaction(scope):
        Job.objects.in_scope(scope).filter(id=job.id).update(**values)


def claim_of(job: Job) -> Claim:
    """Claim one job that is due."""
    claimed = claim(job_id=job.id, tenant_id=job.tenant_id)
    assert claimed is not None
    return claimed


def refuses_claim(job: Job) -> bool:
    """Whether the book gives this job to nobody now."""
    return claim(job_id=job.id, tenant_id=job.tenant_id) is None


def end(claimed: Claim, *, code: str | None = None) -> None:
    """Complete a claim, or fail it with a code."""
    scope = tenant_scope(claimed.tenant_id)
    with scoped_transaction(scope):
        if code is None:
            complete(scope=scope, claim=claimed, now=timezone.now())
        else:
            fail(scope=scope, claim=claimed, error_code=code, now=timezone.now())


def due(job: Job) -> list[str]:
    """Ids of the due jobs of a job's lane."""
    return [job_id for job_id, _ in due_jobs(lane=lane_of(job.tenant_id), most=50)]


def all_ended(tenant_id: str) -> bool:
    """Whether a tenant has no unfinished job."""
    unfinished = {JobStatus.READY, JobStatus.RUNNING}
    return all(job.status not in unfinished for job in jobs_of(tenant_id))


def wait_for(condition: Callable[[], Any], *, seconds: float = 30.0) -> Any:
    """Wait until `condition()` holds and return its value."""
    for _ in range(int(seconds * 50)):
        found = condition()
        if found:
            return found
        threading.Event().wait(0.02)
    raise AssertionError(f"waited {seconds} s in vain")


def somebody_waits_for_a_lock() -> bool:
    """Whether some connection waits for a lock of another one."""
    with connection.cursor() as cursor:
        cursor.execute("SELECT EXISTS (SELECT FROM pg_locks WHERE NOT granted)")
        row = cursor.fetchone()
        return row is not None and bool(row[0])
