"""What the member of staff behind one request may do: asked of grants once, never of Django's."""

from __future__ import annotations

from dataclasses import replace

from django.contrib.auth.models import User
from django.db import models
from django.http import HttpRequest

from governance.access import scope_of_staff, staff_grants
from governance.permissions import Permission
from memory.rls import narrow_open_scope
from memory.scope import Scope


class StaffGrants:
    """The tenants on which an account holds each permission, remembered for one request only."""

    def __init__(self, account: object) -> None:
        """Read what the request's user holds, who may be anonymous and then has nothing.

        Cost: one query.
        """
        self._tenants = staff_grants(account=account) if isinstance(account, User) else {}

    def tenants(self, permission: Permission) -> frozenset[str]:
        """Return the ids of the tenants it is granted on."""
        return self._tenants.get(permission, frozenset())


def set_staff_scope(request: HttpRequest) -> Scope | None:
    """Read the scope of the request's member of staff, anew for every request, and keep it there.

    Cost: one query. None means no tenant at all.
    """
    account, scope = request.user, None
    if isinstance(account, User):
        tenant_ids = grants_of(request).tenants(Permission.VIEW)
        scope = scope_of_staff(account=account, tenant_ids=tenant_ids)
    request.credence_scope = scope  # type: ignore[attr-defined]
    return scope


def grants_of(request: HttpRequest) -> StaffGrants:
    """Return the grants of the request's user."""
    found: StaffGrants | None = getattr(request, "credence_grants", None)
    if found is None:
        found = StaffGrants(getattr(request, "user", None))
        request.credence_grants = found  # type: ignore[attr-defined]
    return found


def scope_for(request: HttpRequest, permission: Permission | None) -> Scope | None:
    """Return the open scope limited to the tenants where `permission` is granted, or None."""
    scope: Scope | None = getattr(request, "credence_scope", None)
    if scope is None or permission is None:
        return None
    allowed = grants_of(request).tenants(permission).intersection(scope.tenant_ids)
    return replace(scope, tenant_ids=tuple(sorted(allowed))) if allowed else None


def is_allowed(
    request: HttpRequest, permission: Permission | None, row: models.Model | None
) -> bool:
    """Say whether `permission` is granted on the row's tenant, or on any tenant without a row."""
    scope = scope_for(request, permission)
    if scope is None:
        return False
    return row is None or tenant_of(row) in scope.tenant_ids


def tenant_of(row: models.Model) -> str | None:
    """Return the tenant id of a walled row; None for a row of any other table."""
    walls = getattr(row, "walls", None)
    return getattr(row, walls.tenant, None) if walls else None


def narrow_to(request: HttpRequest, scope: Scope) -> None:
    """Limit the request and its open transaction to `scope` until both end."""
    narrow_open_scope(scope)
    request.credence_scope = scope  # type: ignore[attr-defined]
