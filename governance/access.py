"""Who may use which scope: the only module that asks guardian, and the only maker of a Scope.

Grants are asked on the roots of scope only (Tenant, Agent, EndUser); what hangs below inherits.
Global permissions and superuser status never widen a tenant's data: only rows of guardian's direct
tables count here, and an inactive principal has none.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace

from django.contrib.auth.models import Group, User
from django.db.models import Model
from guardian.core import ObjectPermissionChecker
from guardian.shortcuts import assign_perm

from governance.models import TenantGroupGrant, TenantUserGrant
from governance.permissions import ROLE_PERMISSIONS, Permission, Role, group_name
from memory.errors import CredenceError, NotFoundError
from memory.models import EndUser, TeamMember, Tenant, TenantStatus
from memory.rls import fetch_in_scope, scoped_transaction
from memory.scope import Scope

_STANDING = """
    SELECT (SELECT is_active FROM auth_user WHERE id = %(account)s),
        (SELECT status FROM memory_tenant WHERE id = %(tenant)s),
        ARRAY(
            SELECT codename FROM auth_permission WHERE id IN (
                SELECT permission_id FROM governance_tenantusergrant
                WHERE content_object_id = %(tenant)s AND user_id = %(account)s
                UNION
                SELECT permission_id FROM governance_tenantgroupgrant
                WHERE content_object_id = %(tenant)s AND group_id IN (
                    SELECT group_id FROM auth_user_groups WHERE user_id = %(account)s)))
"""


class ForbiddenError(CredenceError):
    """This principal may not do that."""

    code = "forbidden"


@dataclass(frozen=True, slots=True, kw_only=True)
class Principal:
    """Who speaks to the API: a service account and the key it came with.

    Attributes:
        id: Internal id for audit and idempotency, the key's `key_…`.
        account_id: Primary key of the Django user behind it.
        tenant_id: The key's tenant.
        key_scopes: What the key may do at all.
        agent_id: The only agent this key may use, if it is limited to one.
        end_user_id: The only end user (`usr_…`) this key may act for, if it is limited to one.
        permissions: Codenames granted on the tenant when the request came in.
    """

    id: str
    account_id: int
    tenant_id: str
    key_scopes: frozenset[str]
    agent_id: str | None = None
    end_user_id: str | None = None
    permissions: frozenset[str] = frozenset()

    def require_key_scope(self, *wanted: str) -> None:
        """Let pass a key that carries every scope in `wanted`.

        Raises:
            ForbiddenError: The key lacks one.
        """
        missing = sorted(set(wanted) - self.key_scopes)
        if missing:
            raise ForbiddenError(f"This key lacks the scope {missing[0]}.")


def tenant_scope(principal: Principal) -> Scope:
    """Return the principal's widest scope: its tenant, and its one end user if it has only one."""
    return Scope(
        tenant_ids=(principal.tenant_id,),
        principal_id=principal.id,
        user_id=principal.end_user_id,
    )


def tenant_permissions(*, account: User, tenant_id: str) -> frozenset[str]:
    """Return the codenames granted to an active account on a tenant. Cost: two queries."""
    if not account.is_active:
        return frozenset()
    return _object_permissions(account, Tenant(id=tenant_id))


def _object_permissions(account: User, target: Model) -> frozenset[str]:
    checker = ObjectPermissionChecker(account)
    granted = [*checker.get_user_perms(target), *checker.get_group_perms(target)]
    return frozenset(granted)


def may_use_tenant(*, account_id: int, tenant_id: str) -> frozenset[str] | None:
    """Return an account's permissions if it may act in this live tenant, else None.

    On every request's way, so guardian's direct tables are read in one statement instead of its
    checker's two and the two around it; a test holds both answers equal. Cost: one round trip.
    """
    scope = Scope(tenant_ids=(tenant_id,), principal_id=f"account:{account_id}")
    standing = fetch_in_scope(scope, _STANDING, {"account": account_id, "tenant": tenant_id})
    is_active, status, granted = standing or (False, None, ())
    may_act = is_active and status == TenantStatus.ACTIVE and Permission.USE in granted
    return frozenset(granted) if may_act else None


def require_agent(*, principal: Principal, agent: Model, agent_id: str) -> None:
    """Let pass a principal that may run this agent. Cost: no query for tenant-wide grants.

    Raises:
        NotFoundError: It may not; an agent one may not run looks like one that is not there.
    """
    if principal.agent_id not in (None, agent_id):
        raise NotFoundError
    if Permission.RUN_AGENT in principal.permissions:
        return
    account = User.objects.get(pk=principal.account_id)
    if "run_this_agent" not in _object_permissions(account, agent):
        raise NotFoundError


