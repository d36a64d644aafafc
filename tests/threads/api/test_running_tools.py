"""Runs with tools over the ASGI handler: their events, their files, going on with another run."""

from __future__ import annotations

import json
import threading
from typing import Any

import pytest

from memory.boundary import CHINESE
from memory.rls import scoped_transaction
from tests.asgi_client import Answer, AsgiClient
from tests.factories import scope_of
from tests.fakes.openai_replies import calls, text
from tests.threads.api.stage import ASK, Stage, code_of, ended
from threads.api.run_events import shown_arguments
from threads.models import Artifact, Message, Run

WRITE = '{"name": "paper.md", "content": "第一题：什么是栈？"}'
SECRET = "ghp_16C7e42F292c6912E7710c838347Ae178B4a"


@pytest.fixture
def tooled(stage: Stage) -> Stage:
    """The stage's agent with tools."""
    stage.agent.tools = ["memory_grep", "view_message", "write_artifact"]
    with scoped_transaction(scope_of(stage.tenant)):
        stage.agent.save()
    return stage


async def streamed(client: AsgiClient, stage: Stage, body: dict[str, Any]) -> list[Any]:
    async with client.stream(stage.stream_path, body) as stream:
        await stream.over()
    events: list[Any] = stream.events()
    return events


@pytest.mark.req("C09")
def test_stream_tells_calls_and_results_between_the_deltas(tooled: Stage) -> None:
    tooled.server.script(
        calls(("write_artifact", WRITE), ("memory_grep", f"not json {SECRET}"), said="稍等。"),
        text("好了。"),
    )

    async def scene(client: AsgiClient) -> Any:
        return await streamed(client, tooled, ASK)

    events = tooled.play(scene)
    names = [event.name for event in events]
    assert names == [
        "started", "context", "delta", "tool_call", "tool_result", "tool_call", "tool_result",
        "delta", "completed",
    ]  # fmt: skip
    first, result, second = events[3].data, events[4].data, events[5].data
    assert first == {"id": first["id"], "name": "write_artifact", "arguments": json.loads(WRITE)}
    assert set(result) == {"id", "reference_id", "summary"}
    assert result["id"] == first["id"]
    assert second["arguments"].startswith("not json [secret:")
    run = events[-1].data
    assert run["output"] == "好了。"
    assert [(file["name"], file["bytes"]) for file in run["artifacts"]] == [
        ("paper.md", len("第一题：什么是栈？".encode()))
    ]
    with scoped_transaction(scope_of(tooled.tenant)):
        rows = Message.objects.in_scope(scope_of(tooled.tenant))
        assert rows.get(pk=result["reference_id"]).role == "tool"


def test_json_run_and_its_later_reading_show_the_same_files_and_steps(tooled: Stage) -> None:
    tooled.server.script(calls(("write_artifact", WRITE)), text("好了。"))

    async def scene(client: AsgiClient) -> Any:
        run = (await client.post(tooled.run_path, ASK)).json()
        again = (await client.get(f"/v1/runs/{run['id']}")).json()
        trace = (await client.get(f"/v1/runs/{run['id']}/trace")).json()
        context = (await client.get(f"/v1/runs/{run['id']}/context")).json()
        listed = (await client.get(f"/v1/threads/{run['thread_id']}/runs")).json()["results"]
        messages = (await client.get(f"/v1/threads/{run['thread_id']}/messages")).json()["results"]
        return run, again, trace, context, listed, messages

    run, again, trace, context, listed, messages = tooled.play(scene)
    assert run == again == listed[0]
    kinds = [step["kind"] for step in trace["steps"]]
    assert kinds[-5:] == ["model", "tool", "precheck", "model", "writeback"]
    asked, answered_by = context["messages"][-2:]
    assert (asked["role"], answered_by["role"]) == ("assistant", "tool")
    assert asked["tool_calls"][0]["id"] == answered_by["tool_call_id"]
    assert set(context["messages"][0]) == {"role", "content"}
    assert [row["role"] for row in messages] == ["user", "assistant", "tool", "assistant"]
    assert messages[2]["tool_call_id"]


