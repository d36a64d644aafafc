"""What the rooms of governance let people do: suspend, make and revoke keys, retry jobs."""

from __future__ import annotations

from typing import Any

import pytest
from django.contrib.admin.models import LogEntry
from django.contrib.sessions.models import Session
from django.test import Client
from django.utils import timezone

from governance.keys import UnauthenticatedError, authenticate
from governance.models import ApiKey, AuditEntry
from governance.permissions import Role
from memory.models import Job, Tenant, TenantStatus
from memory.rls import scoped_transaction
from tests.factories import make_staff, scope_of
from tests.governance.admin.worlds import World, make_dead_job, signed_in, url_of


def in_scope_of(world: World, model: Any) -> list[Any]:
    with scoped_transaction(scope_of(world.tenant)):
        return list(model.objects.in_scope(scope_of(world.tenant)))


def row_of(world: World, model: Any, pk: str) -> Any:
    return next(row for row in in_scope_of(world, model) if row.pk == pk)


def actions_logged(world: World) -> list[tuple[str, str, str]]:
    entries = in_scope_of(world, AuditEntry)
    return [(entry.action, entry.target_id, entry.actor) for entry in entries]


def run_action(client: Client, model: Any, action: str, *pks: str) -> Any:
    return client.post(
        url_of(model), {"action": action, "_selected_action": list(pks), "index": 0}, follow=True
    )


def test_suspend_and_activate_change_whether_keys_are_served(
    beta: World, client_of_beta: Client
) -> None:
    answer = run_action(client_of_beta, Tenant, "suspend", beta.tenant.pk)
    assert "Done for 1" in answer.content.decode()
    assert row_of(beta, Tenant, beta.tenant.pk).status == TenantStatus.SUSPENDED
    with pytest.raises(UnauthenticatedError):
        authenticate(raw=beta.key.secret, now=timezone.now())
    again = run_action(client_of_beta, Tenant, "suspend", beta.tenant.pk)
    assert "Not possible for 1" in again.content.decode()
    run_action(client_of_beta, Tenant, "activate", beta.tenant.pk)
    assert authenticate(raw=beta.key.secret, now=timezone.now()).tenant_id == beta.tenant.pk
    actor = f"staff:{beta.staff.pk}"
    logged = [entry for entry in actions_logged(beta) if entry[2] == actor]
    assert logged == [
        ("tenant_suspended", beta.tenant.pk, actor),
        ("tenant_activated", beta.tenant.pk, actor),
    ]


@pytest.mark.req("B18")
def test_action_with_a_foreign_id_does_nothing_to_it(
    alpha: World, beta: World, client_of_beta: Client
) -> None:
    run_action(client_of_beta, Tenant, "suspend", alpha.tenant.pk, beta.tenant.pk)
    assert row_of(alpha, Tenant, alpha.tenant.pk).status == TenantStatus.ACTIVE
    assert row_of(beta, Tenant, beta.tenant.pk).status == TenantStatus.SUSPENDED


@pytest.mark.req("B18")
def test_action_over_a_tenant_one_may_only_read_is_refused_whole(alpha: World, beta: World) -> None:
    """Permission is asked of each row's tenant: admin of beta, reader of alpha."""
    beta.staff.groups.add(make_staff(alpha.tenant, role=Role.READER).groups.get())
    client = signed_in(beta.staff)
    answer = run_action(client, Job, "retry", alpha.job.pk, beta.job.pk)
    assert answer.status_code == 403
    assert row_of(alpha, Job, alpha.job.pk).status == "dead"
    assert row_of(beta, Job, beta.job.pk).status == "dead"


def test_retry_readies_dead_jobs_and_counts_the_others(beta: World, client_of_beta: Client) -> None:
    second = make_dead_job(beta.tenant, "second")
    with scoped_transaction(scope_of(beta.tenant)):
        Job.objects.in_scope(scope_of(beta.tenant)).filter(pk=second.pk).update(status="done")
    answer = run_action(client_of_beta, Job, "retry", beta.job.pk, second.pk)
    body = answer.content.decode()
    assert "Done for 1" in body
    assert "Not possible for 1" in body
    assert row_of(beta, Job, beta.job.pk).status == "ready"
    assert row_of(beta, Job, second.pk).status == "done"
    assert ("job_retried", beta.job.pk, f"staff:{beta.staff.pk}") in actions_logged(beta)


