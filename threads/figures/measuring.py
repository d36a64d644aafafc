"""Days counted from the rows themselves: what is right at any time, and costs what the rows cost."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from datetime import UTC, date, datetime, time, timedelta
from typing import Any, Final

from django.db import connection

from memory.scope import Scope
from threads import usage
from threads.figures.days import Day, History
from threads.figures.latencies import PER_DOUBLING
from threads.usage import DayUsage

# What a thread's past is to a run: the earlier turns that history shows, each as long as its estimate.
# An account without a row for the past sent none of it; a run without an account says nothing.
_RUNS: Final = """
    WITH made AS MATERIALIZED (
        SELECT thread_id, seq, (created_at AT TIME ZONE 'UTC')::date AS day, status,
            coalesce(error_code, '') AS code,
            CASE WHEN status = 'succeeded' THEN floor(%(per_doubling)s * ln(greatest(
                extract(epoch FROM finished_at - created_at)::float8 * 1000, 1)) / ln(2::float8))::int
                END AS latency,
            CASE WHEN status = 'succeeded' AND context -> 'sections' IS NOT NULL THEN coalesce(
                jsonb_path_query_first(context, '$.sections[*] ? (@.name == "thread").granted')::int,
                0) END AS past
        FROM threads_run
        WHERE tenant_id = %(tenant)s AND origin = 'run' AND created_at >= %(from_at)s
            AND created_at < %(to_at)s
    ), earlier AS (
        SELECT thread_id, seq, coalesce(sum(turn_tokens) FILTER (
            WHERE status IN ('succeeded', 'failed')) OVER (PARTITION BY thread_id ORDER BY seq
            ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING), 0) AS tokens
        FROM threads_run
        WHERE tenant_id = %(tenant)s
            AND thread_id IN (SELECT thread_id FROM made WHERE past IS NOT NULL)
    )
    SELECT day, status, code, latency, count(*), count(past),
        coalesce(sum(tokens) FILTER (WHERE past IS NOT NULL), 0), coalesce(sum(past), 0)
    FROM made LEFT JOIN earlier USING (thread_id, seq)
    GROUP BY day, status, code, latency
"""


@dataclass(slots=True)
class _Runs:
    """What the runs of one day came to, while it is added up."""

    outcomes: Counter[tuple[str, str]] = field(default_factory=Counter)
    latencies: Counter[int] = field(default_factory=Counter)
    history: History = field(default_factory=History)


def measure(*, scope: Scope, first: date, last: date) -> dict[date, Day]:
    """Return the figures of each day from `first` to `last` on which there was anything.

    Inside the caller's transaction of that scope, which names one tenant. Cost: two statements over
    the runs and calls of the period, and over the other runs of their threads.
    """
    runs = _runs(scope, first, last)
    used = usage.daily(scope=scope, first=first, last=last)
    return {
        day: _day(runs.get(day, _Runs()), used.get(day, DayUsage()))
        for day in sorted({*runs, *used})
    }


def _day(runs: _Runs, used: DayUsage) -> Day:
    return Day(
        runs=used.runs,
        outcomes=runs.outcomes,
        latencies=runs.latencies,
        history=runs.history,
        by_length=used.by_length,
    )


def _runs(scope: Scope, first: date, last: date) -> Mapping[date, _Runs]:
    values: dict[str, Any] = {
        "tenant": scope.tenant_id,
        "from_at": datetime.combine(first, time(0), tzinfo=UTC),
        "to_at": datetime.combine(last + timedelta(days=1), time(0), tzinfo=UTC),
        "per_doubling": PER_DOUBLING,
    }
    with connection.cursor() as cursor:
        cursor.execute(_RUNS, values)
        return _added(cursor.fetchall())


def _added(rows: Iterable[tuple[Any, ...]]) -> Mapping[date, _Runs]:
    found: dict[date, _Runs] = {}
    for day, status, code, latency, count, accounted, whole, past in rows:
        one = found.setdefault(day, _Runs())
        one.outcomes[status, code] += count
        if latency is not None:
            one.latencies[latency] += count
        one.history += History(runs=accounted, whole_tokens=int(whole), past_tokens=int(past))
    return found
