"""Forgetting turns: the runs go with everything that was made of them and nobody decided.

What a person has confirmed or admitted stays, as that person's word, and no longer says from which
turn it came (ADR 0011). Inside the caller's transaction, in the scope of the thread's person.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any, Final

from django.db import connection
from psycopg import sql

from governance.erasure.operations import erase_these_runs
from memory.scope import Scope
from threads.forgetting import derived
from threads.titles import title_of

_OF_RUNS: Final = "tenant_id = %(tenant)s AND run_id = ANY (%(runs)s::text[])"
_OF_THREAD: Final = "tenant_id = %(tenant)s AND thread_id = %(thread)s"
_ITEMS: Final = f"(SELECT id FROM memory_memoryitem WHERE {_OF_RUNS})"  # noqa: S608 - a constant
_ENTRIES: Final = f"(SELECT id FROM memory_indexentry WHERE item_id IN {_ITEMS})"  # noqa: S608
_MESSAGES: Final = f"(SELECT id FROM threads_message WHERE {_OF_RUNS})"  # noqa: S608
_CANDIDATES: Final = f"(SELECT id FROM governance_corecandidate WHERE {_OF_RUNS})"  # noqa: S608
_JOBS: Final = f"(SELECT id FROM memory_job WHERE {_OF_RUNS})"  # noqa: S608
_THREADS_JOBS: Final = f"(SELECT id FROM memory_job WHERE {_OF_THREAD})"  # noqa: S608
_OF_TENANT: Final = "tenant_id = %(tenant)s AND "
_DECIDER: Final = (
    "run_id = NULL, origin = CASE decided_by_kind WHEN 'staff' THEN 'staff' ELSE 'api' END"
)
# Table, what is set, and where: what is changed so that it can live without its turn.
_UNLINK: Final = (
    ("memory_corefact", _DECIDER, f"{_OF_RUNS} AND origin = 'run'"),
    ("memory_corefact", "run_id = NULL", _OF_RUNS),
    ("memory_corefact", "candidate_id = NULL", f"{_OF_TENANT} candidate_id IN {_CANDIDATES}"),
    ("memory_entityevent", "run_id = NULL", _OF_RUNS),
    ("governance_correction", "message_id = NULL", f"{_OF_TENANT} message_id IN {_MESSAGES}"),
    ("governance_correction", "run_id = NULL", _OF_RUNS),
    ("memory_knowledgedocument", "run_id = NULL", f"{_OF_RUNS} AND status <> 'pending'"),
    (
        "threads_run",
        "continues_id = NULL",
        f"{_OF_TENANT} continues_id = ANY (%(runs)s::text[])",
    ),
    ("memory_memoryop", "job_id = NULL", f"{_OF_TENANT} job_id IN {_JOBS}"),
)
# Counted as, table and where: what goes, in an order in which nothing names what is gone.
_DELETE: Final = (
    ("jobs", "memory_job", _OF_RUNS),
    ("core_candidates", "governance_corecandidate", _OF_RUNS),
    ("extractions", "governance_extraction", _OF_RUNS),
    ("embeddings", "memory_embedding", f"{_OF_TENANT} entry_id IN {_ENTRIES}"),
    ("index_entries", "memory_indexentry", f"{_OF_TENANT} item_id IN {_ITEMS}"),
    ("item_versions", "memory_memoryitemversion", _OF_RUNS),
    ("item_versions", "memory_memoryitemversion", f"{_OF_TENANT} item_id IN {_ITEMS}"),
    ("items", "memory_memoryitem", _OF_RUNS),
    ("documents", "memory_knowledgedocument", f"{_OF_RUNS} AND status = 'pending'"),
    ("artifacts", "threads_artifact", _OF_RUNS),
    ("kept_answers", "threads_idempotencyrecord", _OF_RUNS),
    ("run_traces", "threads_runtrace", _OF_RUNS),
    ("messages", "threads_message", _OF_RUNS),
    ("context_traces", "threads_contexttrace", _OF_THREAD),
)
# Of a thread that has no turns any more.
_UNLINK_THREAD: Final = (
    ("memory_memoryop", "thread_id = NULL, job_id = NULL", _OF_THREAD),
    ("memory_memoryop", "job_id = NULL", f"{_OF_TENANT} job_id IN {_THREADS_JOBS}"),
)
_DELETE_THREAD: Final = (
    ("jobs", "memory_job", _OF_THREAD),
    ("context_traces", "threads_contexttrace", _OF_THREAD),
    ("extractions", "governance_extraction", _OF_THREAD),
    ("corrections", "governance_correction", _OF_THREAD),
    ("grants", "governance_threadusergrant", "content_object_id = %(thread)s"),
    ("grants", "governance_threadgroupgrant", "content_object_id = %(thread)s"),
    ("threads", "threads_thread", f"{_OF_TENANT} id = %(thread)s"),
)
_SET: Final = sql.SQL("UPDATE {} SET {} WHERE {}")
_TAKE: Final = sql.SQL("DELETE FROM {} WHERE {}")
_FIRST: Final = """
    SELECT input FROM threads_run WHERE tenant_id = %(tenant)s AND thread_id = %(thread)s
        AND id = ANY (%(runs)s::text[]) ORDER BY seq LIMIT 1
