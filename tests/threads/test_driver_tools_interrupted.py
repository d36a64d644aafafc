"""Runs that end in the middle of their tools: nothing of what the tools did is written."""

from __future__ import annotations

import asyncio
import threading
from datetime import timedelta
from typing import Any

import pytest
from django.utils import timezone

from memory.conf import run_lease_seconds
from memory.db_threads import in_database_thread
from memory.providers import registry
from memory.rls import scoped_transaction
from tests.fakes.openai_replies import Answer, Body, calls, status, text, tool_call
from tests.fakes.openai_server import FakeOpenAI
from tests.talking import last_of, prepare, stored_run
from tests.threads.tooled import WRITE, equipped, messages_stored, scripted, trace_of
from threads import finish
from threads.driver import RunDriver
from threads.events import Cancelled, Completed, Failed, ToolCalled, ToolReturned
from threads.models import Artifact, Run


def nothing_left(prepared: Any, ended: str) -> None:
    """Nothing but the question and the trace of what was tried."""
    run = stored_run(prepared)
    assert (run.status, run.output, run.tool_steps) == (ended, "", [])
    assert run.message_count == 1
    assert [row.role for row in messages_stored(prepared)] == ["user"]
    with scoped_transaction(prepared.scope):
        assert not Artifact.objects.in_scope(prepared.scope).exists()


@pytest.mark.req("B13")
@pytest.mark.req("B21")
@pytest.mark.parametrize(
    "reply",
    [
        status(404),
        Body(content=b"<html>", headers={"content-type": "text/html"}),
        Body(content=b""),
        Body(content=b"null"),
        Body(content=b'{"choices": [{"mess'),
        Body(content=b'{"choices": [{"message": {"tool_calls": [1]}}]}'),
        Body(content=b'{"choices": 3}'),
        text(""),
        Answer(deltas=[], finish="length"),
        Answer(deltas=[], extra=[{"reasoning_content": "thinking"}]),
        Answer(deltas=[], extra=[{"refusal": "I can not help with that."}]),
        Answer(deltas=("PARTIAL",), finish="content_filter"),
        Answer(deltas=[], tool_calls=[tool_call("", "{}")], finish="tool_calls"),
    ],
)
def test_fault_in_the_second_round_writes_nothing_184(
    world: Any, server: FakeOpenAI, reply: Any
) -> None:
    """184, in the second round."""
    _, key, agent = world
    server.script(calls(("write_artifact", WRITE)), reply)
    prepared = equipped(prepare(key, agent, "hi"))
    last = last_of(prepared)
    assert isinstance(last, Failed)
    assert last.code == "provider_error"
    nothing_left(prepared, "failed")
    steps = trace_of(prepared).steps
    assert [step["kind"] for step in steps[-4:]] == ["model", "tool", "precheck", "model"]
    assert steps[-1]["data"]["error_code"] == "provider_error"


@pytest.mark.parametrize("round_number", [1, 2])
def test_finish_length_with_text_is_an_answer_in_any_round_184(
    world: Any, server: FakeOpenAI, round_number: int
) -> None:
    """184: cut off at the limit, but an answer; the trace says so."""
    _, key, agent = world
    if round_number == 2:
        server.script(calls(("write_artifact", WRITE)))
    server.script(text("half an ans", finish="length"))
    prepared = equipped(prepare(key, agent, "hi"))
    assert isinstance(last_of(prepared), Completed)
    models = [step for step in trace_of(prepared).steps if step["kind"] == "model"]
    assert models[-1]["data"]["finish_reason"] == "length"


def test_call_cut_off_at_the_limit_is_an_error_result_and_the_run_goes_on_184(
    world: Any, server: FakeOpenAI
) -> None:
    """184: arguments that end in the middle are answered with an error, not with a guess."""
    _, key, agent = world
    server.script(calls(("write_artifact", WRITE[:20]), finish="length"), text("sorry"))
    prepared = equipped(prepare(key, agent, "hi"))
    assert isinstance(last_of(prepared), Completed)
    assert messages_stored(prepared)[2].content.startswith("Error")
    assert stored_run(prepared).shown_artifacts == []


