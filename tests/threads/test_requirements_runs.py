"""What the design seeds demand of runs, row by row, with the real database and a scripted server."""

from __future__ import annotations

import json
from datetime import timedelta
from typing import Any

import pytest
from django.apps import apps
from django.utils import timezone

from governance.models import TenantPolicy
from governance.policy import change_policy
from memory.ledger import target_budget
from memory.models import Job, MemoryOp, Tenant
from memory.rls import scoped_transaction
from tests.factories import make_agent, make_key, make_provider, make_tenant, scope_of
from tests.fakes.openai_replies import calls, text
from tests.fakes.openai_server import FakeOpenAI
from tests.foresting import grow, nodes_of, pairs
from tests.talking import last_of, new_thread, prepare, stored_run, tell
from tests.threads.tooled import trace_of
from threads.contexts import assemble_context
from threads.events import Completed
from threads.models import Agent, ContextTrace, Message, Run, RunTrace, Thread
from threads.pipeline import ContextOverBudgetError
from threads.request import HandedFact, HandedMaterial, RunRequest

CANARY = "CNRY-42"
ORDER = ("scope", "precheck", "retrieval", "compress", "assemble", "model", "tool", "writeback")


def changed(agent: Agent, **values: Any) -> Agent:
    """The agent with other settings."""
    with scoped_transaction(scope_of(Tenant(id=agent.tenant_id))):
        for name, value in values.items():
            setattr(agent, name, value)
        agent.save(update_fields=list(values))
    return agent


def holding(tenant: Tenant, word: str) -> set[str]:
    """The tables of the product in whose rows a word stands, whatever the column."""
    scope, found = scope_of(tenant), set()
    with scoped_transaction(scope):
        for model in apps.get_models():
            if not hasattr(model, "walls"):
                continue
            manager: Any = model._default_manager
            rows = manager.unscoped(reason="looking for a word in a test")
            names = [field.attname for field in model._meta.concrete_fields]
            if any(word in json.dumps(row, default=str) for row in rows.values(*names)):
                found.add(model.__name__)
    return found


def kinds_of(prepared: Any) -> list[str]:
    return [step["kind"] for step in trace_of(prepared).steps]


def wire(server: FakeOpenAI, number: int) -> list[dict[str, Any]]:
    messages: list[dict[str, Any]] = server.requests[number].body["messages"]
    return messages


@pytest.mark.req("B01")
def test_policy_is_read_and_never_written_by_runs(world: Any, server: FakeOpenAI) -> None:
    """T1: whatever a model says or a tool does, policy and agent are as they were."""
    tenant, key, agent = world
    changed(agent, tools=["write_artifact", "memory_grep"], policy={"recall_top_k": 5})
    change_policy(scope=scope_of(tenant), changes={"recent_turns": 3}, now=timezone.now())

    def policies() -> list[Any]:
        scope = scope_of(tenant)
        with scoped_transaction(scope):
            own = list(TenantPolicy.objects.in_scope(scope).values())
            return own + list(Agent.objects.in_scope(scope).values())

    before = policies()
    server.script(
        calls(("write_artifact", '{"name": "policy", "content": "recent_turns: 9"}')),
        text("Set recent_turns to 9 and retention to none."),
    )
    assert isinstance(last_of(prepare(key, agent, "请把保留时间改成永久")), Completed)
    assert policies() == before


@pytest.mark.req("B01")
@pytest.mark.parametrize(
    ("question", "answer"), [("库存多少？", "十二件。"), ("How many are left?", "Twelve.")]
)
def test_context_of_a_run_is_thrown_away_with_it(
    world: Any, server: FakeOpenAI, question: str, answer: str
) -> None:
    """T3: what was handed in stands in the trace of its run, and nowhere that is read again."""
    tenant, key, agent = world
    server.script(text(answer), text(answer))
    first = prepare(
        key,
        agent,
        question,
        facts=(HandedFact(label=f"stock {CANARY}", value="12"),),
        materials=(HandedMaterial(title=CANARY, content=f"资料 {CANARY}"),),
    )
    assert isinstance(last_of(first), Completed)
    assert CANARY in wire(server, 0)[-1]["content"]
    assert holding(tenant, CANARY) == {"RunTrace"}
    assert isinstance(last_of(prepare(key, agent, question, first.thread_id)), Completed)
    assert answer in wire(server, 1)[-1]["content"]
    assert CANARY not in json.dumps(wire(server, 1))


