"""The book of jobs as tests use it: ask, look, claim, end, each in a transaction of its own."""

from __future__ import annotations

import threading

from django.db import connection
from django.utils import timezone

from memory.jobs import NewJob, claim, complete, due_jobs, enqueue, fail, lane_of
from memory.models import Job, JobKind, JobStatus
from memory.rls import scoped_transaction
from memory.scope import Scope
from tests.factories import make_agent, make_end_user, make_tenant, make_thread


def tenant_scope(tenant_id):
    """The worker's scope on one tenant."""
    return Scope(tenant_ids=(tenant_id,), principal_id="worker")


def make_any_thread():
    """A thread of a tenant of its own."""
    tenant = make_tenant()
    return make_thread(make_agent(tenant), make_end_user(tenant))


def new_job(thread, key="roll", cursor_to=None):
    """A summary job of a thread."""
    return NewJob(
        kind=JobKind.ROLL_SUMMARY,
        thread_id=thread.id,
        run_id=None,
        end_user_id=thread.end_user_id,
        dedupe_key=f"{key}:{thread.id}",
        cursor_to=cursor_to,
    )


def ask(thread, key="roll", cursor_to=None):
    """Enqueue one job; say whether it is new."""
    scope = tenant_scope(thread.tenant_id)
    with scoped_transaction(scope):
        return enqueue(scope=scope, job=new_job(thread, key, cursor_to), now=timezone.now())


def jobs_of(tenant_id):
    """Every job of a tenant, oldest first."""
    scope = tenant_scope(tenant_id)
    with scoped_transaction(scope):
        return list(Job.objects.in_scope(scope).order_by("id"))


def only_job(thread):
    """The one job of a thread's tenant."""
    (job,) = jobs_of(thread.tenant_id)
    return job


def change(job, **values):
    """Change a job's row behind the book's back."""
    scope = tenant_scope(job.tenant_id)
    with scoped_transaction(scope):
        Job.objects.in_scope(scope).filter(id=job.id).update(**values)


def claim_of(job):
    """Claim one job."""
    return claim(job_id=job.id, tenant_id=job.tenant_id)


def end(claimed, *, code=None):
    """Complete a claim, or fail it with a code."""
    scope = tenant_scope(claimed.tenant_id)
    with scoped_transaction(scope):
        if code is None:
            complete(scope=scope, claim=claimed, now=timezone.now())
        else:
            fail(scope=scope, claim=claimed, error_code=code, now=timezone.now())


def due(job):
    """Ids of the due jobs of a job's lane."""
    return [job_id for job_id, _ in due_jobs(lane=lane_of(job.tenant_id), most=50)]


def all_ended(tenant_id):
    """Whether a tenant has no unfinished job."""
    unfinished = {JobStatus.READY, JobStatus.RUNNING}
    return all(job.status not in unfinished for job in jobs_of(tenant_id))


def wait_for(condition, *, seconds=30.0):
    """Wait until `condition()` holds and return its value."""
    for _ in range(int(seconds * 50)):
        found = condition()
        if found:
            return found
        threading.Event().wait(0.02)
    raise AssertionError(f"waited {seconds} s in vain")


def somebody_waits_for_a_lock():
    """Whether some connection waits for a lock of another one."""
    with connection.cursor() as cursor:
        cursor.execute("SELECT EXISTS (SELECT FROM pg_locks WHERE NOT granted)")
        return cursor.fetchone()[0]
