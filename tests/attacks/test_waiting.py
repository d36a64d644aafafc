"""Cases 146 and 154: who waits, waits without taking anybody else along."""

from __future__ import annotations

import asyncio
import threading
from typing import Any

import pytest
from django.db import connection

from memory.rls import scoped_transaction
from tests.asgi_client import AsgiClient
from tests.factories import NOW, make_agent, make_end_user, make_tenant, make_thread, scope_of
from tests.fakes.openai_replies import text
from tests.threads.api.stage import ASK, Stage
from threads.models import Run, Thread
from threads.turns import RecordedTurn, record_turn

IDLE = 40


def test_case_146_writer_behind_a_long_lock_on_the_thread_waits_and_writes_once(
    committed_db: None,
) -> None:
    tenant = make_tenant()
    thread = make_thread(make_agent(tenant), make_end_user(tenant))
    scope, errors, begun = scope_of(tenant), [], threading.Event()

    def write() -> None:
        try:
            begun.set()
            turn = RecordedTurn(input="q", output="a", created_at=NOW)
            record_turn(scope=scope, thread_id=thread.pk, turn=turn, now=NOW)
        except Exception as error:  # noqa: BLE001 - told by the test's own thread
            errors.append(error)
        finally:
            connection.close()

    writer = threading.Thread(target=write)
    with scoped_transaction(scope):
        Thread.objects.in_scope(scope).select_for_update().get(pk=thread.pk)
        writer.start()
        begun.wait(timeout=10)
        writer.join(timeout=0.5)
        assert writer.is_alive()
        assert not Run.objects.in_scope(scope).exists()
    writer.join(timeout=20)
    assert (writer.is_alive(), errors) == (False, [])
    with scoped_transaction(scope):
        assert Run.objects.in_scope(scope).count() == 1


@pytest.mark.req("A05")
def test_case_154_forty_streams_that_wait_leave_the_server_answering(stage: Stage) -> None:
    """They hold no database thread while the model thinks."""
    gate = threading.Event()
    stage.server.answer_with(lambda _: text("so far", gate=gate))

    async def scene(client: AsgiClient) -> Any:
        arrived = asyncio.Semaphore(0)

        async def wait(number: int) -> bytes:
            body = {**ASK, "user_id": f"person-{number}"}
            async with client.stream(stage.stream_path, body) as stream:
                await stream.until(b"event: context")
                arrived.release()
                return await stream.over()

        waiting = [asyncio.ensure_future(wait(number)) for number in range(IDLE)]
        for _ in range(IDLE):
            await arrived.acquire()
        answer = await client.get("/v1/users?limit=200")
        gate.set()
        return answer, await asyncio.gather(*waiting)

    answer, streams = stage.play(scene)
    assert (answer.status, len(answer.json()["results"])) == (200, IDLE + 1)
    assert all(b"event: completed" in stream for stream in streams)