"""
_TITLE: Final = """
    UPDATE threads_thread SET run_count = greatest(run_count - %(gone)s, 0),
        title = CASE WHEN title = %(title)s THEN '' ELSE title END
    WHERE tenant_id = %(tenant)s AND id = %(thread)s
"""


def forget_turns(
    *, scope: Scope, thread_id: str, run_ids: Sequence[str], now: datetime, is_rebuilt: bool = True
) -> Counter[str]:
    """Delete runs of one thread with all that was made of them; return how many rows of what.

    The thread's summary and nodes go as a whole, since one may stand on any turn, and are asked for
    anew from the turns that are left; so do traces of contexts that were assembled in it. What the
    runs had cost stays in the sums. A title that was the first question's start goes with it.
    Cost: about forty statements.

    Args:
        scope: The person's.
        thread_id: Their thread.
        run_ids: Runs of it that have ended.
        now: When the jobs are asked for.
        is_rebuilt: Whether what is left of the thread needs its summary again.
    """
    values: dict[str, Any] = {
        "tenant": scope.tenant_id,
        "thread": thread_id,
        "runs": list(run_ids),
    }
    derived.take_jobs_back(scope=scope)
    counts = derived.drop_summaries(scope=scope, thread_id=thread_id, is_stale=lambda *_: True)
    recall_ids = derived.recall_of_runs(scope=scope, run_ids=run_ids)
    counts["recall_entries"] += derived.forget_recall(scope=scope, recall_ids=recall_ids)
    with connection.cursor() as cursor:
        cursor.execute(_FIRST, values)
        first = cursor.fetchone()
    counts += _changed(_UNLINK, _DELETE, values)
    gone = erase_these_runs(tenant_id=scope.tenant_id, run_ids=run_ids)
    counts["runs"] += gone
    with connection.cursor() as cursor:
        title = title_of(first[0]) if first else ""
        cursor.execute(_TITLE, {**values, "gone": gone, "title": title})
    if is_rebuilt:
        derived.ask_anew(scope=scope, thread_id=thread_id, now=now)
    return counts


def drop_thread(*, scope: Scope, thread_id: str) -> Counter[str]:
    """Delete a thread that has no turns any more, with its jobs and rights. Cost: ten statements."""
    counts = derived.drop_summaries(scope=scope, thread_id=thread_id, is_stale=lambda *_: True)
    values: dict[str, Any] = {"tenant": scope.tenant_id, "thread": thread_id}
    return counts + _changed(_UNLINK_THREAD, _DELETE_THREAD, values)


def _changed(
    unlink: Sequence[tuple[str, str, str]],
    delete: Sequence[tuple[str, str, str]],
    values: Mapping[str, Any],
) -> Counter[str]:
    """Change and delete by the lists above; return how many rows went, by name."""
    counts: Counter[str] = Counter()
    with connection.cursor() as cursor:
        for table, change, whose in unlink:
            statement = _SET.format(sql.Identifier(table), sql.SQL(change), sql.SQL(whose))
            cursor.execute(statement, values)
        for name, table, whose in delete:
            cursor.execute(_TAKE.format(sql.Identifier(table), sql.SQL(whose)), values)
            counts[name] += cursor.rowcount
    return counts
