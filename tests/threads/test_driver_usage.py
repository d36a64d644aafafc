"""What a run spent is booked however it ends, and a run ended elsewhere keeps what it did."""

from __future__ import annotations

import asyncio
import json
import threading
from collections.abc import Callable
from decimal import Decimal
from typing import Any

import pytest
from django.utils import timezone

from memory.db_threads import in_database_thread
from memory.providers import registry
from memory.rls import scoped_transaction
from tests.factories import scope_of
from tests.fakes.openai_replies import Answer, Body, calls, status, text, tool_call
from tests.fakes.openai_server import FakeOpenAI
from tests.talking import last_of, learned, prepare, stored_run
from tests.threads.tooled import messages_stored, scripted, trace_of
from threads import finish, runs, usage
from threads.driver import RunDriver
from threads.events import Cancelled, Delta, Failed, ToolReturned
from threads.models import Artifact, Run
from threads.runs import Spent

LOOK = ("look", "{}")


def spent_of(run: Run) -> tuple[int, int, str]:
    """Tokens in, tokens out, the model."""
    return run.input_tokens, run.output_tokens, run.model


def make_it_cost(tenant: Any, agent: Any) -> None:
    """Let the agent's calls have a price: those of a cloud whose models are listed."""
    agent.provider.locality, agent.provider.vendor = "cloud", "openai"
    with scoped_transaction(scope_of(tenant)):
        agent.provider.save()


def reported(key: Any) -> tuple[int, int, Decimal]:
    """What the usage report says of all runs."""
    total = usage.report(principal=key.principal).total.runs
    return total.input_tokens, total.output_tokens, total.cost_usd


def test_failed_run_books_the_calls_that_ended(world: Any, server: FakeOpenAI) -> None:
    _, key, agent = world
    server.script(calls(LOOK, usage=(100, 20)), calls(LOOK, usage=(200, 30)), status(404))
    prepared, _ = scripted(prepare(key, agent, "hi"), lambda call: "found")
    assert isinstance(last_of(prepared), Failed)
    assert spent_of(stored_run(prepared)) == (300, 50, "fake-1")
    assert reported(key)[:2] == (300, 50)


def test_cost_of_a_failed_run_is_in_the_report(world: Any, server: FakeOpenAI) -> None:
    tenant, key, agent = world
    make_it_cost(tenant, agent)
    said = {"role": "assistant", "tool_calls": [tool_call(*LOOK)]}
    counted = {"prompt_tokens": 1000, "completion_tokens": 100}
    whole = {
        "model": "gpt-4o-mini",
        "choices": [{"index": 0, "message": said, "finish_reason": "tool_calls"}],
        "usage": counted,
    }
    server.script(Body(content=json.dumps(whole).encode()), status(404))
    prepared, _ = scripted(prepare(key, agent, "hi"), lambda call: "found")
    assert isinstance(last_of(prepared), Failed)
    run = stored_run(prepared)
    assert run.is_cost_known
    assert run.cost_usd > 0
    assert reported(key) == (1000, 100, run.cost_usd)


def test_rejected_run_books_what_it_spent(world: Any, server: FakeOpenAI) -> None:
    _, key, agent = world
    server.script(calls(*[("look", json.dumps({"q": "字" * 400}))] * 20, usage=(50, 9000)))
    prepared, _ = scripted(prepare(key, agent, "hi"), lambda call: "found")
    last = last_of(prepared)
    assert isinstance(last, Failed)
    run = stored_run(prepared)
    assert (run.status, *spent_of(run)) == ("rejected", 50, 9000, "fake-1")
    assert "ask for less at once" in last.detail
    assert run.error_detail == last.detail


def test_cancelled_run_books_the_calls_that_ended_and_not_the_one_cut_off(
    world: Any, server: FakeOpenAI
) -> None:
    _, key, agent = world
    half = Answer(deltas=("PARTIAL ", "never"), gate=threading.Event(), gate_after=1)
    server.script(calls(LOOK, usage=(100, 20)), half)
    prepared, _ = scripted(prepare(key, agent, "hi"), lambda call: "found")

    async def drive() -> Any:
        driver = RunDriver(prepared).start()
        async for event in driver.events():
            if isinstance(event, Delta):
                driver.cancel()
                break
        return await asyncio.wait_for(driver.outcome(), 15)

    assert isinstance(registry.run(drive()), Cancelled)
    assert spent_of(stored_run(prepared)) == (100, 20, "fake-1")


@pytest.mark.parametrize(
    "reply",
    [
        Answer(deltas=[], usage=(30, 4)),
        Answer(deltas=(" \n",), usage=(30, 4)),
        Answer(deltas=("PARTIAL",), finish="content_filter", as_json=True, usage=(30, 4)),
        calls(LOOK, usage=(30, 4)),
    ],
    ids=["empty", "blank", "withheld", "not offered"],
)
def test_call_that_was_counted_and_is_of_no_use_is_booked(
    world: Any, server: FakeOpenAI, reply: Any
) -> None:
    _, key, agent = world
    server.script(reply)
    prepared = prepare(key, agent, "hi")
    assert isinstance(last_of(prepared), Failed)
    assert spent_of(stored_run(prepared)) == (30, 4, "fake-1")
    step = trace_of(prepared).steps[-1]["data"]
    assert (step["input_tokens"], step["is_usage_reported"]) == (30, True)
    assert step["error_code"] == "provider_error"