def driven(prepared: Any, until: type) -> Any:
    """Drive a run, cancel it at the first event of a kind, and return its end."""

    async def drive() -> Any:
        driver = RunDriver(prepared).start()
        async for event in driver.events():
            if isinstance(event, until):
                driver.cancel()
                break
        return await asyncio.wait_for(driver.outcome(), 15)

    return registry.run(drive())


@pytest.mark.req("B13")
def test_cancel_during_a_tool_ends_cancelled_and_writes_nothing(
    world: Any, server: FakeOpenAI
) -> None:
    _, key, agent = world
    server.script(calls(("look", "{}")))
    go_on = threading.Event()

    def slow(call: Any) -> str:
        go_on.wait(10)
        return "late"

    prepared, _ = scripted(prepare(key, agent, "hi"), slow)
    try:
        last = driven(prepared, ToolCalled)
    finally:
        go_on.set()
    assert isinstance(last, Cancelled)
    nothing_left(prepared, "cancelled")
    assert [step["kind"] for step in trace_of(prepared).steps][-1] == "model"
    assert len(server.requests) == 1


@pytest.mark.req("B13")
def test_cancel_between_rounds_closes_the_next_call_and_writes_nothing(
    world: Any, server: FakeOpenAI
) -> None:
    _, key, agent = world
    server.script(calls(("write_artifact", WRITE)), text("never", gate=threading.Event()))
    prepared = equipped(prepare(key, agent, "hi"))
    last = driven(prepared, ToolReturned)
    assert isinstance(last, Cancelled)
    nothing_left(prepared, "cancelled")


def test_lease_is_renewed_before_each_further_call(world: Any, server: FakeOpenAI) -> None:
    _, key, agent = world
    leases: list[Any] = []

    def expire(call: Any) -> str:
        rows = Run.objects.in_scope(prepared.scope)
        with scoped_transaction(prepared.scope):
            rows.update(lease_until=timezone.now() - timedelta(seconds=5))
        return "found"

    prepared, _ = scripted(prepare(key, agent, "hi"), expire)
    gate = threading.Event()
    server.script(calls(("look", "{}")), text("ok", gate=gate))

    async def drive() -> Any:
        driver = RunDriver(prepared).start()
        await asyncio.to_thread(server.wait_for_requests, 2)
        run = await in_database_thread(lambda: stored_run(prepared))
        leases.append(run.lease_until)
        gate.set()
        return await driver.outcome()

    assert isinstance(registry.run(drive()), Completed)
    assert leases[0] > timezone.now() + timedelta(seconds=run_lease_seconds() - 60)


def test_run_ended_elsewhere_during_a_tool_makes_no_further_call(
    world: Any, server: FakeOpenAI
) -> None:
    _, key, agent = world
    server.script(calls(("look", "{}")))

    def swept(call: Any) -> str:
        assert finish.fail(prepared=prepared, code="interrupted", detail="", now=timezone.now())
        return "found"

    prepared, _ = scripted(prepare(key, agent, "hi"), swept)
    last = last_of(prepared)
    assert isinstance(last, Failed | Cancelled)
    assert len(server.requests) == 1
    nothing_left(prepared, "failed")
    assert stored_run(prepared).error_code == "interrupted"


def test_lease_is_renewed_between_the_many_tools_of_one_answer(
    world: Any, server: FakeOpenAI, settings: Any
) -> None:
    """A run that was ended meanwhile calls none of the tools that are left."""
    settings.CREDENCE_RUN_LEASE_SECONDS = 0
    _, key, agent = world
    server.script(calls(*[("look", "{}")] * 5))

    def swept(call: Any) -> str:
        assert finish.fail(prepared=prepared, code="interrupted", detail="", now=timezone.now())
        return "found"

    prepared, box = scripted(prepare(key, agent, "hi"), swept)
    assert isinstance(last_of(prepared), Failed)
    assert len(box.calls) == 1
    nothing_left(prepared, "failed")


def test_tool_that_breaks_ends_the_run_without_telling_why(world: Any, server: FakeOpenAI) -> None:
    _, key, agent = world
    server.script(calls(("look", "{}")))

    def broken(call: Any) -> str:
        raise ZeroDivisionError("what was asked")

    prepared, _ = scripted(prepare(key, agent, "hi"), broken)
    last = last_of(prepared)
    assert isinstance(last, Failed)
    assert (last.code, last.detail) == ("internal_error", "The run could not be completed.")
    nothing_left(prepared, "failed")
