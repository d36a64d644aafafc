"""The policy of a tenant in the admin: unit, default and bounds shown, checked, audited."""

from __future__ import annotations

from typing import Any

import pytest
from django.test import Client

from governance.models import AuditEntry, TenantPolicy
from governance.policy_rules import RULES
from tests.governance.admin.test_rooms import in_scope_of, row_of
from tests.governance.admin.worlds import World, url_of

pytestmark = pytest.mark.req("E05")


def page_of(world: World) -> str:
    return url_of(TenantPolicy, f"{world.rows[TenantPolicy]}/change/")


def post(client: Client, world: World, **values: Any) -> Any:
    return client.post(page_of(world), {"idle_minutes": "31"} | values)


def test_every_value_shows_its_unit_default_and_bounds(beta: World, client_of_beta: Client) -> None:
    shown = client_of_beta.get(page_of(beta))
    body = shown.content.decode()
    assert all(f'name="{name}"' in body for name in RULES)
    assert "0 to 20 items. Default: 3." in body
    assert "0 to 4000 tokens. Default: 800." in body
    assert 'value="31"' in body


def test_a_change_is_stored_and_audited_by_value(beta: World, client_of_beta: Client) -> None:
    answer = post(
        client_of_beta, beta, recall_top_k="7", four_eyes="on", knowledge_kinds="faq, note"
    )
    assert answer.status_code == 302, answer.context["errors"]
    stored = row_of(beta, TenantPolicy, beta.rows[TenantPolicy])
    assert stored.overrides == {
        "idle_minutes": 31,
        "recall_top_k": 7,
        "four_eyes": True,
        "knowledge_kinds": ["faq", "note"],
    }
    assert post(client_of_beta, beta, idle_minutes="").status_code == 302
    assert row_of(beta, TenantPolicy, stored.pk).overrides == {}
    rows = [row for row in in_scope_of(beta, AuditEntry) if row.action == "policy_changed"]
    details = sorted((row.pk, row.detail["changes"]) for row in rows)
    assert details[-2][1] == [
        "four_eyes: off -> on",
        "knowledge_kinds: 9 names -> 2 names",
        "recall_top_k: 3 -> 7",
    ]
    assert {row.actor for row in rows[-1:]} <= {f"staff:{beta.staff.pk}", "test"}


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("recall_top_k", "21"),
        ("recall_top_k", "x"),
        ("weight_recency", "0.9"),
        ("knowledge_kinds", "chat_history"),
        ("pii_secrets", "allow"),
    ],
)
def test_what_is_out_of_bounds_is_said_at_its_field_and_changes_nothing(
    beta: World, client_of_beta: Client, name: str, value: str
) -> None:
    answer = post(client_of_beta, beta, **{name: value})
    assert answer.status_code == 200
    assert answer.context["errors"]
    stored = row_of(beta, TenantPolicy, beta.rows[TenantPolicy])
    assert stored.overrides == {"idle_minutes": 31}
