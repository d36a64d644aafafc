"""What an `expire` job takes away once it is past its time, beside turns, and finding the tenants in which something is.

Batches, each a transaction with its audit row: whatever ends half-way goes on where it stopped, and
doing it twice finds nothing.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import datetime
from time import monotonic
from typing import Any, Final

from django.db import connections

from governance.policy import policy_for
from governance.policy_rules import RULES
from governance.retention import expiry
from governance.retention.limits import Limits, limits_of
from memory import jobs
from memory.jobs.book import worker_scope
from memory.models import JobKind
from memory.querysets import ScopedQuerySet
from memory.rls import scoped_transaction
from memory.scope import Scope
from threads.models import ContextTrace, RunTrace

EXPIRE_KEY: Final = JobKind.EXPIRE.value
BATCH: Final = 500
_MOST_TENANTS: Final = 100
_DUE: Final = """
    WITH rule AS (
        SELECT tenant.id AS tenant_id,
            make_interval(days => coalesce((overrides ->> 'retention_traces_days')::int,
                %(traces)s)) AS traces,
            make_interval(days => (overrides ->> 'retention_recall_days')::int) AS recall,
            make_interval(days => (overrides ->> 'retention_messages_days')::int) AS turns
        FROM memory_tenant tenant
        LEFT JOIN governance_tenantpolicy policy ON policy.tenant_id = tenant.id
        WHERE NOT EXISTS (
            SELECT 1 FROM memory_job job WHERE job.tenant_id = tenant.id
                AND job.dedupe_key = %(key)s AND (job.status IN ('ready', 'running')
                    OR job.created_at > %(now)s - interval '1 hour'))
    )
    SELECT rule.tenant_id FROM rule WHERE EXISTS (
        SELECT 1 FROM memory_memoryitem item
        WHERE item.tenant_id = rule.tenant_id AND item.expires_at <= %(now)s
    ) OR EXISTS (
        SELECT 1 FROM threads_runtrace trace
        WHERE trace.tenant_id = rule.tenant_id AND trace.created_at < %(now)s - rule.traces
    ) OR EXISTS (
        SELECT 1 FROM threads_contexttrace trace
        WHERE trace.tenant_id = rule.tenant_id AND trace.created_at < %(now)s - rule.traces
    ) OR rule.recall IS NOT NULL AND EXISTS (
        SELECT 1 FROM memory_recallentry entry
        WHERE entry.tenant_id = rule.tenant_id AND entry.said_at < %(now)s - rule.recall
    ) OR rule.turns IS NOT NULL AND EXISTS (
        SELECT 1 FROM threads_run run
        WHERE run.tenant_id = rule.tenant_id AND run.created_at < %(now)s - rule.turns
            AND NOT EXISTS (SELECT 1 FROM governance_legalhold held
                WHERE held.tenant_id = run.tenant_id AND held.subject_id = run.end_user_id
                    AND held.released_at IS NULL)
    )
    LIMIT %(most)s
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class ExpiryReport:
    """What went, or would go, in rows; `is_more` where time ran out before all of it had."""

    items: int = 0
    recall: int = 0
    run_traces: int = 0
    context_traces: int = 0
    is_more: bool = False


@dataclass(frozen=True, slots=True)
class _Part:
    """One kind of row: counting those that are due, and deleting a batch of them."""

    name: str
    count: Callable[[], int]
    remove: Callable[[int], int]


def apply_retention(
    *,
    scope: Scope,
    now: datetime,
    within_seconds: float | None = None,
    hold: Callable[[], None] | None = None,
    batch: int = BATCH,
) -> ExpiryReport:
    """Delete what a tenant keeps no longer, in batches; return how many rows went.

    The audit log is never part of it: its rows can not be deleted. Cost: a transaction a batch.

    Args:
        scope: The whole tenant's.
        now: What ends and ages are reckoned from.
        within_seconds: When to stop between two batches; None to go on to the end.
        hold: Called first in each transaction, to refuse it where the work is no longer ours.
        batch: How many rows of a kind go at once.
    """
    until = None if within_seconds is None else monotonic() + within_seconds
    counts: Counter[str] = Counter()
    for part in _parts(scope, _limits(scope, now)):
        while True:
            if until is not None and monotonic() > until:
                return _report(counts, is_more=True)
            with scoped_transaction(scope):
                if hold is not None:
                    hold()
                gone = part.remove(batch)
                if gone:
                    expiry.record(scope=scope, counts={part.name: gone}, now=now)
            counts[part.name] += gone
            if gone < batch:
                break
    return _report(counts)


