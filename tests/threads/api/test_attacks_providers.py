"""Attack cases 181 to 191: what a provider does to a run, its second round, a roll, a node."""

from __future__ import annotations

import json
import logging
from typing import Any

import pytest

from memory.rls import scoped_transaction
from memory.tokens import estimate
from tests.asgi_client import Answer, AsgiClient
from tests.factories import make_agent, make_end_user, make_key, make_tenant, scope_of
from tests.fakes.openai_replies import Dribble, calls, status, text
from tests.fakes.openai_server import FakeOpenAI
from tests.foresting import grow, nodes_of
from tests.talking import (
    API_KEY,
    fake_provider,
    last_of,
    new_thread,
    ops_of,
    prepare,
    roll,
    stored_run,
    summary_of,
    tell,
)
from tests.threads.api.stage import ASK, Stage
from threads.events import Completed, Failed
from threads.models import Agent, Artifact, Provider

QUICK = {"connect": 2, "first_token": 0.3, "between": 0.3, "total": 1}
WRITE = ("write_artifact", '{"name": "paper.md", "content": "第一题"}')
SPENT = f"Incorrect API key provided: {API_KEY}"


@pytest.fixture
def place(committed_db: None) -> Any:
    """A tenant, its key, and an agent with tools on a scripted server of short patience."""
    with FakeOpenAI() as server:
        tenant = make_tenant()
        provider = fake_provider(tenant, server, timeouts=QUICK)
        agent = make_agent(tenant, provider, model="fake-1", tools=["write_artifact"])
        yield server, tenant, agent, make_key(tenant)


def switch(agent: Agent, **values: Any) -> None:
    """Change an agent behind everybody's back."""
    with scoped_transaction(scope_of(agent.tenant)):
        Agent.objects.in_scope(scope_of(agent.tenant)).filter(pk=agent.pk).update(**values)


@pytest.mark.req("A15")
def test_run_keeps_the_provider_it_was_accepted_with_181(place: Any) -> None:
    """181: the agent goes from a local provider to one in the cloud between acceptance and call."""
    server, tenant, agent, key = place
    with FakeOpenAI() as cloud:
        prepared = prepare(key, agent, "hi")
        switch(agent, provider=fake_provider(tenant, cloud, locality="cloud", vendor="other"))
        server.script(text("here"))
        assert isinstance(last_of(prepared), Completed)
        assert (len(server.requests), len(cloud.requests)) == (1, 0)


@pytest.mark.req("A15")
@pytest.mark.parametrize("strategy", ["rolling", "lossless"])
def test_memory_work_goes_to_the_provider_of_its_own_time_181(place: Any, strategy: str) -> None:
    """181: from the cloud to a local one after the turns: the cloud sees nothing any more."""
    server, tenant, agent, _ = place
    thread = new_thread(agent)
    with FakeOpenAI() as cloud:
        switch(agent, thread_strategy=strategy)
        was: Provider = fake_provider(tenant, cloud, locality="cloud", vendor="other")
        switch(agent, provider=was)
        tell(thread, [(f"第{number}个问题" * 60, "回答" * 60) for number in range(14)])
        switch(agent, provider=agent.provider)
        server.answer_with(lambda body: status(404))
        grow(thread) if strategy == "lossless" else roll(thread)
        assert cloud.requests == []
        assert server.requests != []
    kept = nodes_of(thread) if strategy == "lossless" else [summary_of(thread)]
    assert {one.method for one in kept} == {"extractive"}


@pytest.mark.parametrize("rounds", [0, 1])
def test_headers_and_then_a_byte_now_and_then_end_the_run_185(place: Any, rounds: int) -> None:
    """185, in the first call and in the second round; nothing that a tool wrote is kept."""
    server, _, agent, key = place
    server.script(*[calls(WRITE)] * rounds, Dribble(data=b"d", every_seconds=0.05))
    prepared = prepare(key, agent, "hi")
    last = last_of(prepared)
    assert isinstance(last, Failed)
    assert last.code == "provider_timeout"
    assert server.requests[-1].client_left.wait(10)
    run = stored_run(prepared)
    assert (run.status, run.output, run.tool_steps) == ("failed", "", [])
    with scoped_transaction(prepared.scope):
        assert not Artifact.objects.in_scope(prepared.scope).exists()


