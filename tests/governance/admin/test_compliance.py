"""A compliance officer's rooms: export, hold, erase with counts, receipts, the chain's check."""

from __future__ import annotations

import html
import json
import re
from typing import Any
from urllib.parse import urlsplit

import pytest
from django.contrib.admin.utils import quote
from django.test import Client
from django.urls import reverse

from governance.models import AuditEntry, AuditPending, Erasure, ExportLink, LegalHold
from governance.permissions import Role
from memory.conf import audit_heads_path
from memory.models import EndUser
from memory.rls import scoped_transaction
from tests.factories import make_end_user, make_staff, scope_of
from tests.governance.admin.worlds import World, signed_in


@pytest.fixture
def person(beta: World) -> EndUser:
    """Somebody of beta's whom nobody has begun to erase."""
    return make_end_user(beta.tenant, "王小明 & <b>co</b>")


@pytest.fixture
def officer(beta: World) -> Client:
    """A compliance officer of beta."""
    return signed_in(make_staff(beta.tenant, role=Role.COMPLIANCE))


def act(client: Client, person: EndUser, name: str, **values: Any) -> Any:
    return client.post(reverse(f"admin:memory_enduser_{name}", args=(person.pk,)), values)


def page(client: Client, person: EndUser) -> str:
    return client.get(f"/admin/memory/enduser/{person.pk}/change/").content.decode()


def rows(beta: World, model: Any, **where: Any) -> list[Any]:
    with scoped_transaction(scope_of(beta.tenant)):
        return list(model.objects.in_scope(scope_of(beta.tenant)).filter(**where))


def test_officer_sees_the_acts_and_a_curator_does_not(
    beta: World, person: EndUser, officer: Client
) -> None:
    shown = page(officer, person)
    assert "Make a link to the export" in shown
    assert "Erase…" in shown
    assert "<b>co</b>" not in shown
    curator = signed_in(make_staff(beta.tenant, role=Role.CURATOR))
    shown = page(curator, person)
    assert "Make a link to the export" not in shown
    assert "Erase…" not in shown


def test_case_172_acts_without_the_grant_are_refused(beta: World, person: EndUser) -> None:
    for role in (Role.READER, Role.CURATOR):
        client = signed_in(make_staff(beta.tenant, role=role))
        for name in ("export", "hold", "release", "erase"):
            values = {"mode": "all", "confirmed_id": person.pk}
            assert act(client, person, name, **values).status_code == 403, (role, name)
    assert rows(beta, Erasure, subject_id=person.pk) == []


@pytest.mark.req("B18")
def test_case_25_another_tenants_officer_finds_nobody(
    alpha: World, beta: World, person: EndUser
) -> None:
    stranger = signed_in(make_staff(alpha.tenant, role=Role.COMPLIANCE))
    for name in ("export", "hold", "release", "erase"):
        answer = act(stranger, person, name, mode="all", confirmed_id=person.pk)
        assert answer.status_code == 302
        assert answer["Location"] == "/admin/"
    assert rows(beta, Erasure, subject_id=person.pk) == []
    assert rows(beta, LegalHold, subject_id=person.pk) == []


def test_link_is_shown_once_and_leads_to_the_export(
    beta: World, person: EndUser, officer: Client
) -> None:
    shown = act(officer, person, "export").content.decode()
    found = re.search(r'id="secret">([^<]+)<', shown)
    assert found is not None
    answer: Any = Client().get(urlsplit(html.unescape(found[1])).path)
    lines = [json.loads(line) for line in b"".join(answer.streaming_content).splitlines()]
    assert lines[0]["user_id"] == person.user_id
    (link,) = rows(beta, ExportLink, end_user_id=person.pk)
    assert found[1].rpartition(".")[2] not in str(link.__dict__)
    assert link.downloads == 1
    chosen = {"action": "revoke", "_selected_action": link.pk}
    officer.post("/admin/governance/exportlink/", chosen)
    assert Client().get(urlsplit(found[1]).path).status_code == 404


def test_case_166_confirmation_shows_counts_and_no_contents(beta: World, officer: Client) -> None:
    person = beta.end_user
    shown = officer.get(reverse("admin:memory_enduser_erase", args=(person.pk,)))
    text = shown.content.decode()
    assert shown.status_code == 200
    assert f"{beta.word} question" not in text
    assert f"{beta.word}-person" not in text
    assert "threads_message" in text or "messages" in text
    assert len(rows(beta, AuditEntry, action="erasure_previewed", target_id=person.pk)) == 2
    assert rows(beta, Erasure, subject_id=person.pk, status="queued") == []