def scope_for_user(*, principal: Principal, end_user: EndUser) -> Scope:
    """Return the scope of acting for one end user. Cost: no query for tenant-wide grants.

    Raises:
        NotFoundError: The person is being erased.
        ForbiddenError: The key is bound to another person, or holds no grant for this one.
    """
    if end_user.erasing_at is not None:
        raise NotFoundError
    if principal.end_user_id not in (None, end_user.pk):
        raise ForbiddenError("This key is limited to another user.")
    if Permission.ACT_FOR not in principal.permissions:
        account = User.objects.get(pk=principal.account_id)
        if "act_for_user" not in _object_permissions(account, end_user):
            raise ForbiddenError("This key may not act for that user.")
    return tenant_scope(principal).narrowed(user_id=end_user.pk)


def with_teams(scope: Scope) -> Scope:
    """Return a person's scope with the teams that share memory with that person.

    Inside the caller's transaction, which it does not turn: memory.rls.narrow_open_scope does. A
    scope without a person has no teams. Cost: one query.
    """
    if scope.user_id is None:
        return scope
    rows = TeamMember.objects.in_scope(scope).filter(end_user_id=scope.user_id)
    return replace(scope, team_ids=tuple(sorted(rows.values_list("team_id", flat=True))))


def widest_scope(principal: Principal) -> Scope:
    """Return a principal's widest scope; a key of one person sees that person's teams too.

    Cost: no query, one in a transaction of its own for a key of one person.
    """
    scope = tenant_scope(principal)
    if scope.user_id is None:
        return scope
    with scoped_transaction(scope):
        return with_teams(scope)


def require_act_for_anybody(*, principal: Principal) -> None:
    """Let pass who may act for every person of the tenant, also for one nobody knows yet.

    Raises:
        ForbiddenError: The key is bound to one person, or holds grants for some only.
    """
    if principal.end_user_id is not None:
        raise ForbiddenError("This key is limited to another user.")
    if Permission.ACT_FOR not in principal.permissions:
        raise ForbiddenError("This key may not act for that user.")


def require_reach(*, principal: Principal) -> None:
    """Let pass who may act for its one person, or for every person of the tenant.

    Raises:
        ForbiddenError: The principal holds grants for some persons only.
    """
    if principal.end_user_id is None and Permission.ACT_FOR not in principal.permissions:
        raise ForbiddenError("This key may not act for every user.")


def staff_tenants(*, account: User, permission: Permission) -> tuple[str, ...]:
    """Return the ids of the tenants on which a member of staff holds `permission`, sorted.

    Superusers get what they were granted, like everybody else. Cost: two queries.
    """
    if not (account.is_active and account.is_staff):
        return ()
    by_user = TenantUserGrant.objects.filter(user=account, permission__codename=permission)
    by_group = TenantGroupGrant.objects.filter(group__user=account, permission__codename=permission)
    found = {*by_user.values_list("content_object_id", flat=True)}
    found.update(by_group.values_list("content_object_id", flat=True))
    return tuple(sorted(found))


def staff_grants(*, account: User) -> dict[str, frozenset[str]]:
    """Return, for each codename a member of staff holds, the ids of the tenants it is held on.

    For pages that ask for many of them; what `staff_tenants` says of each. Cost: one query.
    """
    if not (account.is_active and account.is_staff):
        return {}
    columns = ("permission__codename", "content_object_id")
    own = TenantUserGrant.objects.filter(user=account).values_list(*columns)
    by_group = TenantGroupGrant.objects.filter(group__user=account).values_list(*columns)
    found: dict[str, set[str]] = {}
    for codename, tenant_id in own.union(by_group):
        found.setdefault(codename, set()).add(tenant_id)
    return {codename: frozenset(tenants) for codename, tenants in found.items()}


def staff_scope(*, account: User, permission: Permission = Permission.VIEW) -> Scope | None:
    """Return the scope of a member of staff over all granted tenants, or None for no tenant."""
    return scope_of_staff(
        account=account, tenant_ids=staff_tenants(account=account, permission=permission)
    )


def scope_of_staff(*, account: User, tenant_ids: Iterable[str]) -> Scope | None:
    """Return the scope over tenants that were granted to a member of staff, or None for no tenant."""
    granted = tuple(sorted(tenant_ids))
    return Scope(tenant_ids=granted, principal_id=f"staff:{account.pk}") if granted else None


def grant_to_account(*, account: User, target: Model, permissions: frozenset[str]) -> None:
    """Grant codenames on one root to one account; granting again changes nothing."""
    for codename in sorted(permissions):
        assign_perm(codename, account, target)


def create_roles(*, tenant: Tenant) -> None:
    """Create the groups of a new tenant's roles with their grants; running again is harmless."""
    for role, permissions in ROLE_PERMISSIONS.items():
        group, _ = Group.objects.get_or_create(name=group_name(tenant_id=tenant.id, role=role))
        for permission in sorted(permissions):
            assign_perm(permission, group, tenant)


def join_role(*, account: User, tenant_id: str, role: Role) -> None:
    """Make a member of staff hold a role of a tenant."""
    account.groups.add(Group.objects.get(name=group_name(tenant_id=tenant_id, role=role)))
