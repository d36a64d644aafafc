"""Growing a thread's forest on a real database."""

from __future__ import annotations

import json
from datetime import timedelta
from decimal import Decimal
from typing import Any

import pytest
from django.utils import timezone

from governance.policy import change_policy
from memory.models import Tenant
from memory.rls import scoped_transaction
from memory.tokens import estimate
from tests.factories import NOW, make_agent, make_provider, make_run, make_tenant, scope_of
from tests.fakes.openai_replies import text
from tests.fakes.openai_server import FakeOpenAI
from tests.foresting import (
    erase_run,
    grow,
    leaves_below,
    node_reply,
    nodes_of,
    originals,
    roots_of,
    set_strategy,
    waiting,
    wrong_with,
)
from tests.talking import (
    new_thread,
    ops_of,
    roll,
    session_of,
    summary_of,
    tell,
)
from threads.forest.passes import drop_nodes
from threads.forest.reading import read_forest
from threads.models import Thread
from threads.runs import Answered, succeed, written


def policy(thread: Thread, **changes: Any) -> None:
    change_policy(scope=scope_of(Tenant(id=thread.tenant_id)), changes=changes, now=NOW)


def pairs(count: int, start: int = 1, length: int = 12) -> list[tuple[str, str]]:
    return [
        (f"CNRY-{number} 第{number}个问题，" + "请修改。" * length, f"第{number}个回答。" * length)
        for number in range(start, start + count)
    ]


def english(count: int, start: int = 1) -> list[tuple[str, str]]:
    return [
        (
            f"CNRY-{number} please change question {number}. " + "It should be harder. " * 12,
            f"Changed question {number} as you asked. " * 4,
        )
        for number in range(start, start + count)
    ]


def sent(server: FakeOpenAI) -> str:
    return "\n".join(json.dumps(one.body, ensure_ascii=False) for one in server.requests)


def assert_lossless(thread: Thread) -> None:
    """Every node's leaves hold exactly the messages of the finished runs in its range, in order."""
    assert wrong_with(thread) == ()
    nodes, stored = nodes_of(thread), originals(thread)
    for node in nodes:
        leaves = leaves_below(nodes, node)
        under = [
            message for messages in stored.values() for message in messages if message[4] in leaves
        ]
        within = [
            message
            for seq, messages in stored.items()
            if node.start_seq <= seq <= node.end_seq
            for message in messages
            if message[4] is not None
        ]
        assert [one[0] for one in under] == [one[0] for one in within]
        assert len(under) == node.message_count


@pytest.mark.req("C07")
def test_100_messages_with_20_protected_leave_20_verbatim_and_nodes_over_1_to_80_k1(
    thread: Thread,
) -> None:
    """K1: summarising some of them must not touch the rest."""
    policy(thread, forest_head_turns=0, forest_tail_turns=10, forest_base_turns=4)
    tell(thread, pairs(50))
    before = {seq: [one[:4] for one in said] for seq, said in originals(thread).items()}
    grow(thread)
    after = originals(thread)
    assert {seq: [one[:4] for one in said] for seq, said in after.items()} == before
    places = [(seq, one) for seq, said in sorted(after.items()) for one in said]
    assert len(places) == 100
    assert [one[4] is not None for _, one in places] == [True] * 80 + [False] * 20
    leaves = [node for node in nodes_of(thread) if node.level == 0]
    ranges = [(node.start_seq, node.end_seq) for node in leaves]
    assert ranges == [(first, first + 3) for first in range(1, 41, 4)]
    assert [node.message_count for node in leaves] == [8] * 10
    assert roots_of(thread)[-1][2] == 40
    assert_lossless(thread)


