"""Who gets in and how far: grants decide, Django's own permissions and superuser status do not."""

from __future__ import annotations

from typing import Any

import pytest
from django.contrib.admin.models import LogEntry
from django.contrib.auth.models import Permission as DjangoPermission
from django.contrib.auth.models import User
from django.test import Client
from django.urls import NoReverseMatch, reverse

from governance.permissions import Role
from memory.models import EndUser, Tenant
from tests.factories import make_staff, make_tenant
from tests.governance.admin.worlds import ROOMS, World, signed_in, url_of


def make_account(name: str, **flags: Any) -> User:
    return User.objects.create_user(name, password="right horse", **flags)


@pytest.mark.req("B18")
def test_superuser_without_grants_sees_nothing(alpha: World) -> None:
    client = signed_in(make_account("root", is_staff=True, is_superuser=True))
    index = client.get("/admin/")
    assert index.status_code == 200
    assert index.context["app_list"] == []
    for model in ROOMS:
        assert client.get(url_of(model)).status_code == 403, model
        answer = client.get(url_of(model, f"{alpha.rows[model]}/change/"))
        assert answer.status_code in (302, 403), model
        assert alpha.word not in answer.content.decode(), model


@pytest.mark.req("B18")
def test_global_django_permissions_add_nothing(alpha: World, beta: World) -> None:
    """Attack 28: staff with every global permission and a grant on beta sees beta only."""
    account = make_staff(beta.tenant, role=Role.READER)
    account.user_permissions.set(DjangoPermission.objects.all())
    client = signed_in(User.objects.get(pk=account.pk))
    listed = client.get(url_of(EndUser)).content.decode()
    assert beta.end_user.pk in listed
    assert alpha.word not in listed
    assert client.get(url_of(EndUser, "add/")).status_code == 403
    nobody = make_account("nobody", is_staff=True)
    nobody.user_permissions.set(DjangoPermission.objects.all())
    assert signed_in(nobody).get(url_of(EndUser)).status_code == 403


@pytest.mark.req("B18")
def test_deactivated_staff_loses_an_open_session_at_once(beta: World) -> None:
    """Attack 29, first half; also no longer staff."""
    client = signed_in(beta.staff)
    assert client.get(url_of(Tenant)).status_code == 200
    for flags in ({"is_active": False}, {"is_active": True, "is_staff": False}):
        User.objects.filter(pk=beta.staff.pk).update(**flags)
        answer = client.get(url_of(Tenant))
        assert answer.status_code == 302
        assert answer.headers["Location"].startswith("/admin/login/")


def test_service_accounts_of_keys_are_no_staff(beta: World) -> None:
    account = User.objects.get(pk=beta.key.principal.account_id)
    assert signed_in(account).get("/admin/").status_code == 302


@pytest.mark.req("B18")
def test_staff_of_two_tenants_sees_both_and_may_narrow(alpha: World, beta: World) -> None:
    beta.staff.groups.add(alpha.staff.groups.get())
    client = signed_in(beta.staff)
    listed = client.get(url_of(EndUser)).content.decode()
    assert alpha.end_user.pk in listed
    assert beta.end_user.pk in listed
    narrowed = client.get(url_of(EndUser), {"tenant__id__exact": alpha.tenant.pk}).content.decode()
    assert alpha.end_user.pk in narrowed
    assert beta.end_user.pk not in narrowed


def test_permission_counts_on_the_tenant_it_was_given_on(alpha: World, beta: World) -> None:
    """Admin of beta and reader of alpha: beta's audit log is readable, alpha's is not."""
    readers = make_staff(alpha.tenant, role=Role.READER).groups.get()
    beta.staff.groups.add(readers)
    client = signed_in(beta.staff)
    assert alpha.rows[EndUser] in client.get(url_of(EndUser)).content.decode()
    log = client.get("/admin/governance/auditentry/").content.decode()
    assert beta.rows[ROOMS[3]] in log
    assert alpha.rows[ROOMS[3]] not in log


def test_index_shows_no_log_of_past_actions(beta: World, client_of_beta: Client) -> None:
    """Django's own log is not scoped: it would name tenants one was taken off."""
    LogEntry.objects.create(
        user=beta.staff, action_flag=2, object_id="x", object_repr="left-tenant", change_message=""
    )
    assert "left-tenant" not in client_of_beta.get("/admin/").content.decode()


def test_rows_are_not_looked_up_outside_the_scoped_rooms(client_of_beta: Client) -> None:
    assert client_of_beta.get("/admin/r/1/tn_x/").status_code == 404
    with pytest.raises(NoReverseMatch):
        reverse("admin:view_on_site", args=[1, "x"])


def test_actions_and_forms_need_a_csrf_token(beta: World) -> None:
    client = Client(enforce_csrf_checks=True)
    client.force_login(beta.staff, backend="django.contrib.auth.backends.ModelBackend")
    chosen = {"action": "suspend", "_selected_action": beta.tenant.pk, "index": 0}
    assert client.post(url_of(Tenant), chosen).status_code == 403


def test_anonymous_visitors_are_sent_to_the_login_with_nothing_said(beta: World) -> None:
    for model in ROOMS:
        answer = Client().get(url_of(model))
        assert answer.status_code == 302
        assert Client().get(answer.headers["Location"]).content.decode().count(beta.word) == 0


def test_empty_tenant_has_empty_rooms(db: None) -> None:
    client = signed_in(make_staff(make_tenant("bare-tenant")))
    for model in ROOMS:
        assert client.get(url_of(model)).status_code == 200, model
