"""Access: only grants on objects count, at once, for the tenant they are on."""

from __future__ import annotations

from typing import Any

import pytest
from django.contrib.auth.models import AnonymousUser, Group, User
from django.contrib.auth.models import Permission as DjangoPermission

from governance.access import (
    create_roles,
    grant_to_account,
    join_role,
    may_use_tenant,
    require_agent,
    scope_for_user,
    staff_grants,
    staff_scope,
    staff_tenants,
    tenant_permissions,
    tenant_scope,
    with_teams,
)
from governance.models import AgentUserGrant, EndUserUserGrant, TenantGroupGrant, TenantUserGrant
from governance.permissions import ROLE_PERMISSIONS, Permission, Role, group_name
from memory.errors import CredenceError, InvalidInputError, NotFoundError
from memory.models import Team, TeamMember, Tenant
from memory.rls import scoped_transaction
from tests.factories import (
    make_agent,
    make_end_user,
    make_key,
    make_staff,
    make_tenant,
    scope_of,
)


@pytest.fixture
def tenants(db: None) -> tuple[Tenant, Tenant, Tenant]:
    """Two tenants and a stranger's."""
    return make_tenant(), make_tenant(), make_tenant()


Tenants = tuple[Tenant, Tenant, Tenant]


@pytest.mark.req("E02")
@pytest.mark.parametrize("role", list(Role))
def test_role_holds_exactly_its_permissions_on_its_tenant(tenants: Tenants, role: Role) -> None:
    a, b, _ = tenants
    person = make_staff(a, role)
    for permission in Permission:
        wanted = (a.id,) if permission in ROLE_PERMISSIONS[role] else ()
        assert staff_tenants(account=person, permission=permission) == wanted
        assert staff_grants(account=person).get(permission, frozenset()) == frozenset(wanted)
    assert tenant_permissions(account=person, tenant_id=a.id) == ROLE_PERMISSIONS[role]
    assert tenant_permissions(account=person, tenant_id=b.id) == frozenset()


@pytest.mark.req("E02")
def test_staff_of_two_tenants_has_exactly_both(tenants: Tenants) -> None:
    a, b, stranger = tenants
    person = make_staff(a, Role.READER)
    join_role(account=person, tenant_id=b.id, role=Role.CURATOR)
    scope = staff_scope(account=person)
    assert scope is not None
    assert set(scope.tenant_ids) == {a.id, b.id}
    assert scope.principal_id == f"staff:{person.pk}"
    assert staff_tenants(account=person, permission=Permission.APPROVE) == (b.id,)
    assert stranger.id not in scope.tenant_ids


@pytest.mark.req("E02")
def test_superuser_and_global_permissions_see_no_tenant(tenants: Tenants) -> None:
    """Attack case 28: guardian hands all objects to both unless told not to."""
    root = User.objects.create_superuser("root", password="x")
    assert staff_scope(account=root) is None
    globally = User.objects.create_user("globally", is_staff=True)
    globally.user_permissions.set(DjangoPermission.objects.all())
    group = Group.objects.create(name="everything")
    group.permissions.set(DjangoPermission.objects.all())
    globally.groups.add(group)
    assert globally.has_perm("memory.view_tenant")
    for account in (root, globally):
        for permission in Permission:
            assert staff_tenants(account=account, permission=permission) == ()
            assert staff_grants(account=account) == {}
        for tenant in tenants:
            assert tenant_permissions(account=account, tenant_id=tenant.id) == frozenset()
            assert may_use_tenant(account_id=account.pk, tenant_id=tenant.id) is None
    join_role(account=root, tenant_id=tenants[0].id, role=Role.READER)
    assert staff_tenants(account=root, permission=Permission.VIEW) == (tenants[0].id,)


@pytest.mark.req("E02")
def test_inactive_or_removed_has_nothing_at_once(tenants: Tenants) -> None:
    """Attack case 29: the very object that was allowed a moment ago asks again."""
    a, _, _ = tenants
    person, other = make_staff(a), make_staff(a)
    assert staff_scope(account=person) is not None
    person.is_active = False
    person.save()
    assert staff_scope(account=person) is None
    assert tenant_permissions(account=person, tenant_id=a.id) == frozenset()
    other.groups.clear()
    assert staff_scope(account=other) is None
    assert tenant_permissions(account=other, tenant_id=a.id) == frozenset()


@pytest.mark.req("E02")
def test_account_that_is_no_staff_gets_no_staff_scope(tenants: Tenants) -> None:
    a, _, _ = tenants
    service = User.objects.get(pk=make_key(a).principal.account_id)
    grant_to_account(account=service, target=a, permissions=frozenset({"view_tenant"}))
    assert staff_scope(account=service) is None
    anonymous: Any = AnonymousUser()
    assert staff_scope(account=anonymous) is None


@pytest.mark.req("E02")
def test_one_statement_answers_as_guardian_does(tenants: Tenants) -> None:
    """The fast way of `may_use_tenant` against guardian's checker, over users and groups."""
    a, b, _ = tenants
    service = User.objects.get(pk=make_key(a).principal.account_id)
    staff = make_staff(a, Role.CURATOR)
    mixed = make_staff(b, Role.COMPLIANCE)
    grant_to_account(account=mixed, target=a, permissions=frozenset({"use_tenant", "export"}))
    join_role(account=mixed, tenant_id=a.id, role=Role.READER)
    gone = User.objects.create_user("gone", is_active=False)
    grant_to_account(account=gone, target=a, permissions=frozenset({"use_tenant"}))
    seen = []
    for account in (service, staff, mixed, gone):
        for tenant in (a, b):
            granted = tenant_permissions(account=account, tenant_id=tenant.id)
            wanted = granted if Permission.USE in granted else None
            answer = may_use_tenant(account_id=account.pk, tenant_id=tenant.id)
            assert answer == wanted
            seen.append(answer)
    assert len(set(seen)) == 3
    assert may_use_tenant(account_id=0, tenant_id=a.id) is None
    assert may_use_tenant(account_id=service.pk, tenant_id="tn_none") is None


