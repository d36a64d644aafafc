"""The rooms of the audit chain: what a link covers, and the check that only a post starts."""

from __future__ import annotations

import re
from typing import Any

import psycopg
import pytest
from django.contrib.admin.utils import quote
from django.test import Client
from django.urls import reverse

from governance import audit
from governance.models import AuditEntry, AuditLeaf, AuditSeal, Disclosure
from governance.permissions import Role
from governance.sealing import seal_pending
from memory.models import Tenant
from memory.rls import scoped_transaction
from memory.scope import Scope
from tests.factories import NOW, make_staff, make_tenant, scope_of
from tests.governance.admin.worlds import World, signed_in, url_of

VERIFY = "/admin/governance/auditseal/verify/"
_ROW = re.compile(r"<tr>(.*?)</tr>", re.DOTALL)
_TAG = re.compile(r"<[^>]*>")


def act(tenant: Tenant, times: int) -> None:
    scope = scope_of(tenant)
    with scoped_transaction(scope):
        for _ in range(times):
            audit.record(
                scope=scope, action="tried", target_kind="tenant", target_id=tenant.pk, now=NOW
            )


def officer_of(tenant: Tenant) -> Client:
    return signed_in(make_staff(tenant, role=Role.COMPLIANCE))


def last_seal(tenant: Tenant) -> AuditSeal:
    with scoped_transaction(scope_of(tenant)):
        return AuditSeal.objects.in_scope(scope_of(tenant)).latest("seq")


def leaves_of(seal: AuditSeal) -> list[AuditLeaf]:
    scope = Scope(tenant_ids=(seal.tenant_id,), principal_id="test")
    with scoped_transaction(scope):
        rows = AuditLeaf.objects.in_scope(scope).filter(seal_id=seal.pk)
        return list(rows.order_by("position"))


def lines(client: Client, seal: AuditSeal, query: str = "") -> list[str]:
    answer: Any = client.get(url_of(AuditSeal, f"{seal.pk}/change/{query}"))
    assert answer.status_code == 200
    sealed = answer.content.decode().partition('id="sealed"')[2]
    return [" ".join(_TAG.sub(" ", row).split()) for row in _ROW.findall(sealed)[1:]]


def test_link_lists_what_it_covers_a_page_at_a_time(committed_db: None) -> None:
    tenant = make_tenant()
    client = officer_of(tenant)
    seal_pending(now=NOW)
    act(tenant, times=205)
    seal_pending(now=NOW)
    seal = last_seal(tenant)
    leaves = leaves_of(seal)
    assert len(leaves) == 205
    shown = [lines(client, seal, query) for query in ("", "?p=2", "?p=3")]
    assert [len(page) for page in shown] == [100, 100, 5]
    listed = [line for page in shown for line in page]
    for leaf, line in zip(leaves, listed, strict=True):
        assert line.startswith(f"{leaf.position} {leaf.pk} ")
        assert line.endswith(f"test tried: tenant {tenant.pk} Yes")
    html = client.get(url_of(AuditSeal, f"{seal.pk}/change/?p=2")).content.decode()
    assert "Rows 101 to 200 of 205." in html
    assert f'href="/admin/governance/auditentry/{quote(leaves[100].pk)}/change/"' in html
    assert 'href="?p=1#sealed"' in html
    assert 'href="?p=3#sealed"' in html
    assert client.get(url_of(AuditEntry, f"{leaves[100].pk}/change/")).status_code == 200
    for query, first in (("?p=x", 0), ("?p=0", 200), ("?p=99999", 200), ("?p=%00", 0)):
        assert lines(client, seal, query)[0].startswith(f"{first} {leaves[first].pk}"), query