def make_key_by_form(client: Client, world: World, **more: Any) -> Any:
    posted = {"tenant": world.tenant.pk, "name": "made here", "scopes": ["run", "read"]} | more
    return client.post(url_of(ApiKey, "add/"), posted)


def secret_in(answer: Any) -> str:
    body = answer.content.decode()
    return str(body.partition('<code id="secret">')[2].partition("</code>")[0])


def test_key_secret_is_shown_once_and_kept_nowhere(beta: World, client_of_beta: Client) -> None:
    answer = make_key_by_form(client_of_beta, beta)
    secret = secret_in(answer)
    assert answer.status_code == 200
    assert "no-store" in answer.headers["Cache-Control"]
    principal = authenticate(raw=secret, now=timezone.now())
    assert principal.tenant_id == beta.tenant.pk
    assert principal.key_scopes == {"run", "read"}
    key = row_of(beta, ApiKey, principal.id)
    assert key.created_by == f"staff:{beta.staff.pk}"
    body = secret.rpartition("_")[2]
    later = [
        client_of_beta.get(url_of(ApiKey, tail))
        for tail in ("", f"{key.pk}/change/", f"{key.pk}/history/")
    ]
    for page in later:
        assert key.pk in page.content.decode() or key.prefix in page.content.decode()
        assert body not in page.content.decode()
        assert key.digest not in page.content.decode()
    kept = [*Session.objects.values_list("session_data", flat=True)]
    kept += [f"{entry.object_repr}{entry.change_message}" for entry in LogEntry.objects.all()]
    assert not [text for text in kept if body in text]
    assert body not in client_of_beta.cookies.output()
    assert ("key_created", key.pk, f"staff:{beta.staff.pk}") in actions_logged(beta)


@pytest.mark.req("B18")
def test_key_form_refuses_what_belongs_to_another_tenant(
    alpha: World, beta: World, client_of_beta: Client
) -> None:
    before = len(in_scope_of(alpha, ApiKey)), len(in_scope_of(beta, ApiKey))
    for forged in (
        {"tenant": alpha.tenant.pk},
        {"agent": alpha.agent.pk},
        {"end_user": alpha.end_user.pk},
    ):
        answer = make_key_by_form(client_of_beta, beta, **forged)
        assert answer.status_code == 200
        assert answer.context["errors"], forged
        assert "secret" not in answer.context
        assert alpha.word not in answer.content.decode()
    assert (len(in_scope_of(alpha, ApiKey)), len(in_scope_of(beta, ApiKey))) == before


@pytest.mark.req("B18")
def test_key_form_of_two_tenants_staff_keeps_agent_and_tenant_together(
    alpha: World, beta: World
) -> None:
    """Both are the staff's own, and still may not be mixed."""
    beta.staff.groups.add(alpha.staff.groups.get())
    answer = make_key_by_form(signed_in(beta.staff), beta, agent=alpha.agent.pk)
    assert "This belongs to another tenant" in answer.content.decode()


def test_key_form_says_what_the_domain_refuses(beta: World, client_of_beta: Client) -> None:
    past = {"expires_at_0": "2020-01-01", "expires_at_1": "00:00:00"}
    answer = make_key_by_form(client_of_beta, beta, **past)
    assert answer.context["adminform"].form.errors["expires_at"] == ["The expiry lies in the past."]
    assert make_key_by_form(client_of_beta, beta, scopes=[]).context["errors"]
    assert make_key_by_form(client_of_beta, beta, scopes=["root"]).context["errors"]


def test_key_limited_to_agent_and_person_carries_its_limits(
    beta: World, client_of_beta: Client
) -> None:
    answer = make_key_by_form(client_of_beta, beta, agent=beta.agent.pk, end_user=beta.end_user.pk)
    principal = authenticate(raw=secret_in(answer), now=timezone.now())
    assert (principal.agent_id, principal.end_user_id) == (beta.agent.pk, beta.end_user.pk)


def test_revoke_ends_a_key_at_once(beta: World, client_of_beta: Client) -> None:
    run_action(client_of_beta, ApiKey, "revoke", beta.key.id)
    with pytest.raises(UnauthenticatedError):
        authenticate(raw=beta.key.secret, now=timezone.now())
    assert ("key_revoked", beta.key.id, f"staff:{beta.staff.pk}") in actions_logged(beta)


def test_keys_are_never_changed(beta: World, client_of_beta: Client) -> None:
    url = url_of(ApiKey, f"{beta.key.id}/change/")
    assert client_of_beta.post(url, {"scopes": ["admin"]}).status_code == 403