@pytest.mark.req("E02")
def test_suspended_tenant_lets_nobody_act(tenants: Tenants) -> None:
    a, _, _ = tenants
    account_id = make_key(a).principal.account_id
    assert may_use_tenant(account_id=account_id, tenant_id=a.id)
    with scoped_transaction(scope_of(a)):
        Tenant.objects.in_scope(scope_of(a)).update(status="suspended")
    assert may_use_tenant(account_id=account_id, tenant_id=a.id) is None


@pytest.mark.req("E02")
def test_agent_without_grant_looks_like_one_that_is_not_there(tenants: Tenants) -> None:
    a, _, _ = tenants
    agent, other = make_agent(a), make_agent(a)
    key = make_key(a, agent_id=agent.id)
    principal = key.principal
    with scoped_transaction(scope_of(a)):
        require_agent(principal=principal, agent=agent, agent_id=agent.id)
        with pytest.raises(NotFoundError) as forbidden:
            require_agent(principal=principal, agent=other, agent_id=other.id)
        AgentUserGrant.objects.filter(user_id=principal.account_id).delete()
        with pytest.raises(NotFoundError) as ungranted:
            require_agent(principal=principal, agent=agent, agent_id=agent.id)
    unknown = NotFoundError()
    assert forbidden.value.detail == ungranted.value.detail == unknown.detail


@pytest.mark.req("E02")
@pytest.mark.req("B17")
def test_acting_for_a_user_needs_its_grant_also_for_a_bound_key(tenants: Tenants) -> None:
    """A key's limit says whom it may act for at most; the grant says whether it still may."""
    a, _, _ = tenants
    person, other = make_end_user(a), make_end_user(a)
    bound = make_key(a, end_user_id=person.id).principal
    wide = make_key(a).principal
    with scoped_transaction(scope_of(a)):
        assert tenant_scope(bound).user_id == person.id
        assert tenant_scope(wide).user_id is None
        assert scope_for_user(principal=bound, end_user=person).user_id == person.id
        assert scope_for_user(principal=wide, end_user=other).user_id == other.id
        EndUserUserGrant.objects.filter(user_id=bound.account_id).delete()
        with pytest.raises(CredenceError) as error:
            scope_for_user(principal=bound, end_user=person)
        assert error.value.code == "forbidden"


@pytest.mark.req("E02")
def test_grant_on_one_person_reaches_that_one_only(tenants: Tenants) -> None:
    a, _, _ = tenants
    person, other = make_end_user(a), make_end_user(a)
    principal = make_key(a, end_user_id=person.id).principal
    loose = type(principal)(
        id=principal.id,
        account_id=principal.account_id,
        tenant_id=a.id,
        key_scopes=principal.key_scopes,
        permissions=principal.permissions,
    )
    with scoped_transaction(scope_of(a)):
        assert scope_for_user(principal=loose, end_user=person).user_id == person.id
        with pytest.raises(CredenceError) as error:
            scope_for_user(principal=loose, end_user=other)
        assert error.value.code == "forbidden"


def test_grants_given_twice_are_there_once(tenants: Tenants) -> None:
    a, _, _ = tenants
    account = User.objects.create_user("twice")
    for _ in range(2):
        grant_to_account(account=account, target=a, permissions=frozenset({"use_tenant"}))
        with scoped_transaction(scope_of(a)):
            create_roles(tenant=a)
    assert TenantUserGrant.objects.filter(user=account).count() == 1
    group = Group.objects.get(name=group_name(tenant_id=a.id, role=Role.ADMIN))
    held = TenantGroupGrant.objects.filter(group=group)
    assert held.count() == len(ROLE_PERMISSIONS[Role.ADMIN])


@pytest.mark.req("E02")
def test_codename_of_another_root_can_not_be_granted(tenants: Tenants) -> None:
    a, _, _ = tenants
    account = User.objects.create_user("odd")
    permission = DjangoPermission.objects.get(codename="delete_tenant")
    with pytest.raises(InvalidInputError):
        TenantUserGrant.objects.create(user=account, permission=permission, content_object=a)


def test_scope_of_a_person_gets_that_persons_teams_and_no_other(tenants: Tenants) -> None:
    tenant, other, _ = tenants
    person, colleague = make_end_user(tenant), make_end_user(tenant)
    joined = []
    for place, (whose, member) in enumerate(
        ((tenant, person), (tenant, person), (tenant, colleague), (other, make_end_user(other)))
    ):
        with scoped_transaction(scope_of(whose)):
            team = Team.objects.create(tenant=whose, name=f"team-{place}")
            TeamMember.objects.create(tenant=whose, team=team, end_user=member)
        joined.append(team.pk)
    scope = scope_of(tenant, person)
    with scoped_transaction(scope):
        assert with_teams(scope).team_ids == tuple(sorted(joined[:2]))
        assert with_teams(scope_of(tenant)).team_ids == ()
    assert scope.team_ids == ()
