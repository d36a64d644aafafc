"""Runs over the ASGI handler: JSON and streams, disconnects, failures."""

from __future__ import annotations

import asyncio
import threading
from typing import Any

import pytest

from memory.db_threads import in_database_thread
from tests.asgi_client import Answer, AsgiClient
from tests.factories import (
    make_agent,
    make_key,
    make_provider,
    make_tenant,
)
from tests.fakes.openai_replies import status, text
from tests.threads.api.stage import ASK, Stage, code_of, ended


@pytest.mark.req("A05")
def test_run_answers_the_stored_run(stage: Stage) -> None:
    stage.server.script(text("好的，\n试卷如下。"))
    body = ASK | {
        "thread_id": None,
        "facts": [{"label": "库存", "value": "12", "as_of": "2026-06-12T08:00:00Z"}],
        "materials": [{"title": "考试大纲", "content": "…", "source": "wiki", "as_of": None}],
        "metadata": {"channel": "web"},
    }

    async def scene(client: AsgiClient) -> tuple[Answer, Answer]:
        run = await client.post(stage.run_path, body)
        return run, await client.get(f"/v1/runs/{run.json()['id']}")

    run, again = stage.play(scene)
    assert run.status == 200
    assert run.headers["content-type"] == "application/json"
    assert run.headers["cache-control"] == "private, no-store"
    assert run.headers["x-request-id"]
    assert run.json() == again.json()
    shown = run.json()
    assert (shown["output"], shown["status"], shown["seq"]) == (
        "好的，\n试卷如下。",
        "succeeded",
        1,
    )
    assert shown["usage"]["input_tokens"] == 11
    assert [section["name"] for section in shown["context"]["sections"]]
    assert shown["artifacts"] == []


@pytest.mark.req("A05")
def test_stream_tells_started_context_deltas_and_completed(stage: Stage) -> None:
    stage.server.script(text("第一行\n第二行\r\n\u2028end"))

    async def scene(client: AsgiClient) -> Any:
        async with client.stream(
            stage.stream_path, ASK, headers={"Accept": "text/event-stream"}
        ) as stream:
            await stream.over()
            return stream

    stream = stage.play(scene)
    assert stream.status == 200
    assert stream.headers["content-type"] == "text/event-stream"
    assert "no-store" in stream.headers["cache-control"]
    assert stream.headers["x-accel-buffering"] == "no"
    assert stream.headers["x-request-id"]
    events = stream.events()
    assert [event.name for event in events[:2]] == ["started", "context"]
    assert set(events[0].data) == {"run_id", "thread_id", "title"}
    assert {event.name for event in events[2:-1]} == {"delta"}
    assert "".join(event.data["text"] for event in events[2:-1]) == "第一行\n第二行\r\n\u2028end"
    assert events[-1].name == "completed"
    assert events[-1].data["id"] == events[0].data["run_id"]
    assert events[-1].data["output"] == "第一行\n第二行\r\n\u2028end"


def test_stream_accepts_any_accept_header(stage: Stage) -> None:
    async def scene(client: AsgiClient) -> list[int]:
        statuses = []
        for accept in ("*/*", "application/json", "text/html", "nonsense"):
            answer = await client.post(stage.stream_path, ASK, headers={"Accept": accept})
            statuses.append(answer.status)
        return statuses

    assert stage.play(scene) == [200] * 4


@pytest.mark.req("A05")
def test_silent_stream_sends_heartbeats_and_loses_nothing(stage: Stage, settings: Any) -> None:
    settings.CREDENCE_STREAM_HEARTBEAT_SECONDS = 0.05
    gate = threading.Event()
    stage.server.script(text("after the silence", gate=gate))

    async def scene(client: AsgiClient) -> Any:
        async with client.stream(stage.stream_path, ASK) as stream:
            await stream.until(b": keep-alive\n\n: keep-alive\n\n")
            gate.set()
            await stream.over()
            return stream

    events = stage.play(scene).events()
    assert events[-1].data["output"] == "after the silence"


@pytest.mark.req("A05")
def test_provider_failures_answer_502_with_the_failed_run(stage: Stage) -> None:
    stage.server.answer_with(lambda body: status(400))

    async def scene(client: AsgiClient) -> tuple[Answer, Any]:
        answer = await client.post(stage.run_path, ASK)
        async with client.stream(stage.stream_path, ASK) as stream:
            await stream.over()
        return answer, stream

    answer, stream = stage.play(scene)
    assert code_of(answer) == (502, "provider_error")
    failed = {run.pk: run for run in stage.runs()}
    assert failed[answer.json()["run_id"]].status == "failed"
    last = stream.events()[-1]
    assert (last.name, set(last.data)) == ("failed", {"run_id", "code", "detail"})
    assert last.data["code"] == "provider_error"


