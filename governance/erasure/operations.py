"""Steps that change rows instead of deleting them, and runs, whose cost is kept in sums."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import date, datetime
from decimal import Decimal
from typing import Any, Final

from django.db import connection

from governance.erasure.subjects import Subject
from memory.ids import new_id
from memory.scope import Scope

_BATCH: Final = 1000
# Rows of one table that name each other: nothing is lost, since all of them go.
_UNLINK: Final = (
    (
        "UPDATE threads_run SET continues_id = NULL WHERE tenant_id = %(tenant)s"
        " AND end_user_id = %(person)s AND continues_id IS NOT NULL"
    ),
    (
        "UPDATE memory_corefact SET superseded_by_id = NULL WHERE tenant_id = %(tenant)s"
        " AND end_user_id = %(person)s AND superseded_by_id IS NOT NULL"
    ),
)
_OPERATIONS: Final = """
    FROM memory_memoryop WHERE tenant_id = %(tenant)s AND (end_user_id = %(person)s
        OR thread_id IN (SELECT id FROM threads_thread
            WHERE tenant_id = %(tenant)s AND end_user_id = %(person)s))
"""
# The costs stay; whose thread and job it was goes. Jobs are gone by then, so that none is named.
_FORGET_WHOSE: Final = f"""
    UPDATE memory_memoryop SET end_user_id = NULL, thread_id = NULL, job_id = NULL
    WHERE tenant_id = %(tenant)s AND id IN (SELECT id {_OPERATIONS} ORDER BY id LIMIT %(most)s)
"""  # noqa: S608 - a constant
_COUNT_OPERATIONS: Final = f"SELECT count(*) {_OPERATIONS}"
_FREE_JOBS: Final = """
    UPDATE memory_memoryop SET job_id = NULL WHERE tenant_id = %(tenant)s AND job_id IN (
        SELECT id FROM memory_job WHERE tenant_id = %(tenant)s AND (end_user_id = %(person)s
            OR thread_id IN (SELECT id FROM threads_thread
                WHERE tenant_id = %(tenant)s AND end_user_id = %(person)s)
            OR run_id IN (SELECT id FROM threads_run
                WHERE tenant_id = %(tenant)s AND end_user_id = %(person)s)))
"""
_COUNT_RUNS: Final = """
    SELECT count(*) FROM threads_run WHERE tenant_id = %(tenant)s AND end_user_id = %(person)s
"""
# The newest first: a run goes on with an older one.
_GROUPED: Final = """
        RETURNING agent_id, origin, created_at, input_tokens, output_tokens, cost_usd
    )
    SELECT agent_id, (created_at AT TIME ZONE 'UTC')::date, origin = 'run', count(*),
        sum(input_tokens), sum(output_tokens), sum(cost_usd)
    FROM gone GROUP BY 1, 2, 3 ORDER BY 1, 2, 3