@pytest.mark.parametrize("strategy", ["rolling", "lossless"])
def test_memory_work_of_a_slow_provider_ends_without_it_185(place: Any, strategy: str) -> None:
    """185 and 184, for rolls and nodes: the model-free way, booked as what it was."""
    server, _, agent, _ = place
    switch(agent, thread_strategy=strategy, policy={"forest_base_tokens": 4000})
    server.answer_with(lambda body: Dribble(data=b"d", every_seconds=0.05))
    thread = new_thread(agent)
    tell(thread, [(f"第{number}个问题" * 60, "回答" * 60) for number in range(14)])
    grow(thread) if strategy == "lossless" else roll(thread)
    kept = nodes_of(thread) if strategy == "lossless" else [summary_of(thread)]
    assert kept
    assert {one.method for one in kept} == {"extractive"}
    assert {op.outcome for op in ops_of(thread)} == {"provider_timeout"}


@pytest.mark.req("A25")
@pytest.mark.parametrize("strategy", ["rolling", "lossless"])
@pytest.mark.parametrize("giant", ["数据结构试卷的题目。" * 20_000, "word " * 60_000])
def test_giant_message_in_the_past_never_fills_the_window_187(
    place: Any, strategy: str, giant: str
) -> None:
    """187: bounded, in what is sent and in what it takes; judged by the real tokenizer."""
    server, tenant, agent, key = place
    switch(agent, thread_strategy=strategy)
    agent.thread_strategy = strategy
    thread = new_thread(agent, make_end_user(tenant, "teacher-7"))
    tell(thread, [("短问题", "短回答"), (giant, giant), ("又一个", "回答")])
    server.answer_with(lambda body: text("done"))
    prepared = prepare(key, agent, "最后的问题", thread.pk)
    assert isinstance(last_of(prepared), Completed)
    asked = [request.body for request in server.requests]
    for body in asked:
        said = "\n".join(message["content"] for message in body["messages"])
        assert estimate(said, kind="tokenizer", model="gpt-4o") <= 8192 - body["max_tokens"]
    users = [one["content"] for one in asked[-1]["messages"] if one["role"] == "user"]
    assert users[-1].endswith("最后的问题")
    shown = "\n".join(message["content"] for message in asked[-1]["messages"])
    assert "又一个" in shown


def test_nothing_to_summarise_asks_nobody_188(place: Any) -> None:
    """188: a summary of no messages."""
    server, _, agent, _ = place
    thread = new_thread(agent)
    roll(thread)
    assert grow(thread) <= 1
    assert (server.requests, summary_of(thread), nodes_of(thread)) == ([], None, [])


@pytest.mark.parametrize("rounds", [0, 1])
def test_key_in_an_error_is_in_no_answer_event_or_log_191(
    stage: Stage, rounds: int, caplog: pytest.LogCaptureFixture
) -> None:
    """191: over JSON and stream, in the first call and in the second round."""
    caplog.set_level(logging.DEBUG)
    with scoped_transaction(scope_of(stage.tenant)):
        stage.agent.tools = ["write_artifact"]
        stage.agent.save()
    refused = status(401, message=SPENT, code=API_KEY)
    for _ in range(2):
        stage.server.script(*[calls(WRITE)] * rounds, refused)

    async def scene(client: AsgiClient) -> tuple[Answer, Any, Any]:
        answer = await client.post(stage.run_path, ASK)
        async with client.stream(stage.stream_path, ASK) as stream:
            await stream.over()
        run_id = answer.json()["run_id"]
        trace = await client.get(f"/v1/runs/{run_id}/trace")
        return answer, [(event.name, event.data) for event in stream.events()], trace.json()

    answer, events, trace = stage.play(scene)
    assert (answer.status, answer.json()["code"]) == (502, "provider_error")
    assert events[-1][0] == "failed"
    runs = [(run.error_code, run.error_detail) for run in stage.runs()]
    for told in (answer.json(), events, trace, runs, [row.getMessage() for row in caplog.records]):
        assert API_KEY[8:30] not in json.dumps(told, ensure_ascii=False, default=str)