@pytest.mark.req("C07")
@pytest.mark.parametrize("said", [pairs, english])
def test_drill_down_through_three_levels_gives_every_original_byte_for_byte_k4(
    thread: Thread, server: FakeOpenAI, said: Any
) -> None:
    """K4: for every node the union of its descendants is the original messages."""
    policy(thread, forest_consolidation_k=2, forest_base_turns=2)
    told = said(70)
    told[11] = ("CNRY-12 \u200b 𝄞 e\u0301 \r\n\t" + told[11][0], "  trailing  \n\n" + told[11][1])
    tell(thread, told)
    grow(thread)
    nodes, stored = nodes_of(thread), originals(thread)
    assert max(node.level for node in nodes) >= 3
    assert_lossless(thread)
    top = nodes[0]
    leaves = leaves_below(nodes, top)
    texts = [one[3] for said_ in stored.values() for one in said_ if one[4] in leaves]
    wanted = [part for pair in told[top.start_seq - 1 : top.end_seq] for part in pair]
    assert texts == wanted
    for node in nodes:
        assert node.token_count == estimate(node.summary) > 0
        assert node.token_count < node.source_token_count
        assert (node.method, node.model) == ("model", "fake-1")


@pytest.mark.req("C07")
def test_head_and_tail_stay_whatever_grows_between(thread: Thread) -> None:
    policy(thread, forest_head_turns=2, forest_tail_turns=5)
    for start in range(1, 42, 10):
        tell(thread, pairs(10, start=start))
        grow(thread)
        stored = originals(thread)
        free = [seq for seq, said in stored.items() if said[0][4] is None]
        assert free[:2] == [1, 2]
        assert free[-5:] == list(range(start + 5, start + 10))
        assert len(free) < 2 + 5 + 4
        assert_lossless(thread)


@pytest.mark.req("C07")
def test_chunk_waits_for_turns_and_tokens(thread: Thread, server: FakeOpenAI) -> None:
    tell(thread, pairs(7))
    grow(thread)
    assert nodes_of(thread) == []
    tell(thread, pairs(1, start=8))
    grow(thread)
    assert roots_of(thread) == [(0, 2, 5)]
    policy(thread, forest_base_tokens=2000)
    tell(thread, pairs(4, start=9))
    grow(thread)
    assert len(nodes_of(thread)) == 1
    tell(thread, [("长问题。" * 400, "长回答。" * 400)])
    tell(thread, pairs(3, start=14))
    grow(thread)
    assert roots_of(thread) == [(0, 2, 5), (0, 6, 13)]


@pytest.mark.req("C07")
def test_long_answer_near_the_limit_makes_exactly_one_node_e5(
    thread: Thread, server: FakeOpenAI
) -> None:
    """E5: what a model wrote is never compressed a second time right away."""
    policy(thread, forest_base_turns=1, forest_tail_turns=2)
    tell(thread, pairs(1))
    tell(thread, [("写得长一点", "很长的回答。" * 1200)])
    tell(thread, pairs(2, start=3))
    grow(thread)
    assert roots_of(thread) == [(0, 2, 2)]
    assert len(server.requests) == 1
    grow(thread)
    assert len(server.requests) == 1


@pytest.mark.req("C10")
def test_skeleton_fits_an_8k_window_after_700_turns(db: None) -> None:
    tenant = make_tenant()
    change_policy(scope=scope_of(tenant), changes={"forest_base_tokens": 200}, now=NOW)
    agent = make_agent(tenant, provider=make_provider(tenant), thread_strategy="lossless")
    thread = new_thread(agent)
    tell(thread, pairs(700, length=6))
    grow(thread)
    with scoped_transaction(session_of(thread)):
        view = read_forest(scope=session_of(thread), thread_id=thread.pk)
    assert view.token_count <= 2293
    assert view.roots[0].level >= 3
    assert (view.first_seq, view.upto_seq) == (2, 697)
    assert wrong_with(thread) == ()


@pytest.mark.req("A05")
def test_forest_stops_before_an_unfinished_run_and_leaves_cancelled_ones_out_148(
    thread: Thread, server: FakeOpenAI
) -> None:
    """148: run 8 is accepted before others and finishes after them."""
    tell(thread, pairs(6))
    make_run(thread, status="cancelled", input="CNRY-cancelled", message_count=1)
    late = make_run(
        thread,
        status="running",
        origin="run",
        input="CNRY-late",
        output="",
        finished_at=None,
        lease_until=timezone.now() + timedelta(minutes=5),
        turn_tokens=50,
        message_count=1,
    )
    tell(thread, pairs(12, start=9))
    grow(thread)
    assert roots_of(thread) == [(0, 2, 5)]
    scope = session_of(thread)
    answered = Answered(
        text="spät",
        model="m",
        input_tokens=1,
        output_tokens=1,
        cost_usd=Decimal(0),
        is_cost_known=True,
    )
    with scoped_transaction(scope):
        stored = written(answered)
        assert succeed(
            scope=scope, run_id=late.pk, answered=answered, stored=stored, now=timezone.now()
        )
    grow(thread)
    assert roots_of(thread)[:2] == [(0, 2, 5), (0, 6, 10)]
    assert sent(server).count("CNRY-late") == 1
    assert "CNRY-cancelled" not in sent(server)
    assert_lossless(thread)