def test_call_that_never_answered_costs_nothing(world: Any, server: FakeOpenAI) -> None:
    _, key, agent = world
    server.script(Body(content=b'{"choices": 3}'))
    prepared = prepare(key, agent, "hi")
    assert isinstance(last_of(prepared), Failed)
    assert spent_of(stored_run(prepared)) == (0, 0, "fake-1")


def ended_meanwhile(prepared: Any, server: FakeOpenAI, end: Callable[[], object]) -> Any:
    """Drive a run, end it from outside while its second call is open, and return its last event."""

    async def drive() -> Any:
        driver = RunDriver(prepared).start()
        await asyncio.to_thread(server.wait_for_requests, 2)
        await in_database_thread(end)
        return await asyncio.wait_for(driver.outcome(), 15)

    return registry.run(drive())


def test_run_cancelled_elsewhere_keeps_its_steps_and_its_usage(
    world: Any, server: FakeOpenAI
) -> None:
    tenant, key, agent = world
    server.script(calls(LOOK, usage=(100, 20)), text("never", gate=threading.Event()))
    agent.provider.timeouts = {}
    with scoped_transaction(scope_of(tenant)):
        agent.provider.save()
    prepared, _ = scripted(prepare(key, agent, "hi"), lambda call: "found")

    def cancel() -> None:
        scope, run_id = prepared.scope, prepared.run_id
        runs.cancel_run(scope=scope, run_id=run_id, now=timezone.now())

    assert isinstance(ended_meanwhile(prepared, server, cancel), Cancelled)
    run = stored_run(prepared)
    assert (run.status, run.output, run.tool_steps) == ("cancelled", "", [])
    assert spent_of(run) == (100, 20, "fake-1")
    steps = trace_of(prepared).steps
    kinds = [step["kind"] for step in steps]
    assert kinds[kinds.index("assemble") + 1 :] == ["model", "tool", "precheck", "model"]
    assert [step["seq"] for step in steps] == list(range(1, len(steps) + 1))
    assert [row.role for row in messages_stored(prepared)] == ["user"]
    assert learned(tenant)["answers"] == 0
    with scoped_transaction(prepared.scope):
        assert not Artifact.objects.in_scope(prepared.scope).exists()


def test_answer_that_comes_after_the_run_was_ended_leaves_its_usage_only(
    world: Any, server: FakeOpenAI
) -> None:
    """Whoever swept it came first: its end stands, its output stays empty."""
    tenant, key, agent = world
    gate = threading.Event()
    server.script(calls(LOOK, usage=(100, 20)), text("late", gate=gate, usage=(200, 5)))
    prepared, _ = scripted(prepare(key, agent, "hi"), lambda call: "found")

    def sweep() -> None:
        assert finish.fail(prepared=prepared, code="interrupted", detail="", now=timezone.now())
        gate.set()

    last = ended_meanwhile(prepared, server, sweep)
    assert isinstance(last, Failed)
    run = stored_run(prepared)
    assert (run.status, run.error_code, run.output) == ("failed", "interrupted", "")
    assert spent_of(run) == (300, 25, "fake-1")
    assert learned(tenant)["answers"] == 0


def test_what_happened_is_added_once_and_never_to_a_success(world: Any, server: FakeOpenAI) -> None:
    """A repeat after a lost acknowledgement finds it there."""
    _, key, agent = world
    spent = Spent(model="fake-1", input_tokens=7, output_tokens=3)
    steps = ({"kind": "model", "started_at": "x", "ms": 1.25, "data": {"model": "墨"}},)
    failed, won = prepare(key, agent, "eins"), prepare(key, agent, "zwei")
    last_of(won)
    assert finish.fail(prepared=failed, code="interrupted", detail="", now=timezone.now())
    before = trace_of(won).steps, spent_of(stored_run(won))
    for _ in range(2):
        for prepared in (failed, won):
            finish.add_to_ended(prepared=prepared, steps=steps, spent=spent)
    assert [step["kind"] for step in trace_of(failed).steps].count("model") == 1
    assert spent_of(stored_run(failed)) == (7, 3, "fake-1")
    assert (trace_of(won).steps, spent_of(stored_run(won))) == before


def test_client_that_leaves_between_calls_leaves_the_usage(world: Any, server: FakeOpenAI) -> None:
    _, key, agent = world
    server.script(calls(LOOK, usage=(100, 20)), text("never", gate=threading.Event()))
    prepared, _ = scripted(prepare(key, agent, "hi"), lambda call: "found")

    async def drive() -> Any:
        driver = RunDriver(prepared).start()
        async for event in driver.events():
            if isinstance(event, ToolReturned):
                driver.cancel()
                break
        return await asyncio.wait_for(driver.outcome(), 15)

    assert isinstance(registry.run(drive()), Cancelled)
    assert spent_of(stored_run(prepared)) == (100, 20, "fake-1")
