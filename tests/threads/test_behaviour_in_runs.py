"""Behaviour samples with real commits: what a run sends, and many who decide at once."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any

import pytest
from django.db import connections

from governance.behaviour.decisions import approve_sample, reject_sample
from governance.behaviour.proposals import Proposal, propose_sample
from governance.decisions import AlreadyDecidedError
from governance.models import AuditEntry
from memory.models import BehaviourSample, Tenant
from memory.rls import scoped_transaction
from tests.factories import NOW, make_tenant, scope_of
from tests.fakes.openai_replies import text
from tests.fakes.openai_server import FakeOpenAI
from tests.talking import last_of, new_thread, prepare, roll, tell
from threads.events import Completed
from threads.models import Agent, RunTrace
from threads.pipeline import ContextOverBudgetError

pytestmark = pytest.mark.usefixtures("committed_db")
RULE = "先给结论，再给理由。"


def propose(tenant: Tenant, content: str = RULE, agent: Agent | None = None) -> BehaviourSample:
    proposal = Proposal(
        kind="rule", origin="staff", content=content, agent_id=agent.pk if agent else None
    )
    return propose_sample(scope=scope_of(tenant), proposal=proposal, now=NOW)[0]


def approve(tenant: Tenant, sample: BehaviourSample) -> None:
    approve_sample(scope=scope_of(tenant), sample_id=sample.pk, by="staff:1", now=NOW)


def twenty_times(act: Callable[[int], Any]) -> list[Any]:
    """Act in twenty threads at once; return what came of each, errors among it."""
    start, found = threading.Barrier(20), []

    def one(number: int) -> None:
        try:
            start.wait(10)
            found.append(act(number))
        except Exception as error:  # noqa: BLE001 - looked at by the test
            found.append(error)
        finally:
            connections.close_all()

    workers = [threading.Thread(target=one, args=(number,)) for number in range(20)]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join(30)
    return found


def audited(tenant: Tenant, action: str) -> int:
    scope = scope_of(tenant)
    with scoped_transaction(scope):
        return AuditEntry.objects.in_scope(scope).filter(action=action).count()


@pytest.mark.req("D04")
def test_a_run_sends_them_in_the_system_message_and_keeps_them_in_its_trace(
    world: Any, server: FakeOpenAI
) -> None:
    tenant, key, agent = world
    with scoped_transaction(scope_of(tenant)):
        agent.system_prompt = "你是助教。"
        agent.save(update_fields=["system_prompt"])
    sample = propose(tenant, agent=agent)
    approve(tenant, sample)
    server.script(text("好的"))
    prepared = prepare(key, agent, "红黑树怎么讲？")
    assert isinstance(last_of(prepared), Completed)
    sent = server.requests[0].body["messages"]
    assert sent[0]["content"].startswith("你是助教。\n\n[行为规范]")
    assert f"（{NOW.date()} 批准）：{RULE}" in sent[0]["content"]
    assert [message["role"] for message in sent].count("system") == 1
    assert sent[-1]["content"].endswith("红黑树怎么讲？")
    scope = scope_of(tenant)
    with scoped_transaction(scope):
        trace = RunTrace.objects.in_scope(scope).get(run_id=prepared.run_id)
    assert [item["id"] for item in trace.items if item["kind"] == "sample"] == [sample.pk]


@pytest.mark.req("D04")
def test_a_call_made_for_memory_never_carries_them(world: Any, server: FakeOpenAI) -> None:
    tenant, _, agent = world
    approve(tenant, propose(tenant, "never-in-memory-work"))
    thread = new_thread(agent)
    tell(thread, [(f"第{number}题怎么改？" * 20, "改成红黑树。" * 20) for number in range(14)])
    server.answer_with(lambda _: text("- 2026-11-02 改题"))
    roll(thread)
    assert server.requests
    assert not any("never-in-memory-work" in str(one.body) for one in server.requests)


def test_samples_over_the_target_refuse_the_run_before_anything_is_cut(
    world: Any, server: FakeOpenAI
) -> None:
    tenant, key, agent = world
    with scoped_transaction(scope_of(tenant)):
        agent.context_window, agent.max_output_tokens = 1024, 256
        agent.policy = {"behaviour_tokens": 4000}
        agent.save()
    for number in range(3):
        approve(tenant, propose(tenant, f"规则{number}：" + "先给结论，再给理由。" * 50))
    with pytest.raises(ContextOverBudgetError) as refused:
        prepare(key, agent, "你好")
    assert "approved samples" in refused.value.detail
    (row,) = [one for one in refused.value.context["sections"] if one["name"] == "behaviour"]
    assert (row["granted"], row["dropped"][0]["reason"]) == (0, "rejected")


@pytest.mark.req("E05")
def test_twenty_who_approve_at_once_leave_one_audit_row() -> None:
    tenant = make_tenant()
    sample = propose(tenant)

    def act(number: int) -> str:
        by = f"staff:{number}"
        return approve_sample(
            scope=scope_of(tenant), sample_id=sample.pk, by=by, now=NOW
        ).decided_by

    found = twenty_times(act)
    assert len(set(found)) == 1, found
    assert len(found) == 20
    assert audited(tenant, "sample_approved") == 1


def test_twenty_who_propose_the_same_at_once_make_one_sample() -> None:
    tenant = make_tenant()
    found = twenty_times(lambda _: propose(tenant).pk)
    assert len(set(found)) == 1, found
    assert audited(tenant, "sample_proposed") == 1
    assert audited(tenant, "memory_written") == 1


def test_approvals_and_rejections_at_once_decide_one_way() -> None:
    tenant = make_tenant()
    sample = propose(tenant)

    def act(number: int) -> str:
        scope, by = scope_of(tenant), f"staff:{number}"
        if number % 2:
            return approve_sample(scope=scope, sample_id=sample.pk, by=by, now=NOW).status
        return reject_sample(scope=scope, sample_id=sample.pk, by=by, reason="no", now=NOW).status

    found = twenty_times(act)
    decided = [one for one in found if isinstance(one, str)]
    assert len(decided) == 10
    assert len(set(decided)) == 1
    assert all(isinstance(one, str | AlreadyDecidedError) for one in found), found
    assert audited(tenant, "sample_approved") + audited(tenant, "sample_rejected") == 1
