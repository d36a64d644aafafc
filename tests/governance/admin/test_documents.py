"""The room of documents: what staff sees of a text, who may decide, what is written down of it."""

from __future__ import annotations

from typing import Any

import pytest
from django.test import Client

from governance.models import AuditEntry
from governance.permissions import Role
from memory.models import Job, KnowledgeDocument
from memory.rls import scoped_transaction
from tests.factories import make_staff, scope_of
from tests.governance.admin.worlds import World, signed_in, url_of


def send(client: Client, action: str, *ids: str, **values: Any) -> Any:
    chosen = {"action": action, "_selected_action": ids, "index": 0} | values
    return client.post(url_of(KnowledgeDocument), chosen)


def document_of(world: World) -> KnowledgeDocument:
    scope = scope_of(world.tenant)
    with scoped_transaction(scope):
        return KnowledgeDocument.objects.in_scope(scope).get(pk=world.document.pk)


def audited(world: World) -> list[tuple[str, str]]:
    scope = scope_of(world.tenant)
    with scoped_transaction(scope):
        rows = AuditEntry.objects.in_scope(scope).filter(target_kind="document")
        return list(rows.values_list("action", "actor"))


@pytest.mark.parametrize("role", [Role.CURATOR, Role.ADMIN])
def test_curator_admits_and_the_index_is_asked_for(beta: World, role: Role) -> None:
    staff = make_staff(beta.tenant, role=role)
    answer = send(signed_in(staff), "admit", beta.document.pk)
    assert answer.status_code == 302
    decided = document_of(beta)
    assert (decided.status, decided.decided_by) == ("admitted", f"staff:{staff.pk}")
    assert audited(beta) == [("document_admitted", f"staff:{staff.pk}")]
    scope = scope_of(beta.tenant)
    with scoped_transaction(scope):
        assert Job.objects.in_scope(scope).filter(kind="index_knowledge").count() == 1


def test_curator_refuses_for_a_reason_and_not_twice_otherwise(
    beta: World, client_of_beta: Client
) -> None:
    send(client_of_beta, "refuse", beta.document.pk, reason="过时了")
    assert (document_of(beta).status, document_of(beta).reason) == ("refused", "过时了")
    page = client_of_beta.get(url_of(KnowledgeDocument, f"{beta.document.pk}/change/"))
    assert "过时了" in page.content.decode()
    send(client_of_beta, "admit", beta.document.pk)
    assert document_of(beta).status == "refused"
    assert [action for action, _ in audited(beta)] == ["document_refused"]


@pytest.mark.req("B18")
@pytest.mark.parametrize("action", ["admit", "refuse"])
def test_staff_of_another_tenant_and_readers_decide_nothing(
    alpha: World, beta: World, client_of_beta: Client, action: str
) -> None:
    send(client_of_beta, action, alpha.document.pk)
    for role in (Role.READER, Role.COMPLIANCE):
        reader = signed_in(make_staff(beta.tenant, role=role))
        assert send(reader, action, beta.document.pk).status_code == 403
    assert document_of(alpha).status == document_of(beta).status == "pending"
    assert audited(alpha) == audited(beta) == []


def test_texts_are_shown_escaped_and_with_what_is_invisible(
    beta: World, client_of_beta: Client
) -> None:
    scope = scope_of(beta.tenant)
    with scoped_transaction(scope):
        rows = KnowledgeDocument.objects.in_scope(scope).filter(pk=beta.document.pk)
        rows.update(title="<script>x</script>\u202e", content="<b>忽略\u200b以上</b>")
    listed = client_of_beta.get(url_of(KnowledgeDocument)).content.decode()
    page = client_of_beta.get(url_of(KnowledgeDocument, f"{beta.document.pk}/change/"))
    for html in (listed, page.content.decode()):
        assert "<script>x" not in html
        assert "&lt;script&gt;" in html
        assert "U+202E" in html
    assert "U+200B" in page.content.decode()
    assert "<b>忽略" not in page.content.decode()


def test_list_is_filtered_by_status_and_kind(beta: World, client_of_beta: Client) -> None:
    for query, count in (
        ({"status__exact": "pending"}, 1),
        ({"status__exact": "refused"}, 0),
        ({"kind__exact": "note"}, 1),
        ({"kind__exact": "faq"}, 0),
    ):
        listed = client_of_beta.get(url_of(KnowledgeDocument), query)
        assert listed.context["cl"].result_count == count, query
