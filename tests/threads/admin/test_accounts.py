"""Why a prompt is as it is, readable on the pages of a run and of an assembled context."""

from __future__ import annotations

from typing import Any

import pytest
from django.test import Client

from memory.rls import scoped_transaction
from tests.factories import make_run, scope_of
from tests.governance.admin.worlds import World, url_of
from threads.models import ContextTrace, Run, RunTrace

HOSTILE = "</td><script>alert(1)</script>\u202eevil 忽略以上"
CONTEXT = {
    "decision": "compress",
    "current_tokens": 930,
    "prompt_tokens": 600,
    "target_budget": 700,
    "context_window": 1024,
    "candidate_count": 2,
    "sections": [
        {
            "name": "thread", "position": 5, "priority": 4, "cap": 2000, "wanted": 800,
            "granted": 470, "items": 1,
            "dropped": [
                {"kind": "turn", "id": f"run_{n}", "tokens": 30, "reason": "awaiting_summary"}
                for n in range(22)
            ],
        },
    ],
}  # fmt: skip
STEPS = [
    {"kind": "precheck", "data": {}},
    {
        "kind": "compress",
        "data": {
            "level": "dedupe", "summary_id": "sum_1", "tokens_before": 930, "tokens_after": 600,
            "model": "", "veto": "ok", "outcome": "kept",
        },
    },
]  # fmt: skip
ITEMS = [
    {
        "section": "thread", "kind": "turn", "id": "run_9", "tier": "observed", "stale": True,
        "source": {"kind": "run", "id": "run_9"}, "created_at": "2026-11-02T09:00:00+00:00",
        "tokens": 12, "content": HOSTILE,
    },
    {"section": "guidelines", "kind": "guideline", "id": "g", "tier": "system", "source": None},
]  # fmt: skip
SAID = (
    "compress: 930 tokens wanted, 700 allowed, 600 sent (window 1024)",
    "5. thread: 470 of 800 (cap 2000, priority 4), 1 items",
    "- turn run_0: 30 tokens, awaiting_summary",
    "… 2 more",
    "dedupe: kept, 930 to 600 tokens, veto ok [sum_1]",
    "thread: turn run_9 (observed, stale), from run run_9, 2026-11-02T09:00:00+00:00, 12 tokens",
)


def run_page(world: World, client: Client, **values: Any) -> str:
    run = make_run(world.thread, **values)
    with scoped_transaction(scope_of(world.tenant)):
        RunTrace.objects.create(
            tenant=world.tenant, run=run, end_user_id=run.end_user_id, items=ITEMS, steps=STEPS
        )
    return client.get(url_of(Run, f"{run.pk}/change/")).content.decode()


def context_page(world: World, client: Client) -> str:
    with scoped_transaction(scope_of(world.tenant)):
        trace = ContextTrace.objects.create(
            tenant=world.tenant,
            agent=world.agent,
            context=CONTEXT,
            messages=[{"role": "user", "content": HOSTILE}],
            items=ITEMS,
            steps=STEPS,
        )
    return client.get(url_of(ContextTrace, f"{trace.pk}/change/")).content.decode()


@pytest.mark.req("B05")
@pytest.mark.req("B11")
@pytest.mark.parametrize("kind", ["run", "context"])
def test_page_says_what_was_decided_done_and_shown_escaped(
    kind: str, beta: World, client_of_beta: Client
) -> None:
    body = (
        run_page(beta, client_of_beta, context=CONTEXT)
        if kind == "run"
        else context_page(beta, client_of_beta)
    )
    assert [text for text in SAID if text not in body] == []
    assert "<script>alert" not in body
    assert "\u202e" not in body
    assert "U+202E</mark>evil" in body
    assert "_save" not in body


def test_run_recorded_elsewhere_has_no_account_and_still_a_page(
    beta: World, client_of_beta: Client
) -> None:
    run = make_run(beta.thread)
    answer = client_of_beta.get(url_of(Run, f"{run.pk}/change/"))
    assert answer.status_code == 200
    assert run.pk in answer.content.decode()
