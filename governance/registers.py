"""What a tenant's admins look things up in: keys, jobs, the audit log, the people; and their acts.

The queries are decided (scoped) but not run: a list runs them page by page in a transaction.
"""

from __future__ import annotations

from datetime import datetime
from typing import Any

from django.db.models import Exists, OuterRef

from governance import audit, keys
from governance.access import Principal
from governance.keys import NewKey
from governance.models import ApiKey, AuditEntry, AuditLeaf
from governance.permissions import Permission
from governance.policy import policy_for
from governance.policy_rules import Policy
from governance.tenants import ensure_end_user
from memory import jobs
from memory.models import EndUser, Job
from memory.querysets import ScopedQuerySet
from memory.rls import scoped_transaction
from memory.scope import Scope


def keys_of(*, scope: Scope) -> ScopedQuerySet[ApiKey]:
    """Return the query of a tenant's keys, revoked ones too."""
    return ApiKey.objects.in_scope(scope).select_related("end_user")


def issue_key(
    *,
    scope: Scope,
    scopes: list[str],
    now: datetime,
    name: str = "",
    expires_at: datetime | None = None,
    agent_id: str | None = None,
    user_id: str | None = None,
) -> NewKey:
    """Make a key in a transaction of its own; its person is created on first write.

    `agent_id` must be known to be in scope: `threads.catalogue` looks.

    Raises:
        GovernWithWriteError: The scopes would let one key propose and approve.
        InvalidInputError: Scopes or expiry do not fit.
        ReservedUserIdError: The user_id can not be a tenant's own.
    """
    with scoped_transaction(scope):
        keys.require_separation(scope=scope, scopes=scopes)
        person = ensure_end_user(scope=scope, user_id=user_id, now=now) if user_id else None
        return keys.create_key(
            scope=scope,
            scopes=scopes,
            now=now,
            name=name,
            expires_at=expires_at,
            agent_id=agent_id,
            end_user_id=person.pk if person else None,
        )


def revoke_key(*, scope: Scope, key_id: str, now: datetime) -> None:
    """Revoke a key in a transaction of its own; it stays in the list.

    Raises:
        NotFoundError: There is none in scope.
    """
    with scoped_transaction(scope):
        keys.revoke_key(scope=scope, key_id=key_id, now=now)


def jobs_of(
    *, scope: Scope, status: str | None = None, kind: str | None = None
) -> ScopedQuerySet[Job]:
    """Return the query of a tenant's jobs of one status and kind, if named."""
    rows = Job.objects.in_scope(scope)
    rows = rows.filter(status=status) if status else rows
    return rows.filter(kind=kind) if kind else rows


def retry_job(*, scope: Scope, job_id: str, now: datetime) -> Job:
    """Make a dead job ready again, audited.

    Raises:
        NotFoundError: There is none in scope.
        ConflictError: It is not dead, or the same work is waiting already.
    """
    with scoped_transaction(scope):
        job = jobs.retry(scope=scope, job_id=job_id, now=now)
        audit.record(
            scope=scope, action="job_retried", target_kind="job", target_id=job.pk, now=now
        )
    return job


def audit_of(*, scope: Scope, since: datetime | None = None) -> ScopedQuerySet[Any]:
    """Return the query of a tenant's audit log, from `since` on if named; each row says `sealed`."""
    leaves = AuditLeaf.objects.in_scope(scope).filter(pk=OuterRef("pk"))
    rows = AuditEntry.objects.in_scope(scope).annotate(sealed=Exists(leaves))
    return rows.filter(at__gte=since) if since else rows


def people_of(*, scope: Scope, principal: Principal) -> ScopedQuerySet[EndUser]:
    """Return the query of the people in scope that the principal may act for.

    Who is being erased is not among them.
    """
    rows = EndUser.objects.in_scope(scope).filter(erasing_at__isnull=True)
    reaches = principal.end_user_id is not None or Permission.ACT_FOR in principal.permissions
    return rows if reaches else rows.none()


def read_policy(*, scope: Scope) -> Policy:
    """Return the policy that holds for the tenant, in a transaction of its own."""
    with scoped_transaction(scope):
        return policy_for(scope=scope, agent_overrides={})
