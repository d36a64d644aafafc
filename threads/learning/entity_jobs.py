"""The jobs of the vocabulary: candidates out of corrections, and weights that fall; and finding them.

Corrections ask for their candidates themselves; idleness asks for nothing, so the sweep looks for
tenants in which some weight is due, at most once a day each.
"""

from __future__ import annotations

from datetime import datetime
from time import monotonic
from typing import Any, Final

from django.db import connections
from django.utils import timezone

from governance.entities.corrections import PROPOSE_KEY, propose_job
from governance.entities.proposals import propose
from governance.entities.weights import decay
from governance.policy_rules import RULES
from memory import jobs
from memory.jobs.book import worker_scope
from memory.models import JobKind
from memory.rls import scoped_transaction
from memory.scope import Scope

DECAY_KEY: Final = JobKind.DECAY_WEIGHTS.value
_WORK_SECONDS: Final = 30.0
_MOST_TENANTS: Final = 100
_WITHOUT_CANDIDATE: Final = """
    SELECT DISTINCT correction.tenant_id FROM governance_correction correction
    WHERE correction.candidate_id IS NULL AND correction.tier = 'stated' AND NOT EXISTS (
        SELECT 1 FROM memory_job job WHERE job.tenant_id = correction.tenant_id
            AND job.dedupe_key = %(key)s AND (job.status IN ('ready', 'running')
                OR job.status = 'dead' AND job.finished_at >= %(now)s - interval '1 hour'))
    LIMIT %(most)s
"""
_DUE_TO_FALL: Final = """
    WITH rule AS (
        SELECT tenant.id AS tenant_id,
            make_interval(days => coalesce((overrides ->> 'entity_idle_days')::int, %(days)s))
                AS idle,
            coalesce((overrides ->> 'entity_floor')::float8, %(floor)s) AS floor
        FROM memory_tenant tenant
        LEFT JOIN governance_tenantpolicy policy ON policy.tenant_id = tenant.id
        WHERE NOT EXISTS (
            SELECT 1 FROM memory_job job WHERE job.tenant_id = tenant.id
                AND job.dedupe_key = %(key)s AND (job.status IN ('ready', 'running')
                    OR job.created_at > %(now)s - interval '1 day'))
    )
    SELECT rule.tenant_id FROM rule WHERE EXISTS (
        SELECT 1 FROM memory_entity entity
        WHERE entity.tenant_id = rule.tenant_id AND entity.status = 'active'
            AND entity.weight > greatest(rule.floor, 0.001)
            AND coalesce(entity.last_hit_at, entity.approved_at) <= %(now)s - rule.idle
            AND (entity.last_decayed_at IS NULL OR entity.last_decayed_at <= %(now)s - rule.idle))
    LIMIT %(most)s
"""


def propose_entities(*, scope: Scope, claim: jobs.Claim) -> None:
    """Handle a `propose_entities` job: 50 corrections a pass, for half a minute, then once more.

    Raises:
        LeaseLostError: The job was claimed again; that claim goes on instead.
    """
    until = monotonic() + _WORK_SECONDS
    is_more = True
    while is_more and monotonic() < until:
        with scoped_transaction(scope):
            jobs.hold(scope=scope, claim=claim)
            is_more = propose(scope=scope, now=timezone.now()).is_more
    if is_more:
        jobs.ask_again(scope=scope, claim=claim, now=timezone.now())


def decay_weights(*, scope: Scope, claim: jobs.Claim) -> None:
    """Handle a `decay_weights` job: lower what has been idle.

    Raises:
        LeaseLostError: The job was claimed again; that claim goes on instead.
    """
    with scoped_transaction(scope):
        jobs.hold(scope=scope, claim=claim)
        decay(scope=scope, now=timezone.now())


def decay_job() -> jobs.NewJob:
    """Return the job that lowers a tenant's idle weights; one unfinished one a tenant."""
    return jobs.NewJob(
        kind=JobKind.DECAY_WEIGHTS,
        thread_id=None,
        run_id=None,
        end_user_id=None,
        dedupe_key=DECAY_KEY,
    )


def create_entity_jobs(*, alias: str, now: datetime) -> int:
    """Ask for the jobs of the vocabulary that are missing or due; return how many are new.

    Reads ids, times and numbers of every tenant, as the sweep does. Cost: two statements, and about
    four for each of at most 200 tenants.

    Args:
        alias: The sweep's connection, of the role that sees every row.
        now: What idleness is reckoned from.
    """
    lost = _tenants(alias, _WITHOUT_CANDIDATE, key=PROPOSE_KEY, now=now)
    due = _tenants(
        alias,
        _DUE_TO_FALL,
        key=DECAY_KEY,
        now=now,
        days=RULES["entity_idle_days"].default,
        floor=RULES["entity_floor"].default,
    )
    wanted = [(one, propose_job()) for one in lost] + [(one, decay_job()) for one in due]
    return sum(_enqueue(worker_scope(tenant_id), job, now) for tenant_id, job in wanted)


def _tenants(alias: str, statement: str, **values: Any) -> list[str]:
    with connections[alias].cursor() as cursor:
        cursor.execute(statement, {**values, "most": _MOST_TENANTS})
        return [tenant_id for (tenant_id,) in cursor.fetchall()]


def _enqueue(scope: Scope, job: jobs.NewJob, now: datetime) -> bool:
    with scoped_transaction(scope):
        return jobs.enqueue(scope=scope, job=job, now=now)
