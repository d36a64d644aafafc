"""Finding what recall lost between two steps: turns without an entry, entries without a vector.

A sweep looks at a bounded number of threads and shelves, since telling that nothing is missing costs
as much as there is: at those that changed last, where a lost job would be, and at some others drawn
by lot, so that every one has its turn.
"""

from __future__ import annotations

from datetime import datetime
from typing import Any, Final

from django.db import connections

from memory import jobs
from memory.jobs.book import WORKER
from memory.rls import scoped_transaction
from memory.scope import Scope
from threads.recall.indexing import find_index

_MOST: Final = 100
_MOST_ATTEMPTS: Final = 5  # as of the worker that makes vectors
# Each entry is of one succeeded run of its thread, so counting tells as much as looking for each; of
# runs that policy recalls no longer there are none.
_LOST_TURNS: Final = """
    WITH idle AS (
        SELECT thread.tenant_id, thread.end_user_id, thread.id, thread.updated_at
        FROM threads_thread thread WHERE thread.run_count > 0 AND NOT EXISTS (
            SELECT 1 FROM memory_job job WHERE job.tenant_id = thread.tenant_id
                AND job.dedupe_key = 'index_recall:' || thread.id AND (
                    job.status IN ('ready', 'running')
                    OR job.status = 'dead' AND job.finished_at >= thread.updated_at))
    ), looked_at AS (
        (SELECT * FROM idle ORDER BY updated_at DESC LIMIT %(most)s)
        UNION
        (SELECT * FROM idle ORDER BY random() LIMIT %(most)s)
    )
    SELECT tenant_id, end_user_id, id FROM looked_at thread
    WHERE (SELECT count(*) FROM threads_run run WHERE run.tenant_id = thread.tenant_id
            AND run.thread_id = thread.id AND run.status = 'succeeded'
            AND run.created_at >= coalesce(%(now)s - (SELECT
                make_interval(days => (overrides ->> 'retention_recall_days')::int)
                FROM governance_tenantpolicy policy
                WHERE policy.tenant_id = thread.tenant_id), '-infinity'))
        > (SELECT count(*) FROM memory_recallentry entry
            WHERE entry.tenant_id = thread.tenant_id AND entry.thread_id = thread.id)
    ORDER BY updated_at LIMIT %(most)s
"""
_LOST_VECTORS: Final = """
    WITH wanted AS (
        SELECT id, tenant_id FROM memory_embeddingmodel WHERE status IN ('active', 'building')
    ), looked_at AS (
        SELECT shelf.id, shelf.tenant_id, shelf.end_user_id FROM memory_shelf shelf
        WHERE shelf.version > 0 AND NOT EXISTS (
            SELECT 1 FROM memory_job job WHERE job.tenant_id = shelf.tenant_id
                AND job.dedupe_key = 'embed:' || shelf.id AND (
                    job.status IN ('ready', 'running')
                    OR job.status = 'dead' AND job.finished_at >= %(now)s - interval '1 hour'))
        ORDER BY random() LIMIT %(most)s
    )
    SELECT tenant_id, end_user_id, id FROM looked_at shelf WHERE NOT EXISTS (
        SELECT 1 FROM memory_embeddingmodel model WHERE model.tenant_id = shelf.tenant_id
    ) AND NOT EXISTS (
        SELECT 1 FROM memory_job job WHERE job.tenant_id = shelf.tenant_id
            AND job.dedupe_key = 'embed:' || shelf.id
    ) OR EXISTS (
        SELECT 1 FROM memory_indexentry entry
        JOIN wanted model ON model.tenant_id = entry.tenant_id
        WHERE entry.tenant_id = shelf.tenant_id AND entry.shelf_id = shelf.id AND NOT EXISTS (
            SELECT 1 FROM memory_embedding vector WHERE vector.tenant_id = entry.tenant_id
                AND vector.entry_id = entry.id AND vector.model_id = model.id
                AND (vector.status = 'ready' OR vector.attempts >= %(attempts)s
                    OR vector.updated_at > %(now)s - interval '10 minutes')))
"""


def create_lost_jobs(*, alias: str, now: datetime) -> int:
    """Ask for the index and embed jobs that are missing; return how many are new.

    Reads ids and states of every tenant, as the sweep does; each job is written as the worker in a
    scope of its own. Cost: two statements over at most 300 threads and shelves, and about six
    statements for each of at most 200 that lack something.

    Args:
        alias: The sweep's connection, of the role that sees every row.
        now: For the jobs' times.
    """
    with connections[alias].cursor() as cursor:
        cursor.execute(_LOST_TURNS, {"most": _MOST, "now": now})
        threads = cursor.fetchall()
        values: dict[str, Any] = {"most": _MOST, "now": now, "attempts": _MOST_ATTEMPTS}
        cursor.execute(_LOST_VECTORS, values)
        shelves = cursor.fetchall()
    created = 0
    for tenant_id, end_user_id, thread_id in threads:
        created += _index(_scope(tenant_id, end_user_id), thread_id, now)
    for tenant_id, end_user_id, shelf_id in shelves:
        created += _embed(_scope(tenant_id, end_user_id), shelf_id, now)
    return created


def _scope(tenant_id: str, end_user_id: str | None) -> Scope:
    return Scope(tenant_ids=(tenant_id,), principal_id=WORKER, user_id=end_user_id)


def _index(scope: Scope, thread_id: str, now: datetime) -> bool:
    with scoped_transaction(scope):
        job = find_index(scope=scope, thread_id=thread_id)
        return job is not None and jobs.enqueue(scope=scope, job=job, now=now)


def _embed(scope: Scope, shelf_id: str, now: datetime) -> bool:
    with scoped_transaction(scope):
        job = jobs.embed_job(shelf_id=shelf_id, end_user_id=scope.user_id)
        return jobs.enqueue(scope=scope, job=job, now=now)
