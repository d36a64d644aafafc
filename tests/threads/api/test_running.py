"""Runs over the ASGI handler: JSON and streams, idempotency, disconnects, failures."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Coroutine, Iterator
from dataclasses import dataclass
from datetime import timedelta
from typing import Any

import pytest
from django.test import RequestFactory
from django.utils import timezone

from memory.db_threads import in_database_thread
from memory.models import EndUser, Tenant
from memory.providers import registry
from memory.rls import scoped_transaction
from tests.asgi_client import Answer, AsgiClient, events_of
from tests.factories import (
    MadeKey,
    make_agent,
    make_end_user,
    make_key,
    make_provider,
    make_tenant,
    make_thread,
    scope_of,
)
from tests.fakes.openai_replies import status, text
from tests.fakes.openai_server import FakeOpenAI, echo
from threads.api.running import RunCall, drive_stream
from threads.models import Agent, IdempotencyRecord, Run
from threads.pipeline import PreparedRun
from threads.prompt import RunRequest

ASK = {"input": "出一份数据结构试卷", "user_id": "teacher-7"}


@dataclass
class Stage:
    """A tenant whose agent talks to a scripted server."""

    server: FakeOpenAI
    tenant: Tenant
    agent: Agent
    key: MadeKey
    person: EndUser

    @property
    def run_path(self) -> str:
        return f"/v1/agents/{self.agent.pk}/run"

    @property
    def stream_path(self) -> str:
        return f"{self.run_path}/stream"

    def runs(self) -> list[Run]:
        scope = scope_of(self.tenant)
        with scoped_transaction(scope):
            return list(Run.objects.in_scope(scope).order_by("created_at", "id"))

    def records(self) -> list[IdempotencyRecord]:
        scope = scope_of(self.tenant)
        with scoped_transaction(scope):
            return list(IdempotencyRecord.objects.in_scope(scope))

    def age_records(self, **values: Any) -> None:
        scope = scope_of(self.tenant)
        with scoped_transaction(scope):
            IdempotencyRecord.objects.in_scope(scope).update(**values)

    def play(self, scene: Callable[[AsgiClient], Coroutine[Any, Any, Any]]) -> Any:
        """Run a coroutine against a fresh client, in a loop of its own."""

        async def whole() -> Any:
            client = AsgiClient(self.key.headers)
            try:
                return await scene(client)
            finally:
                await registry.close_loop()

        return asyncio.run(whole())


@pytest.fixture
def stage(committed_db: None) -> Iterator[Stage]:
    with FakeOpenAI() as server:
        tenant = make_tenant()
        provider = make_provider(
            tenant, kind="openai_compatible", base_url=server.base_url, locality="local"
        )
        agent = make_agent(tenant, provider, model="fake-1")
        yield Stage(server, tenant, agent, make_key(tenant), make_end_user(tenant, "teacher-7"))


async def ended(stage: Stage) -> None:
    """Wait until the only run has ended; that is in the database, where nothing can be awaited."""
    for _ in range(500):
        if (await in_database_thread(stage.runs))[0].status != "running":
            return
        await asyncio.sleep(0.02)
    raise TimeoutError


def code_of(answer: Answer) -> tuple[int, str]:
    assert answer.headers["content-type"] == "application/problem+json"
    assert answer.headers["x-request-id"] == answer.json()["request_id"]
    return answer.status, answer.json()["code"]


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


@pytest.mark.parametrize(
    ("change", "expected"),
    [
        ({"thread_id": "default"}, (400, "thread_mismatch")),
        ({"thread_id": "th_01jd0000000000000000000000"}, (400, "thread_mismatch")),
        ({"context": {"run_id": "run_01jd0000000000000000000000"}}, (400, "run_mismatch")),
        ({"context": {"run_id": "x"}}, (400, "run_mismatch")),
        ({"context": {"other": 1}}, (400, "unknown_field")),
        ({"user_id": "usr_01jd0000000000000000000000"}, (400, "reserved_user_id")),
        ({"input": ""}, (400, "invalid")),
        ({"input": "问" * 20_000}, (422, "context_over_budget")),
    ],
)
def test_refusals_are_problems_on_both_paths(
    stage: Stage, change: dict[str, Any], expected: tuple[int, str]
) -> None:
    async def scene(client: AsgiClient) -> list[Answer]:
        return [
            await client.post(path, ASK | change) for path in (stage.run_path, stage.stream_path)
        ]

    for answer in stage.play(scene):
        assert code_of(answer) == expected
        if expected[0] == 422:
            assert answer.json()["context"]["decision"] == "reject"
            assert answer.json()["run_id"] in [run.pk for run in stage.runs()]
    assert stage.server.requests == []


def test_case_5_a_thread_id_made_by_the_client_is_refused_in_both_tenants(stage: Stage) -> None:
    other = make_tenant()
    agent, key = make_agent(other), make_key(other)

    async def scene(client: AsgiClient) -> list[Answer]:
        mine = await client.post(stage.run_path, ASK | {"thread_id": "default"})
        theirs = await client.post(
            f"/v1/agents/{agent.pk}/run", ASK | {"thread_id": "default"}, headers=key.headers
        )
        return [mine, theirs]

    bodies = set()
    for answer in stage.play(scene):
        assert code_of(answer) == (400, "thread_mismatch")
        bodies.add(answer.body.replace(answer.headers["x-request-id"].encode(), b"ID"))
    assert len(bodies) == 1


def test_foreign_threads_look_like_unknown_ones(stage: Stage) -> None:
    other = make_tenant()
    foreign = make_thread(make_agent(other), make_end_user(other))
    other_user = make_thread(stage.agent, make_end_user(stage.tenant, "someone"))
    other_agent = make_thread(make_agent(stage.tenant), stage.person)
    wanted = ("th_01jd0000000000000000000000", foreign.pk, other_user.pk, other_agent.pk)

    async def scene(client: AsgiClient) -> list[Answer]:
        return [await client.post(stage.run_path, ASK | {"thread_id": one}) for one in wanted]

    bodies = set()
    for answer in stage.play(scene):
        assert code_of(answer) == (400, "thread_mismatch")
        bodies.add(answer.body.replace(answer.headers["x-request-id"].encode(), b"ID"))
    assert len(bodies) == 1


def test_case_7_run_for_another_person_than_the_keys_answers_403(stage: Stage) -> None:
    key = make_key(stage.tenant, ("run",), end_user_id=stage.person.pk)

    async def scene(client: AsgiClient) -> list[Answer]:
        return [
            await client.post(path, ASK | {"user_id": user_id}, headers=key.headers)
            for path in (stage.run_path, stage.stream_path)
            for user_id in ("someone-else", "teacher-7")
        ]

    found = stage.play(scene)
    assert [answer.status for answer in found] == [403, 200, 403, 200]
    assert code_of(found[0]) == (403, "forbidden")


def test_continuing_a_run_needs_the_stream_and_a_run_of_this_person(stage: Stage) -> None:
    async def scene(client: AsgiClient) -> list[Answer]:
        first = (await client.post(stage.run_path, ASK)).json()
        again = ASK | {"context": {"run_id": first["id"]}}
        return [
            await client.post(stage.run_path, again),
            await client.post(stage.stream_path, again | {"user_id": "someone-else"}),
            await client.post(stage.stream_path, again),
        ]

    on_json, of_other, on_stream = stage.play(scene)
    assert code_of(on_json) == (400, "continue_needs_stream")
    assert code_of(of_other) == (400, "run_mismatch")
    assert on_stream.status == 200


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


@pytest.mark.req("A11")
def test_case_130_same_key_in_parallel_makes_one_run(stage: Stage) -> None:
    gate = threading.Event()
    stage.server.script(text("once", gate=gate))
    headers = {"Idempotency-Key": "k1"}

    async def scene(client: AsgiClient) -> list[Answer]:
        first = asyncio.create_task(client.post(stage.run_path, ASK, headers=headers))
        await asyncio.to_thread(stage.server.wait_for_requests, 1)
        rest = [
            asyncio.create_task(client.post(stage.run_path, ASK, headers=headers)) for _ in range(9)
        ]
        # More waiters than database threads: a request without a key must still get through.
        assert (await client.get("/v1/users")).status == 200
        gate.set()
        return [await first, *[await one for one in rest]]

    answers = stage.play(scene)
    assert {answer.status for answer in answers} == {200}
    assert len({answer.body for answer in answers}) == 1
    assert [answer.headers.get("idempotency-replayed") for answer in answers[1:]] == ["true"] * 9
    assert len(stage.runs()) == len(stage.server.requests) == 1


@pytest.mark.req("A11")
def test_case_130_replay_conflict_expiry_and_failure(stage: Stage) -> None:
    headers = {"Idempotency-Key": "k1"}

    async def scene(client: AsgiClient) -> None:
        first = await client.post(stage.run_path, ASK, headers=headers)
        again = await client.post(stage.run_path, ASK, headers=headers)
        assert (first.status, again.body) == (200, first.body)
        other = await client.post(stage.run_path, ASK | {"input": "other"}, headers=headers)
        assert code_of(other) == (409, "idempotency_conflict")
        on_stream = await client.post(stage.stream_path, ASK, headers=headers)
        assert code_of(on_stream) == (409, "idempotency_conflict")
        await in_database_thread(
            lambda: stage.age_records(created_at=timezone.now() - timedelta(hours=24, minutes=1))
        )
        late = await client.post(stage.run_path, ASK, headers=headers)
        assert late.status == 200
        assert late.json()["id"] != first.json()["id"]
        stage.server.answer_with(lambda body: status(400))
        failing = {"Idempotency-Key": "k2"}
        assert (await client.post(stage.run_path, ASK, headers=failing)).status == 502
        stage.server.answer_with(echo)
        assert (await client.post(stage.run_path, ASK, headers=failing)).status == 200
        refused = [
            await client.post(
                stage.run_path, ASK | {"thread_id": "x"}, headers={"Idempotency-Key": "k3"}
            )
            for _ in range(2)
        ]
        assert refused[0].body == refused[1].body
        assert code_of(refused[0]) == (400, "thread_mismatch")

    stage.play(scene)


@pytest.mark.req("A11")
def test_stream_replays_started_and_completed(stage: Stage) -> None:
    headers = {"Idempotency-Key": "s1"}

    async def scene(client: AsgiClient) -> list[Any]:
        return [await client.post(stage.stream_path, ASK, headers=headers) for _ in range(2)]

    first, again = stage.play(scene)
    assert [event.name for event in events_of(again.body)] == ["started", "completed"]
    assert events_of(again.body)[0] == events_of(first.body)[0]
    assert events_of(again.body)[-1] == events_of(first.body)[-1]
    assert len(stage.runs()) == 1


@pytest.mark.req("A11")
def test_stream_that_was_left_frees_its_key(stage: Stage) -> None:
    stage.server.script(text("never", gate=threading.Event()))
    headers = {"Idempotency-Key": "s2"}

    async def scene(client: AsgiClient) -> Answer:
        async with client.stream(stage.stream_path, ASK, headers=headers) as stream:
            await stream.until(b"event: context")
        return await client.post(stage.stream_path, ASK, headers=headers)

    assert stage.play(scene).status == 200
    assert sorted(run.status for run in stage.runs()) == ["cancelled", "succeeded"]


def test_case_17_the_same_key_of_two_principals_is_two_keys(stage: Stage) -> None:
    other = make_key(stage.tenant)

    async def scene(client: AsgiClient) -> list[Answer]:
        return [
            await client.post(stage.run_path, ASK, headers={"Idempotency-Key": "k1", **key.headers})
            for key in (stage.key, other)
        ]

    first, second = stage.play(scene)
    assert first.json()["id"] != second.json()["id"]


def test_crash_after_the_run_succeeded_replays_it_and_before_frees_the_key(stage: Stage) -> None:
    headers = {"Idempotency-Key": "k1"}
    past = timezone.now() - timedelta(seconds=1)

    async def scene(client: AsgiClient) -> None:
        first = await client.post(stage.run_path, ASK, headers=headers)
        await in_database_thread(
            lambda: stage.age_records(status_code=None, run_id=first.json()["id"], lease_until=past)
        )
        again = await client.post(stage.run_path, ASK, headers=headers)
        assert again.json()["id"] == first.json()["id"]
        await in_database_thread(
            lambda: stage.age_records(status_code=None, run_id="", lease_until=past)
        )
        fresh = await client.post(stage.run_path, ASK, headers=headers)
        assert fresh.json()["id"] != first.json()["id"]

    stage.play(scene)


def test_case_110_chunked_body_without_a_length_is_read(stage: Stage) -> None:
    chunks = [b'{"input": "he', b'llo", "user_id"', b': "teacher-7"}']

    async def scene(client: AsgiClient) -> Answer:
        return await client.request("POST", stage.run_path, chunks=chunks)

    answer = stage.play(scene)
    assert (answer.status, answer.json()["input"]) == (200, "hello")


def test_case_109_body_over_the_limit_answers_413(stage: Stage) -> None:
    big = b'{"input": "' + b"x" * (3 * 1024 * 1024) + b'"}'

    async def scene(client: AsgiClient) -> list[Answer]:
        stated = await client.request("POST", stage.run_path, body=big)
        chunked = await client.request("POST", stage.run_path, chunks=[big[:1000], big[1000:]])
        return [stated, chunked]

    for answer in stage.play(scene):
        assert (answer.status, answer.json()["code"]) == (413, "body_too_large")


@pytest.mark.req("A04")
def test_archived_thread_takes_no_runs(stage: Stage) -> None:
    async def scene(client: AsgiClient) -> Answer:
        thread_id = (await client.post(stage.run_path, ASK)).json()["thread_id"]
        await client.post(f"/v1/threads/{thread_id}/archive")
        return await client.post(stage.run_path, ASK | {"thread_id": thread_id})

    assert code_of(stage.play(scene)) == (409, "thread_archived")


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


def test_stream_whose_client_left_before_it_began_ends_its_run(stage: Stage) -> None:
    request = RequestFactory().post(stage.stream_path, b"{}", "application/json")
    call = RunCall(
        request=request,
        principal=stage.key.principal,
        agent_id=stage.agent.pk,
        asked=RunRequest(input="hi", user_id="teacher-7"),
        key="k9",
    )
    prepared = call.begin()
    assert isinstance(prepared, PreparedRun)
    drive_stream(call, prepared).close()
    assert [run.status for run in stage.runs()] == ["cancelled"]
    assert stage.records() == []
    assert stage.server.requests == []


@pytest.mark.req("A22")
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