def count_due(*, scope: Scope, now: datetime) -> ExpiryReport:
    """Return what would go now; deletes nothing. Cost: a query a kind, and one."""
    parts = _parts(scope, _limits(scope, now))
    with scoped_transaction(scope):
        return _report({part.name: part.count() for part in parts})


def create_expire_jobs(*, alias: str, now: datetime) -> int:
    """Ask for an `expire` job where something is due; at most once an hour a tenant.

    Reads times and numbers of every tenant, as the sweep does. Cost: one statement, and three for
    each of at most 100 tenants.

    Args:
        alias: The sweep's connection, of the role that sees every row.
        now: What ends and ages are reckoned from.
    """
    values: dict[str, Any] = {
        "key": EXPIRE_KEY,
        "now": now,
        "most": _MOST_TENANTS,
        "traces": RULES["retention_traces_days"].default,
    }
    with connections[alias].cursor() as cursor:
        cursor.execute(_DUE, values)
        due = [tenant_id for (tenant_id,) in cursor.fetchall()]
    created = 0
    for tenant_id in due:
        scope = worker_scope(tenant_id)
        with scoped_transaction(scope):
            created += jobs.enqueue(scope=scope, job=expire_job(), now=now)
    return created


def expire_job() -> jobs.NewJob:
    """Return the job that expires what a tenant keeps no longer; one unfinished one a tenant."""
    return jobs.NewJob(
        kind=JobKind.EXPIRE,
        thread_id=None,
        run_id=None,
        end_user_id=None,
        dedupe_key=EXPIRE_KEY,
    )


def _report(counts: Mapping[str, int], *, is_more: bool = False) -> ExpiryReport:
    return ExpiryReport(
        items=counts.get("items", 0),
        recall=counts.get("recall", 0),
        run_traces=counts.get("run_traces", 0),
        context_traces=counts.get("context_traces", 0),
        is_more=is_more,
    )


def _limits(scope: Scope, now: datetime) -> Limits:
    with scoped_transaction(scope):
        return limits_of(policy=policy_for(scope=scope, agent_overrides={}), now=now)


def _parts(scope: Scope, limits: Limits) -> list[_Part]:
    ends = limits.items_before
    parts = [
        _Part(
            "items",
            lambda: expiry.count_items(scope=scope, before=ends),
            lambda most: expiry.expire_items(scope=scope, now=ends, most=most),
        )
    ]
    if (recall := limits.recall_before) is not None:
        parts.append(
            _Part(
                "recall",
                lambda: expiry.count_recall(scope=scope, before=recall),
                lambda most: expiry.expire_recall(scope=scope, before=recall, most=most),
            )
        )
    if (traces := limits.traces_before) is not None:
        parts += [_traces("run_traces", RunTrace, scope, traces)]
        parts += [_traces("context_traces", ContextTrace, scope, traces)]
    return parts


def _traces(
    name: str, model: type[RunTrace] | type[ContextTrace], scope: Scope, before: datetime
) -> _Part:
    def due() -> ScopedQuerySet[RunTrace] | ScopedQuerySet[ContextTrace]:
        return model.objects.in_scope(scope).filter(created_at__lt=before)

    def remove(most: int) -> int:
        oldest = list(due().order_by("created_at", "pk").values_list("pk", flat=True)[:most])
        return due().filter(pk__in=oldest).delete()[0]

    return _Part(name, lambda: due().count(), remove)