def test_erasure_asks_for_the_id_and_leads_to_its_page(
    beta: World, person: EndUser, officer: Client
) -> None:
    refused = act(officer, person, "erase", mode="all", confirmed_id=beta.end_user.pk)
    assert "This is not the person&#x27;s id." in refused.content.decode()
    assert rows(beta, Erasure, subject_id=person.pk) == []
    done = act(officer, person, "erase", mode="tagged", kinds=["email"], confirmed_id=person.pk)
    (erasure,) = rows(beta, Erasure, subject_id=person.pk)
    assert done["Location"] == reverse("admin:governance_erasure_change", args=(quote(erasure.pk),))
    assert (erasure.mode, erasure.kinds, erasure.status) == ("tagged", ["email"], "queued")
    assert erasure.requested_by.startswith("staff:")
    assert officer.get(done["Location"]).status_code == 200


def test_hold_is_placed_refuses_and_is_released(
    beta: World, person: EndUser, officer: Client
) -> None:
    act(officer, person, "hold", reason="诉讼")
    assert "Under legal hold since" in page(officer, person)
    answer = act(officer, person, "erase", mode="all", confirmed_id=person.pk)
    assert answer.status_code == 302
    assert rows(beta, Erasure, subject_id=person.pk) == []
    act(officer, person, "release")
    (hold,) = rows(beta, LegalHold, subject_id=person.pk)
    assert hold.released_at is not None
    act(officer, person, "hold")
    (open_one,) = rows(beta, LegalHold, subject_id=person.pk, released_at__isnull=True)
    chosen = {"action": "release", "_selected_action": open_one.pk}
    officer.post("/admin/governance/legalhold/", chosen)
    assert rows(beta, LegalHold, subject_id=person.pk, released_at__isnull=True) == []


def test_receipt_is_a_file_and_failed_ones_are_tried_again(
    alpha: World, beta: World, officer: Client
) -> None:
    pk = beta.rows[Erasure]
    url = reverse("admin:governance_erasure_receipt", args=(pk,))
    answer = officer.get(url)
    assert json.loads(answer.content)["receipt"] == {"said": beta.word}
    assert "attachment" in answer["Content-Disposition"]
    stranger = signed_in(make_staff(alpha.tenant, role=Role.COMPLIANCE))
    assert stranger.get(url).status_code == 404
    chosen = {"action": "retry", "_selected_action": pk}
    officer.post("/admin/governance/erasure/", chosen)
    assert [row.status for row in rows(beta, Erasure, pk=pk)] == ["queued"]


def test_chain_is_checked_on_its_page_for_own_tenants_only(
    alpha: World, beta: World, officer: Client
) -> None:
    shown = officer.post(reverse("admin:governance_auditseal_verify")).content.decode()
    assert beta.tenant.slug in shown
    assert alpha.word not in shown
    # The world's own link was made by hand, so there is something to tell.
    assert "The chain is not intact" in shown
    assert "leaves_changed" in shown
    assert rows(beta, AuditPending)
    reader = signed_in(make_staff(beta.tenant, role=Role.READER))
    assert reader.post(reverse("admin:governance_auditseal_verify")).status_code == 403


@pytest.mark.parametrize("fault", ["broken", "wrong kinds", "no text", "a folder"])
def test_chain_page_says_that_heads_can_not_be_read(
    beta: World, officer: Client, fault: str
) -> None:
    url = reverse("admin:governance_auditseal_verify")
    assert "can not be read" not in officer.post(url).content.decode()
    path = audit_heads_path()
    if fault == "a folder":
        path.mkdir(parents=True)
    else:
        kinds = f'{{"tenant_id": "{beta.tenant.pk}", "seq": "1", "hash": 1, "sealed_at": null}}\n'
        lines = {"broken": b"{\n", "wrong kinds": kinds.encode(), "no text": b"\xff\n"}
        path.write_bytes(lines[fault])
    answer = officer.post(url)
    shown = answer.content.decode()
    assert answer.status_code == 200
    assert "The file of exported heads can not be read" in shown
    assert str(path) not in shown
    assert "leaves_changed" in shown, "the chain itself is checked all the same"
    chinese = officer.post(url, headers={"Accept-Language": "zh-CN"}).content.decode()
    assert "无法读取导出链头的文件" in chinese


def test_pages_speak_chinese(beta: World, person: EndUser, officer: Client) -> None:
    shown = officer.get(
        f"/admin/memory/enduser/{person.pk}/change/", headers={"Accept-Language": "zh-CN"}
    ).content.decode()
    assert "设置法律保全" in shown
    assert "王小明" in shown
