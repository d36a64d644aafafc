"""GET /v1/threads/{id}/summary for lossless threads."""

from __future__ import annotations

from typing import Any

import pytest

from governance.policy import change_policy
from memory.models import EndUser, Tenant
from tests.factories import (
    NOW,
    make_agent,
    make_end_user,
    make_key,
    make_provider,
    make_tenant,
    make_thread,
    scope_of,
)
from tests.foresting import grow, nodes_of, originals, set_strategy
from tests.talking import tell
from tests.threads.api.client import Api
from threads.models import Thread

NODE_FIELDS = [
    "id",
    "level",
    "summary",
    "start_at",
    "end_at",
    "token_count",
    "source_token_count",
    "children",
]


def said(count: int, word: str) -> list[tuple[str, str]]:
    return [
        (f"{word} {number}: " + "请修改这道题。" * 8, f"{word} 已改 {number}。" * 6)
        for number in range(1, count + 1)
    ]


@pytest.fixture
def tenant(db: None) -> Tenant:
    tenant = make_tenant()
    changes = {"forest_base_tokens": 200, "forest_consolidation_k": 2}
    change_policy(scope=scope_of(tenant), changes=changes, now=NOW)
    return tenant


def lossless_thread(tenant: Tenant, person: EndUser | None = None) -> Thread:
    agent = make_agent(tenant, provider=make_provider(tenant), thread_strategy="lossless")
    return make_thread(agent, person or make_end_user(tenant))


def shown(tenant: Tenant, thread: Thread) -> dict[str, Any]:
    api = Api(make_key(tenant))
    answer = api.get(f"/v1/threads/{thread.pk}/summary")
    assert answer.status_code == 200
    body: dict[str, Any] = answer.json()
    return body


@pytest.mark.req("C07")
def test_summary_of_a_lossless_thread_lists_every_node_with_its_lineage(tenant: Tenant) -> None:
    thread = lossless_thread(tenant)
    tell(thread, said(30, "试卷"))
    grow(thread)
    body = shown(tenant, thread)
    assert body["rolling_summary"] == ""
    assert (body["summary_upto_seq"], body["covered_turns"]) == (25, 24)
    assert body["summary_upto_at"] is not None
    stored = nodes_of(thread)
    assert [node["id"] for node in body["nodes"]] == [node.pk for node in stored]
    assert max(node["level"] for node in body["nodes"]) >= 1
    by_id = {node["id"]: node for node in body["nodes"]}
    messages = originals(thread)
    for node in stored:
        answer = by_id[node.pk]
        fields = NODE_FIELDS if node.level else [*NODE_FIELDS, "message_ids"]
        assert list(answer) == fields
        assert answer["summary"] == node.summary
        seqs = range(node.start_seq, node.end_seq + 1)
        assert drilled(by_id, node.pk) == [one[0] for seq in seqs for one in messages[seq]]


def drilled(by_id: dict[str, Any], node_id: str) -> list[str]:
    """The messages below a node, found through the answer alone."""
    node = by_id[node_id]
    if node["level"] == 0:
        return list(node["message_ids"])
    return [message for child in node["children"] for message in drilled(by_id, child)]


def test_summary_of_an_empty_lossless_thread_is_empty(tenant: Tenant) -> None:
    assert shown(tenant, lossless_thread(tenant)) == {
        "rolling_summary": "",
        "summary_upto_seq": 0,
        "summary_upto_at": None,
        "covered_turns": 0,
        "nodes": [],
    }


@pytest.mark.req("B11")
def test_nodes_are_shown_in_their_own_thread_only(tenant: Tenant) -> None:
    person = make_end_user(tenant)
    one, other = lossless_thread(tenant, person), lossless_thread(tenant, person)
    stranger = lossless_thread(tenant)
    for thread, word in ((one, "苹果"), (other, "香蕉"), (stranger, "cherries")):
        tell(thread, said(12, word))
        grow(thread)
    for thread in (one, other, stranger):
        ids = {node["id"] for node in shown(tenant, thread)["nodes"]}
        assert ids == {node.pk for node in nodes_of(thread)}
    foreign = Api(make_key(make_tenant())).get(f"/v1/threads/{one.pk}/summary")
    assert foreign.status_code == 404


def test_rolling_agent_still_lists_the_nodes_it_left(tenant: Tenant) -> None:
    thread = lossless_thread(tenant)
    tell(thread, said(12, "试卷"))
    grow(thread)
    set_strategy(thread, "rolling")
    body = shown(tenant, thread)
    assert (body["summary_upto_seq"], body["covered_turns"]) == (0, 0)
    assert len(body["nodes"]) == 2
