"""The page of uses: scoped like the other rooms, and making anew only where approving is granted."""

from __future__ import annotations

import pytest
from django.test import Client

from governance.models import AuditEntry
from governance.permissions import Role
from memory.ids import new_id
from memory.models import CoreFact, Entity, KnowledgeDocument, MemoryItem
from memory.rls import scoped_transaction
from memory.scope import Scope
from tests.factories import make_staff
from tests.governance.admin.worlds import World, signed_in, url_of
from threads.models import Run, Thread


def page(world: World, item_id: str) -> str:
    return url_of(Run, f"uses/{world.tenant.pk}/{item_id}/")


@pytest.mark.req("B18")
def test_pages_of_rows_lead_to_their_uses(beta: World, client_of_beta: Client) -> None:
    for model in (Run, CoreFact, MemoryItem, Entity, KnowledgeDocument):
        row = beta.rows[model]
        shown = client_of_beta.get(url_of(model, f"{row}/change/")).content.decode()
        assert f'href="{page(beta, row)}"' in shown, model
        found = client_of_beta.get(page(beta, row))
        assert found.status_code == 200, model
        assert row in found.content.decode()
        # Ids, kinds and times only: of what was said there is nothing.
        assert beta.word not in found.content.decode(), model


@pytest.mark.req("B17")
def test_another_tenants_item_is_answered_like_an_unknown_one(
    alpha: World, beta: World, client_of_beta: Client
) -> None:
    for model in (Run, CoreFact, Entity):
        row, unknown = alpha.rows[model], new_id(alpha.rows[model].partition("_")[0])
        for tenant in (alpha, beta):
            for pk in (row, unknown, "x"):
                for ask in (client_of_beta.get, client_of_beta.post):
                    assert ask(page(tenant, pk)).status_code in (403, 404), (model, pk)
    assert Client().get(page(beta, beta.rows[Run])).status_code == 302


@pytest.mark.req("B18")
def test_making_anew_is_for_those_who_approve(beta: World) -> None:
    reader = signed_in(make_staff(beta.tenant, Role.READER))
    curator = signed_in(make_staff(beta.tenant, Role.CURATOR))
    url = page(beta, beta.rows[Thread])
    assert '<form method="post">' not in reader.get(url).content.decode()
    assert reader.post(url).status_code == 403
    assert '<form method="post">' in curator.get(url).content.decode()
    scope = Scope(tenant_ids=(beta.tenant.pk,), principal_id="test")
    for made in (1, 2):
        assert curator.post(url, follow=True).status_code == 200
        with scoped_transaction(scope):
            acts = AuditEntry.objects.in_scope(scope).filter(action="rederived")
            assert acts.count() == made
