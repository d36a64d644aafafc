"""Idempotency-Key on runs and streams."""

from __future__ import annotations

import asyncio
import threading
from datetime import timedelta
from typing import Any

from django.test import RequestFactory
from django.utils import timezone

from memory.db_threads import in_database_thread
from tests.asgi_client import Answer, AsgiClient, events_of
from tests.factories import (
    make_key,
)
from tests.fakes.openai_replies import status, text
from tests.fakes.openai_server import echo
from tests.threads.api.stage import ASK, Stage, code_of
from threads.api.running import RunCall, drive_stream
from threads.pipeline import PreparedRun
from threads.request import RunRequest


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


def test_stream_replays_started_and_completed(stage: Stage) -> None:
    headers = {"Idempotency-Key": "s1"}

    async def scene(client: AsgiClient) -> list[Any]:
        return [await client.post(stage.stream_path, ASK, headers=headers) for _ in range(2)]

    first, again = stage.play(scene)
    assert [event.name for event in events_of(again.body)] == ["started", "completed"]
    assert events_of(again.body)[0] == events_of(first.body)[0]
    assert events_of(again.body)[-1] == events_of(first.body)[-1]
    assert len(stage.runs()) == 1


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


def test_run_that_still_holds_its_lease_is_waited_for_although_the_keys_ran_out(
    stage: Stage,
) -> None:
    """Rounds of tools renew the run's lease, which may then outlive the one of its key."""
    headers = {"Idempotency-Key": "k1"}
    past = timezone.now() - timedelta(seconds=1)
    gate = threading.Event()
    stage.server.script(text("one answer", gate=gate))

    async def scene(client: AsgiClient) -> list[Answer]:
        first = asyncio.create_task(client.post(stage.run_path, ASK, headers=headers))
        await asyncio.to_thread(stage.server.wait_for_requests, 1)
        await in_database_thread(lambda: stage.age_records(lease_until=past))
        second = asyncio.create_task(client.post(stage.run_path, ASK, headers=headers))
        await asyncio.sleep(0.3)
        gate.set()
        return [await first, await second]

    first, second = stage.play(scene)
    assert first.json()["id"] == second.json()["id"]
    assert len(stage.runs()) == 1


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