@pytest.mark.req("B02")
def test_steps_come_in_their_order_and_compression_only_when_over_budget(
    world: Any, server: FakeOpenAI
) -> None:
    tenant, key, agent = world
    changed(agent, tools=["memory_grep"])
    server.script(calls(("memory_grep", '{"query": "题"}')), text("好。"), text("好。"))
    fits = prepare(key, agent, "第三题呢？")
    last_of(fits)
    assert kinds_of(fits) == [
        "scope", "precheck", "retrieval", "assemble", "model", "tool", "precheck", "model",
        "writeback",
    ]  # fmt: skip
    provider = agent.provider
    small = make_agent(tenant, provider, model="fake-1", context_window=1024, max_output_tokens=256)
    thread = new_thread(small)
    tell(thread, [(f"第{n}题改成红黑树。" * 6, f"已经改好第{n}题。" * 6) for n in range(14)])
    with scoped_transaction(scope_of(tenant)):
        person = Thread.objects.in_scope(scope_of(tenant)).select_related("end_user").get(
            pk=thread.pk
        ).end_user.user_id  # fmt: skip
    over = prepare(make_key(tenant), small, "第三题呢？", thread.pk, user_id=person)
    last_of(over)
    kinds = kinds_of(over)
    assert "compress" in kinds
    first = [kind for at, kind in enumerate(kinds) if kind not in kinds[:at]]
    assert first == sorted(first, key=ORDER.index)
    assert all(set(step) >= {"kind", "started_at", "ms", "data"} for step in trace_of(over).steps)
    assert stored_run(over).context["decision"] == "compress"


@pytest.mark.req("B04")
@pytest.mark.req("B05")
@pytest.mark.parametrize("text_", ["数据结构", "data structures "])
def test_refused_prompt_is_traced_with_its_precheck_and_reaches_no_model(
    world: Any, server: FakeOpenAI, text_: str
) -> None:
    tenant, key, agent = world
    with pytest.raises(ContextOverBudgetError) as refused:
        prepare(key, agent, text_ * 5000)
    scope = scope_of(tenant)
    with scoped_transaction(scope):
        (run,) = Run.objects.in_scope(scope)
        steps = RunTrace.objects.in_scope(scope).get(run_id=run.pk).steps
    assert (run.status, run.pk) == ("rejected", refused.value.run_id)
    (precheck,) = [step["data"] for step in steps if step["kind"] == "precheck"]
    target = target_budget(
        context_window=agent.context_window, max_output_tokens=agent.max_output_tokens
    )
    assert target == int(agent.context_window * 0.8)
    assert precheck == {
        "current_tokens": refused.value.context["current_tokens"],
        "target_budget": target,
        "decision": "reject",
        "candidate_count": 1,  # the guidelines of a first turn
    }
    assert precheck["current_tokens"] > target
    assert server.requests == []


@pytest.mark.req("C05")
@pytest.mark.req("C06")
@pytest.mark.parametrize("language", ["zh", "en"])
def test_guidelines_come_at_the_first_turn_and_after_half_an_hour_of_silence(
    world: Any, server: FakeOpenAI, language: str
) -> None:
    _, key, agent = world
    changed(
        agent, language=language, role="quiz_master", system_prompt="Be brief.",
        tools=["view_chat_history_summary"],
    )  # fmt: skip
    server.script(*(text("ok") for _ in range(4)))
    first = prepare(key, agent, "one")
    last_of(first)
    last_of(prepare(key, agent, "two", first.thread_id))
    for minutes, question in ((29, "three"), (31, "four")):
        then = timezone.now() - timedelta(minutes=minutes)
        with scoped_transaction(first.scope):
            Run.objects.in_scope(first.scope).update(created_at=then, finished_at=then)
        last_of(prepare(key, agent, question, first.thread_id))
    asked = [wire(server, number) for number in range(4)]
    assert [messages[0] for messages in asked] == [{"role": "system", "content": "Be brief."}] * 4
    latest = [messages[-1]["content"] for messages in asked]
    has_guidelines = ["[Background Context: Sync Guidelines]\n======" in said for said in latest]
    assert has_guidelines == [True, False, False, True]
    assert "quiz_master" in latest[0]
    assert "`view_chat_history_summary`" in latest[0]
    assert latest[3].index("Sync Guidelines") < latest[3].index("[Current Request]\nfour")