def test_provider_timeout_answers_504(stage: Stage) -> None:
    slow = make_provider(
        stage.tenant,
        kind="openai_compatible",
        base_url=stage.server.base_url,
        locality="local",
        timeouts={"first_token": 0.2, "total": 0.3},
    )
    agent = make_agent(stage.tenant, slow, model="fake-1")
    stage.server.answer_with(lambda body: text("late", first_delay_seconds=5))

    async def scene(client: AsgiClient) -> Answer:
        return await client.post(f"/v1/agents/{agent.pk}/run", ASK)

    answer = stage.play(scene)
    assert code_of(answer) == (504, "provider_timeout")
    assert answer.json()["run_id"] == stage.runs()[0].pk


@pytest.mark.req("A06")
def test_client_that_leaves_a_stream_cancels_the_run_and_the_provider_call(stage: Stage) -> None:
    stage.server.script(text("a long answer " * 20, gate=threading.Event(), gate_after=3))

    async def scene(client: AsgiClient) -> None:
        async with client.stream(stage.stream_path, ASK) as stream:
            await stream.until(b"event: delta")
        await ended(stage)

    stage.play(scene)
    assert [run.status for run in stage.runs()] == ["cancelled"]
    assert stage.server.requests[0].client_left.wait(10)


@pytest.mark.req("A06")
def test_client_that_leaves_a_json_run_leaves_it_to_complete(stage: Stage) -> None:
    gate = threading.Event()
    stage.server.script(text("finished anyway", gate=gate))

    async def scene(client: AsgiClient) -> None:
        serving = asyncio.create_task(client.post(stage.run_path, ASK))
        await asyncio.to_thread(stage.server.wait_for_requests, 1)
        serving.cancel()
        gate.set()
        await ended(stage)

    stage.play(scene)
    assert [(run.status, run.output) for run in stage.runs()] == [("succeeded", "finished anyway")]


def test_cancel_call_ends_a_json_run_that_is_waited_for(stage: Stage) -> None:
    stage.server.script(text("never", gate=threading.Event()))

    async def scene(client: AsgiClient) -> tuple[Answer, Answer]:
        waiting = asyncio.create_task(client.post(stage.run_path, ASK))
        await asyncio.to_thread(stage.server.wait_for_requests, 1)
        run = (await in_database_thread(stage.runs))[0]
        cancelled = await client.post(f"/v1/runs/{run.pk}/cancel")
        return cancelled, await waiting

    cancelled, waited = stage.play(scene)
    assert (cancelled.status, cancelled.json()["status"]) == (200, "cancelled")
    assert code_of(waited) == (409, "run_cancelled")
    assert waited.json()["run_id"] == cancelled.json()["id"]


def test_run_is_audited_in_usage_and_its_trace_is_readable(stage: Stage) -> None:
    async def scene(client: AsgiClient) -> list[Any]:
        run = (await client.post(stage.run_path, ASK)).json()
        paths = ("trace", "context")
        found = [(await client.get(f"/v1/runs/{run['id']}/{path}")).json() for path in paths]
        usage = (await client.get("/v1/usage?group_by=agent")).json()
        return [*found, usage]

    trace, context, usage = stage.play(scene)
    assert {"scope", "precheck", "assemble", "model"} <= {step["kind"] for step in trace["steps"]}
    assert context["messages"][-1]["content"].endswith(ASK["input"])
    assert usage["results"][0]["runs"]["count"] == 1


@pytest.mark.req("B18")
def test_case_20_alternating_tenants_and_leaving_clients_cross_nothing(stage: Stage) -> None:
    """Streams of two tenants over few database threads; every third client leaves half-way."""
    other = make_tenant()
    provider = make_provider(
        other, kind="openai_compatible", base_url=stage.server.base_url, locality="local"
    )
    agent, key = make_agent(other, provider, model="fake-1"), make_key(other)
    sides = (
        (stage.stream_path, stage.key.headers, "CNRY-A"),
        (f"/v1/agents/{agent.pk}/run/stream", key.headers, "CNRY-B"),
    )

    async def one(client: AsgiClient, number: int) -> None:
        path, headers, canary = sides[number % 2]
        stranger = sides[(number + 1) % 2][2]
        body = {"input": f"{canary} {number}", "user_id": "same-user"}
        async with client.stream(path, body, headers=headers) as stream:
            await stream.until(b"event: context")
            if number % 3:
                await stream.over()
        assert stream.status == 200
        assert stranger.encode() not in stream.raw

    async def scene(client: AsgiClient) -> None:
        for _ in range(4):
            await asyncio.gather(*(one(client, number) for number in range(12)))
        for _, headers, canary in sides:
            found = (await client.get("/v1/users", headers=headers)).json()["results"]
            assert [row["user_id"] for row in found if row["user_id"] == "same-user"] == [
                "same-user"
            ], canary

    stage.play(scene)
