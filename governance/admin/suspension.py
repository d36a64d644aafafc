"""Suspending and activating tenants: whether their API keys are served."""

from __future__ import annotations

from datetime import datetime

from governance import audit
from memory.errors import ConflictError, NotFoundError
from memory.models import Tenant, TenantStatus
from memory.scope import Scope


def suspend_tenant(scope: Scope, tenant_id: str, now: datetime) -> None:
    """Stop serving the tenant's keys, inside the caller's scoped transaction; audited.

    Raises:
        NotFoundError: No such tenant in scope.
        ConflictError: It is suspended already.
    """
    _move(scope, tenant_id, now, to=TenantStatus.SUSPENDED)


def activate_tenant(scope: Scope, tenant_id: str, now: datetime) -> None:
    """Serve the tenant's keys again, inside the caller's scoped transaction; audited.

    Raises:
        NotFoundError: No such tenant in scope.
        ConflictError: It is active already.
    """
    _move(scope, tenant_id, now, to=TenantStatus.ACTIVE)


def _move(scope: Scope, tenant_id: str, now: datetime, *, to: TenantStatus) -> None:
    rows = Tenant.objects.in_scope(scope).filter(pk=tenant_id)
    if not rows.exists():
        raise NotFoundError
    if not rows.exclude(status=to).update(status=to):
        raise ConflictError(f"The tenant is {to} already.")
    action = "tenant_suspended" if to is TenantStatus.SUSPENDED else "tenant_activated"
    audit.record(scope=scope, action=action, target_kind="tenant", target_id=tenant_id, now=now)
