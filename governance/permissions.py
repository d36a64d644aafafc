"""Who may do what on a tenant, as data: the codenames and the roles that hold them."""

from __future__ import annotations

from enum import StrEnum
from typing import Final


class Permission(StrEnum):
    """A codename granted on a Tenant."""

    USE = "use_tenant"
    ACT_FOR = "act_for"
    RUN_AGENT = "run_agent"
    VIEW = "view_tenant"
    APPROVE = "approve"
    CONFIRM = "confirm"
    MANAGE_POLICY = "manage_policy"
    EXPORT = "export"
    ERASE = "erase"
    VIEW_AUDIT = "view_audit"


class Role(StrEnum):
    """A role of a tenant's staff; a Django group per tenant and role carries its grants."""

    READER = "reader"
    CURATOR = "curator"
    COMPLIANCE = "compliance"
    ADMIN = "admin"


ROLE_PERMISSIONS: Final[dict[Role, frozenset[Permission]]] = {
    Role.READER: frozenset({Permission.VIEW}),
    Role.CURATOR: frozenset({Permission.VIEW, Permission.APPROVE, Permission.CONFIRM}),
    Role.COMPLIANCE: frozenset(
        {Permission.VIEW, Permission.EXPORT, Permission.ERASE, Permission.VIEW_AUDIT}
    ),
    Role.ADMIN: frozenset(Permission) - {Permission.USE, Permission.ACT_FOR, Permission.RUN_AGENT},
}


def group_name(*, tenant_id: str, role: Role) -> str:
    """Return the name of the Django group that is this role of this tenant."""
    return f"{tenant_id}:{role}"