@pytest.mark.req("A15")
@pytest.mark.req("A22")
def test_calls_are_booked_by_kind_and_carry_no_agent_prompt(
    thread: Thread, server: FakeOpenAI
) -> None:
    policy(thread, forest_consolidation_k=2)
    tell(thread, pairs(20))
    grow(thread)
    booked = [(op.kind, op.outcome, op.model) for op in ops_of(thread)]
    assert booked == [
        *[("build_nodes", "ok", "fake-1")] * 4,
        ("consolidate_nodes", "ok", "fake-1"),
    ]
    assert roots_of(thread) == [(1, 2, 9), (0, 10, 13), (0, 14, 17)]
    assert "AGENT-OWN-PROMPT" not in sent(server)
    assert "CNRY" not in json.dumps(server.requests[-1].body, ensure_ascii=False)


@pytest.mark.parametrize("answer", ["", "not JSON", "抱歉，我无法总结。"])
def test_model_that_never_writes_a_node_still_leaves_one_k3(
    thread: Thread, server: FakeOpenAI, answer: str
) -> None:
    """K3: it always converges."""
    server.answer_with(lambda body: text(answer))
    tell(thread, pairs(12))
    grow(thread)
    assert roots_of(thread) == [(0, 2, 5), (0, 6, 9)]
    assert {node.method for node in nodes_of(thread)} == {"extractive"}
    assert_lossless(thread)


@pytest.mark.req("D03")
def test_switching_strategies_keeps_both_cursors(thread: Thread, server: FakeOpenAI) -> None:
    tell(thread, pairs(12))
    grow(thread)
    assert roots_of(thread) == [(0, 2, 5), (0, 6, 9)]
    set_strategy(thread, "rolling")
    server.answer_with(lambda body: text("2026-06-12 决定把第三题换成红黑树。"))
    tell(thread, pairs(4, start=13))
    roll(thread)
    grow(thread)
    assert len(nodes_of(thread)) == 2
    assert summary_of(thread).summary_upto_seq == 14
    set_strategy(thread, "lossless")
    server.answer_with(node_reply)
    grow(thread)
    assert roots_of(thread) == [(0, 2, 5), (0, 6, 9), (0, 10, 13)]
    assert summary_of(thread).summary_upto_seq == 14
    assert_lossless(thread)


def test_dropped_nodes_leave_whole_roots_and_are_built_again(thread: Thread) -> None:
    policy(thread, forest_consolidation_k=2, forest_base_turns=2)
    tell(thread, pairs(40))
    grow(thread)
    erase_run(thread, 20)
    scope = session_of(thread)
    with scoped_transaction(scope):
        assert drop_nodes(scope=scope, thread_id=thread.pk, seq=20) > 0
    assert wrong_with(thread) == ()
    assert roots_of(thread)[-1][2] < 20
    grow(thread)
    assert roots_of(thread)[-1][2] >= 34
    assert_lossless(thread)


def test_node_whose_original_is_gone_is_taken_away_and_built_again(
    thread: Thread, server: FakeOpenAI
) -> None:
    policy(thread, forest_consolidation_k=2)
    tell(thread, pairs(16))
    grow(thread)
    erase_run(thread, 7)
    assert wrong_with(thread) != ()
    tell(thread, pairs(12, start=17))
    grow(thread)
    assert "CNRY-7 " not in json.dumps(server.requests[-1].body, ensure_ascii=False)
    assert waiting(thread) == []
    assert_lossless(thread)