@pytest.mark.req("D03")
def test_summary_of_each_agent_rolls_by_its_own_threshold(db: None) -> None:
    """More than 20 messages where nobody said otherwise; an agent's own number before the tenant's."""
    tenant = make_tenant()
    provider = make_provider(tenant)
    change_policy(
        scope=scope_of(tenant), changes={"summary_after_messages": 10}, now=timezone.now()
    )
    usual, early = (
        make_agent(tenant, provider, policy=policy)
        for policy in ({}, {"summary_after_messages": 4})
    )
    due: dict[str, int] = {}
    for agent in (usual, early):
        thread = new_thread(agent)
        for turn in range(1, 8):
            tell(thread, [(f"第{turn}问", f"第{turn}答")])
            with scoped_transaction(scope_of(tenant)):
                rows = Job.objects.in_scope(scope_of(tenant)).filter(thread_id=thread.pk)
                if rows.filter(kind="roll_summary").exists():
                    due.setdefault(agent.pk, 2 * turn)
    assert due == {early.pk: 6, usual.pk: 12}


@pytest.mark.req("D03")
@pytest.mark.req("C10")
def test_forest_of_each_agent_grows_by_its_own_thresholds(db: None) -> None:
    from_policy = [
        {"forest_base_turns": 2, "forest_base_tokens": 200, "forest_consolidation_k": 2},
        {"forest_base_turns": 2, "forest_base_tokens": 200, "forest_consolidation_k": 4},
        {"forest_head_turns": 5, "forest_tail_turns": 9, "forest_base_tokens": 200},
    ]
    tenant = make_tenant()
    provider = make_provider(tenant)
    grown = []
    for policy in from_policy:
        agent = make_agent(
            tenant, provider, thread_strategy="lossless", policy=policy, language="zh"
        )
        thread = new_thread(agent)
        tell(thread, pairs(24))
        grow(thread)
        nodes = nodes_of(thread)
        grown.append((max(node.level for node in nodes), min(node.start_seq for node in nodes)))
        assert max(node.end_seq for node in nodes) <= 24 - policy.get("forest_tail_turns", 3)
    assert grown[0][0] > grown[1][0]
    assert [first for _, first in grown] == [2, 2, 6]


@pytest.mark.req("D02")
def test_fidelity_falls_from_verbatim_to_node_to_node_of_nodes(db: None) -> None:
    """Lossless: the further back, the fewer tokens an original has; each still to be had whole."""
    policy = {"forest_base_turns": 2, "forest_base_tokens": 200, "forest_consolidation_k": 2}
    tenant = make_tenant()
    agent = make_agent(tenant, thread_strategy="lossless", policy=policy, language="zh")
    thread = new_thread(agent)
    tell(thread, pairs(30))
    grow(thread)
    roots = [node for node in nodes_of(thread) if node.parent_id is None]
    levels = [node.level for node in roots]
    assert levels == sorted(levels, reverse=True)
    assert levels[0] > levels[-1]
    shares = [node.token_count / node.source_token_count for node in roots]
    assert max(shares) < 1
    assert shares[0] < shares[-1]


@pytest.mark.req("B01")
def test_context_without_a_run_leaves_nothing_but_its_trace(world: Any) -> None:
    tenant, key, agent = world
    assemble_context(
        principal=key.principal,
        agent_id=agent.pk,
        request=RunRequest(
            input=f"问 {CANARY}",
            user_id="teacher-7",
            facts=(HandedFact(label=CANARY, value="12"),),
        ),
        now=timezone.now(),
    )
    # Of somebody whom nobody knows no text is kept: an erasure could never find it.
    assert holding(tenant, CANARY) == set()
    scope = scope_of(tenant)
    tables: tuple[Any, ...] = (Run, Message, Job, MemoryOp)
    with scoped_transaction(scope):
        assert [model.objects.in_scope(scope).count() for model in tables] == [0, 0, 0, 0]
        assert ContextTrace.objects.in_scope(scope).count() == 1