@pytest.mark.req("A25")
def test_json_run_refused_on_its_way_answers_422_and_is_replayed(tooled: Stage) -> None:
    tooled.server.script(calls(*[("memory_grep", json.dumps({"query": "字" * 400}))] * 20))

    async def scene(client: AsgiClient) -> list[Answer]:
        headers = {"Idempotency-Key": "one"}
        first = await client.post(tooled.run_path, ASK, headers=headers)
        return [first, await client.post(tooled.run_path, ASK, headers=headers)]

    first, again = tooled.play(scene)
    assert code_of(first) == (422, "context_over_budget")
    assert first.json()["context"]["decision"] == "reject"
    run = tooled.runs()[0]
    assert (first.json()["run_id"], run.status) == (run.pk, "rejected")
    assert again.json()["run_id"] == run.pk
    assert len(tooled.server.requests) == len(tooled.runs()) == 1


@pytest.mark.req("A25")
def test_stream_refused_on_its_way_ends_with_failed(tooled: Stage) -> None:
    tooled.server.script(calls(*[("memory_grep", json.dumps({"query": "字" * 400}))] * 20))

    async def scene(client: AsgiClient) -> Any:
        return await streamed(client, tooled, ASK)

    last = tooled.play(scene)[-1]
    assert (last.name, last.data["code"]) == ("failed", "context_over_budget")
    assert set(last.data) == {"run_id", "code", "detail"}
    assert [run.status for run in tooled.runs()] == ["rejected"]


@pytest.mark.req("A06")
@pytest.mark.req("B13")
def test_client_that_leaves_between_rounds_cancels_and_nothing_is_written(tooled: Stage) -> None:
    tooled.server.script(
        calls(("write_artifact", WRITE)), text("never " * 20, gate=threading.Event(), gate_after=2)
    )

    async def scene(client: AsgiClient) -> None:
        async with client.stream(tooled.stream_path, ASK) as stream:
            await stream.until(b"event: delta")
        await ended(tooled)

    tooled.play(scene)
    run = tooled.runs()[0]
    assert (run.status, run.tool_steps, run.message_count) == ("cancelled", [], 1)
    assert tooled.server.requests[1].client_left.wait(10)
    with scoped_transaction(scope_of(tooled.tenant)):
        assert not Artifact.objects.in_scope(scope_of(tooled.tenant)).exists()


@pytest.mark.req("A12")
def test_only_a_stream_that_names_a_run_goes_on_with_its_files(tooled: Stage) -> None:
    """A thread never binds a workspace by itself, whichever way it is asked."""
    tooled.server.script(calls(("write_artifact", WRITE)), text("好了。"))

    async def scene(client: AsgiClient) -> Any:
        first = (await client.post(tooled.run_path, ASK)).json()
        same = ASK | {"thread_id": first["thread_id"]}
        await client.post(tooled.run_path, same)
        await streamed(client, tooled, same)
        going_on = {"context": {"run_id": first["id"]}}
        refused = await client.post(tooled.run_path, same | going_on)
        events = await streamed(client, tooled, same | going_on)
        elsewhere = await streamed(client, tooled, ASK | going_on)
        return first, refused, events[-1].data, elsewhere[-1].data

    first, refused, continued, elsewhere = tooled.play(scene)
    assert code_of(refused) == (400, "continue_needs_stream")
    stored = {run.pk: run.continues_id for run in tooled.runs()}
    assert list(stored.values()).count(first["id"]) == 2
    assert stored[continued["id"]] == stored[elsewhere["id"]] == first["id"]
    asked = [request.body["messages"][-1]["content"] for request in tooled.server.requests]
    heading = CHINESE.continuable
    assert [heading in content for content in asked[2:]] == [False, False, True, True]


@pytest.mark.parametrize(
    ("written", "shown"),
    [
        ('{"a": 1}', {"a": 1}),
        ("[1]", "[1]"),
        ("", ""),
        ('{"a": NaN}', '{"a": NaN}'),
        ('{"a": "\\ud800"}', '{"a": "\\ud800"}'),
        ('{"a": 1, "a": 2}', '{"a": 1, "a": 2}'),
        ("[" * 5000, "[" * 5000),
    ],
)
def test_arguments_are_an_object_or_the_text_as_it_was_written(written: str, shown: Any) -> None:
    assert shown_arguments(written) == shown


def test_run_that_continues_survives_the_erasing_of_the_first(tooled: Stage) -> None:
    async def scene(client: AsgiClient) -> Any:
        first = (await client.post(tooled.run_path, ASK)).json()
        await streamed(client, tooled, ASK | {"context": {"run_id": first["id"]}})
        return first

    first = tooled.play(scene)
    scope = scope_of(tooled.tenant)
    with scoped_transaction(scope):
        Run.objects.in_scope(scope).filter(pk=first["id"]).delete()
    assert [run.continues_id for run in tooled.runs()] == [None]