"""
_ERASE_RUNS: Final = f"""
    WITH gone AS (
        DELETE FROM threads_run WHERE id IN (
            SELECT id FROM threads_run WHERE tenant_id = %(tenant)s AND end_user_id = %(person)s
            ORDER BY id DESC LIMIT %(most)s)
{_GROUPED}"""  # noqa: S608 - a constant
_ERASE_THESE: Final = f"""
    WITH gone AS (
        DELETE FROM threads_run WHERE tenant_id = %(tenant)s AND id = ANY (%(runs)s::text[])
{_GROUPED}"""  # noqa: S608 - a constant
_KEEP_USAGE: Final = """
    INSERT INTO threads_keptusage AS kept (id, tenant_id, agent_id, day, runs, input_tokens,
        output_tokens, cost_usd)
    VALUES (%(id)s, %(tenant)s, %(agent)s, %(day)s, %(runs)s, %(tokens_in)s, %(tokens_out)s,
        %(usd)s)
    ON CONFLICT (tenant_id, agent_id, day) DO UPDATE SET runs = kept.runs + EXCLUDED.runs,
        input_tokens = kept.input_tokens + EXCLUDED.input_tokens,
        output_tokens = kept.output_tokens + EXCLUDED.output_tokens,
        cost_usd = kept.cost_usd + EXCLUDED.cost_usd
"""
# What names nobody and no thread ends all runs of the tenant.
_CANCEL: Final = """
    UPDATE threads_run SET status = 'cancelled', finished_at = %(now)s, lease_until = NULL
    WHERE tenant_id = %(tenant)s AND status IN ('queued', 'running')
        AND (%(person)s::text IS NULL OR end_user_id = %(person)s)
        AND (%(thread)s::text IS NULL OR thread_id = %(thread)s)
"""
_HOLDS: Final = "tenant_id = %(tenant)s AND subject_id = %(person)s AND reason <> ''"
_BLANK_HOLDS: Final = f"UPDATE governance_legalhold SET reason = '' WHERE {_HOLDS}"  # noqa: S608 - a constant
_COUNT_HOLDS: Final = f"SELECT count(*) FROM governance_legalhold WHERE {_HOLDS}"  # noqa: S608 - a constant


def cancel_runs(*, scope: Scope, now: datetime, thread_id: str | None = None) -> int:
    """Cancel what runs for the scope's person, or its tenant, or in one thread; return how many.

    Whoever drives a run hears of it within a second. Inside the caller's transaction, which takes a
    person's or a thread's row after the runs in flight: whoever ends one locks them in this order.
    Cost: one statement.
    """
    values: dict[str, Any] = {
        "tenant": scope.tenant_id,
        "person": scope.user_id,
        "thread": thread_id,
        "now": now,
    }
    with connection.cursor() as cursor:
        cursor.execute(_CANCEL, values)
        return int(cursor.rowcount)


def unlink(subject: Subject) -> Mapping[str, int]:
    """Take away what rows of one table say of each other, and jobs' names from what they cost."""
    with connection.cursor() as cursor:
        for statement in (*_UNLINK, _FREE_JOBS):
            cursor.execute(statement, subject.values)
    return {}


def nothing(_subject: Subject) -> Mapping[str, int]:
    """Count nothing, for a step after which as many rows are there as before."""
    return {}


def forget_whose(subject: Subject) -> Mapping[str, int]:
    """Let a batch of the memory's model calls be nobody's; what they cost stays."""
    return {"memory_ops": _changed(_FORGET_WHOSE, subject)}


def count_operations(subject: Subject) -> Mapping[str, int]:
    """Count the memory's model calls of a person."""
    return {"memory_ops": _one(_COUNT_OPERATIONS, subject)}


def erase_runs(subject: Subject) -> Mapping[str, int]:
    """Delete a batch of runs, adding what Credence's own had cost to the sums of their days."""
    return _with_sums(_ERASE_RUNS, {**subject.values, "most": _BATCH})


def erase_these_runs(*, tenant_id: str, run_ids: Sequence[str]) -> int:
    """Delete some runs, adding what Credence's own had cost to the sums; nothing names them any more.

    Inside the caller's scoped transaction. Cost: one statement, and one an agent and day.
    """
    values: dict[str, Any] = {"tenant": tenant_id, "runs": list(run_ids)}
    return _with_sums(_ERASE_THESE, values)["runs"]


def _with_sums(statement: str, wanted: Mapping[str, Any]) -> dict[str, int]:
    with connection.cursor() as cursor:
        cursor.execute(statement, wanted)
        sums: list[tuple[str, date, bool, int, int, int, Decimal]] = cursor.fetchall()
        for agent_id, day, is_ours, runs, tokens_in, tokens_out, usd in sums:
            if not is_ours:  # recorded and imported turns cost nothing and are not counted
                continue
            values: dict[str, Any] = {
                "id": new_id("use"),
                "tenant": wanted["tenant"],
                "agent": agent_id,
                "day": day,
                "runs": runs,
                "tokens_in": tokens_in,
                "tokens_out": tokens_out,
                "usd": usd,
            }
            cursor.execute(_KEEP_USAGE, values)
    return {"runs": sum(row[3] for row in sums)}


def count_runs(subject: Subject) -> Mapping[str, int]:
    """Count a person's runs."""
    return {"runs": _one(_COUNT_RUNS, subject)}


def blank_holds(subject: Subject) -> Mapping[str, int]:
    """Empty the reasons of a person's released holds; that there was one stays on record."""
    return {"hold_reasons": _changed(_BLANK_HOLDS, subject)}


def count_holds(subject: Subject) -> Mapping[str, int]:
    """Count the reasons of a person's holds."""
    return {"hold_reasons": _one(_COUNT_HOLDS, subject)}


def _changed(statement: str, subject: Subject) -> int:
    with connection.cursor() as cursor:
        cursor.execute(statement, {**subject.values, "most": _BATCH})
        return int(cursor.rowcount)


def _one(statement: str, subject: Subject) -> int:
    with connection.cursor() as cursor:
        cursor.execute(statement, subject.values)
        return int(cursor.fetchone()[0])