def test_link_tells_disclosures_and_rows_that_were_changed_or_taken(
    committed_db: None, superuser_url: str
) -> None:
    tenant = make_tenant()
    client = officer_of(tenant)
    seal_pending(now=NOW)
    act(tenant, times=3)
    with scoped_transaction(scope_of(tenant)):
        shown = Disclosure.objects.create(
            tenant=tenant, kind="run", run_id="run_x", agent_id="ag_x", key_id="key_x"
        )
    seal_pending(now=NOW)
    seal = last_seal(tenant)
    ids = [leaf.pk for leaf in leaves_of(seal) if leaf.pk != shown.pk]
    with psycopg.connect(superuser_url, autocommit=True) as owner:
        owner.execute("SET session_replication_role = replica")
        owner.execute("UPDATE governance_auditentry SET actor = 'nobody' WHERE id = %s", [ids[0]])
        owner.execute("DELETE FROM governance_auditentry WHERE id = %s", [ids[1]])
    found = {line.split()[1]: line for line in lines(client, seal)}
    assert len(found) == 4
    assert found[ids[0]].endswith("No: the row was changed.")
    assert found[ids[1]].endswith("– – The row is gone. –")
    assert found[ids[2]].endswith("Yes")
    assert found[shown.pk].endswith("key_x Shown to a model: run run_x Yes")
    html = client.get(url_of(AuditSeal, f"{seal.pk}/change/")).content.decode()
    assert f'href="/admin/threads/run/uses/{tenant.pk}/run_x/"' in html


@pytest.mark.req("B18")
def test_link_shows_rows_of_its_tenant_to_its_officers_alone(committed_db: None) -> None:
    tenants = [make_tenant(), make_tenant()]
    for tenant in tenants:
        act(tenant, times=2)
    seal_pending(now=NOW)
    own, other = (last_seal(tenant) for tenant in tenants)
    client = officer_of(tenants[0])
    listed = " ".join(lines(client, own))
    assert all(leaf.pk in listed for leaf in leaves_of(own))
    assert not any(leaf.pk in listed for leaf in leaves_of(other))
    assert client.get(url_of(AuditSeal, f"{other.pk}/change/")).status_code == 302
    reader = signed_in(make_staff(tenants[0], role=Role.READER))
    assert reader.get(url_of(AuditSeal, f"{own.pk}/change/")).status_code == 403


def test_check_is_offered_by_a_get_and_made_by_a_post(beta: World) -> None:
    assert reverse("admin:governance_auditseal_verify") == VERIFY
    client = officer_of(beta.tenant)
    offered = client.get(VERIFY).content.decode()
    assert "Check now" in offered
    assert beta.tenant.slug in offered
    assert "is not intact" not in offered
    assert "exported heads" not in offered
    assert VERIFY in client.get(url_of(AuditSeal)).content.decode()
    made = client.post(VERIFY).content.decode()
    assert "Check again" in made
    assert "The chain is not intact" in made, "the world's link was made by hand"


@pytest.mark.req("B18")
def test_check_is_refused_from_elsewhere_and_without_the_grant(beta: World) -> None:
    client = officer_of(beta.tenant)
    strict = Client(enforce_csrf_checks=True)
    strict.cookies = client.cookies
    assert strict.post(VERIFY).status_code == 403
    token = re.search(
        r'name="csrfmiddlewaretoken" value="(\w+)"', strict.get(VERIFY).content.decode()
    )
    assert token is not None
    assert strict.post(VERIFY, {"csrfmiddlewaretoken": token[1]}).status_code == 200
    reader = signed_in(make_staff(beta.tenant, role=Role.READER))
    assert reader.get(VERIFY).status_code == 403
    assert reader.post(VERIFY).status_code == 403


def test_rooms_speak_chinese(committed_db: None) -> None:
    tenant = make_tenant()
    client = officer_of(tenant)
    seal_pending(now=NOW)
    chinese = {"Accept-Language": "zh-CN"}
    seal = last_seal(tenant)
    page = client.get(url_of(AuditSeal, f"{seal.pk}/change/"), headers=chinese).content.decode()
    for word in ("已封存的行", "与封存时一致", "是"):
        assert word in page, word
    assert "立即核验" in client.get(VERIFY, headers=chinese).content.decode()
    assert "再次核验" in client.post(VERIFY, headers=chinese).content.decode()
