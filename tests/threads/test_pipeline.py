"""The road of a run on a real database with the built-in model."""

from __future__ import annotations

import asyncio
from datetime import timedelta

import pytest
from django.utils import timezone

from memory.models import Job
from memory.rls import scoped_transaction
from tests.factories import make_agent, make_key, make_tenant, scope_of
from threads import pipeline, places
from threads.driver import RunDriver
from threads.events import Completed, LastEvent
from threads.models import Run, RunStatus, RunTrace
from threads.request import HandedFact, HandedMaterial, RunRequest
from threads.runs import cancel_run


def ask(
    key, agent, text, thread_id=None, user_id="teacher-7", **extra
) -> tuple[pipeline.PreparedRun, LastEvent]:
    """Run one question to its end; returns the run's id and last event."""
    request = RunRequest(input=text, user_id=user_id, thread_id=thread_id, **extra)
    prepared = pipeline.prepare(
        principal=key.principal, agent_id=agent.id, request=request, now=timezone.now()
    )

    async def drive() -> LastEvent:
        return await RunDriver(prepared).start().outcome()

    return prepared, asyncio.run(drive())


@pytest.fixture
def world(committed_db):
    tenant = make_tenant()
    return tenant, make_key(tenant), make_agent(tenant, system_prompt="You help a teacher.")


@pytest.mark.req("A07")
@pytest.mark.req("A24")
def test_second_message_of_thread_sees_first(world):
    tenant, key, agent = world
    first, last = ask(key, agent, "出一份数据结构试卷，包含四道简答题。")
    assert isinstance(last, Completed)
    second, last = ask(key, agent, "简答题换两道", thread_id=first.thread_id)
    assert isinstance(last, Completed)
    content = second.request.messages[-1].content
    assert "出一份数据结构试卷" in content
    assert content.endswith("简答题换两道")
    assert content.count("本会话前情结束") == 1
    with scoped_transaction(scope_of(tenant)):
        runs = Run.objects.in_scope(scope_of(tenant)).order_by("seq")
        assert [(run.seq, run.status, run.message_count) for run in runs] == [
            (1, "succeeded", 2),
            (2, "succeeded", 2),
        ]
        steps = RunTrace.objects.in_scope(scope_of(tenant)).get(run_id=second.run_id).steps
    kinds = [step["kind"] for step in steps]
    assert kinds == ["scope", "precheck", "retrieval", "assemble", "model", "writeback"]
    row = next(row for row in second.context["sections"] if row["name"] == "thread")
    assert 0 < row["granted"] <= row["cap"] == 2000


@pytest.mark.req("A07")
def test_thread_of_other_user_or_agent_is_mismatch(world):
    tenant, key, agent = world
    first, _ = ask(key, agent, "hello there")
    other = make_agent(tenant)
    for who, whom in ((agent, "someone-else"), (other, "teacher-7")):
        with pytest.raises(places.ThreadMismatchError):
            ask(key, who, "hi", thread_id=first.thread_id, user_id=whom)


def test_over_budget_request_is_stored_as_rejected(world):
    tenant, key, _ = world
    agent = make_agent(tenant, context_window=1024, max_output_tokens=256)
    with pytest.raises(pipeline.ContextOverBudgetError) as caught:
        ask(key, agent, "数据结构" * 2000)
    with scoped_transaction(scope_of(tenant)):
        run = Run.objects.in_scope(scope_of(tenant)).get(pk=caught.value.run_id)
    assert run.status == RunStatus.REJECTED
    assert run.context["decision"] == "reject"


def test_facts_and_materials_go_into_sections_apart(world):
    _, key, agent = world
    now = timezone.now()
    prepared, _ = ask(
        key,
        agent,
        "库存还有多少？",
        facts=(
            HandedFact(label="库存", value="12", as_of=now - timedelta(days=3), source="erp.stock"),
        ),
        materials=(HandedMaterial(title="考试大纲", content="树与图。" * 3000, source="wiki"),),
    )
    content = prepared.request.messages[-1].content
    assert content.index("已知事实") < content.index("参考资料")
    assert "可能已过期" in content
    rows = {row["name"]: row for row in prepared.context["sections"]}
    assert rows["reference"]["granted"] <= 1500
    assert prepared.context["prompt_tokens"] <= prepared.context["target_budget"]


@pytest.mark.req("D03")
def test_more_than_twenty_messages_enqueue_one_roll(world):
    tenant, key, agent = world
    first, _ = ask(key, agent, "第一个问题")
    for number in range(10):
        ask(key, agent, f"第{number}个问题", thread_id=first.thread_id)
    with scoped_transaction(scope_of(tenant)):
        jobs = Job.objects.in_scope(scope_of(tenant)).order_by("kind")
        assert [(job.kind, job.status) for job in jobs] == [
            ("extract_core", "ready"),
            ("index_recall", "ready"),
            ("roll_summary", "ready"),
        ]


def test_cancelled_run_stays_cancelled_and_learns_nothing(world):
    tenant, key, agent = world
    request = RunRequest(input="hello", user_id="u")
    prepared = pipeline.prepare(
        principal=key.principal, agent_id=agent.id, request=request, now=timezone.now()
    )
    cancel_run(scope=prepared.scope, run_id=prepared.run_id, now=timezone.now())

    async def drive() -> LastEvent:
        return await RunDriver(prepared).start().outcome()

    assert type(asyncio.run(drive())).__name__ == "Cancelled"
    with scoped_transaction(scope_of(tenant)):
        run = Run.objects.in_scope(scope_of(tenant)).get(pk=prepared.run_id)
    assert (run.status, run.output) == ("cancelled", "")


@pytest.mark.req("B05")
def test_estimate_with_all_candidates_is_never_below_the_prompt_as_sent(world):
    _, key, agent = world
    first, _ = ask(key, agent, "我家路由器每晚两点重启。")
    for text in ("什么时候重启？", "Which router is it?", "再说一遍"):
        run, _ = ask(key, agent, text, thread_id=first.thread_id)
        assert run.context["decision"] == "pass"
        assert run.context["current_tokens"] >= run.context["prompt_tokens"] > 0
