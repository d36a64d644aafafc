"""Permissions as data: complete, and no role of staff can act as an application."""

from __future__ import annotations

import pytest

from governance.models.grants import TENANT_CODENAMES
from governance.permissions import ROLE_PERMISSIONS, Permission, Role, group_name
from memory.models import Tenant

MATRIX = {
    Role.READER: "view_tenant",
    Role.CURATOR: "view_tenant approve confirm",
    Role.COMPLIANCE: "view_tenant export erase view_audit",
    Role.ADMIN: "view_tenant approve confirm manage_policy export erase view_audit",
}


@pytest.mark.req("E02")
def test_every_permission_can_be_granted_and_exists_on_the_tenant() -> None:
    assert {str(permission) for permission in Permission} == TENANT_CODENAMES
    declared = {codename for codename, _ in Tenant._meta.permissions} | {"view_tenant"}
    assert declared == TENANT_CODENAMES


@pytest.mark.req("E02")
@pytest.mark.parametrize("role", list(Role))
def test_role_holds_what_the_design_says(role: Role) -> None:
    assert {str(permission) for permission in ROLE_PERMISSIONS[role]} == set(MATRIX[role].split())


@pytest.mark.req("E02")
def test_staff_roles_never_hold_what_keys_act_with() -> None:
    acting = {Permission.USE, Permission.ACT_FOR, Permission.RUN_AGENT}
    assert all(not acting & held for held in ROLE_PERMISSIONS.values())


def test_group_names_differ_by_tenant_and_role() -> None:
    names = {group_name(tenant_id=t, role=role) for t in ("tn_a", "tn_b") for role in Role}
    assert len(names) == 2 * len(Role)
    assert all(len(group_name(tenant_id="tn_" + "0" * 26, role=role)) <= 150 for role in Role)
