"""A cancel call that reaches another process than the one that talks to the provider."""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Iterator
from typing import Any

import pytest
from django.utils import timezone

from memory.db_threads import in_database_thread
from memory.providers import registry
from memory.rls import scoped_transaction
from tests.factories import make_agent, make_key, make_tenant
from tests.fakes.openai_replies import Answer
from tests.fakes.openai_server import FakeOpenAI
from tests.talking import fake_provider, prepare, stored_run
from threads import cancellation
from threads.driver import RunDriver
from threads.events import Cancelled, Completed, Delta
from threads.models import RunStatus
from threads.runs import cancel_run, end


@pytest.fixture
def world(committed_db: None) -> Iterator[Any]:
    with FakeOpenAI() as server:
        tenant = make_tenant()
        agent = make_agent(tenant, provider=fake_provider(tenant, server), model="fake-1")
        yield server, make_key(tenant), agent


def test_run_ended_elsewhere_closes_the_provider_call_soon(world: Any) -> None:
    server, key, agent = world
    server.answer_with(lambda body: Answer(deltas=("a", "b"), gate=threading.Event(), gate_after=1))
    prepared = prepare(key, agent, "hi")
    other = prepare(key, agent, "ho")

    def cancel() -> None:
        cancel_run(scope=prepared.scope, run_id=prepared.run_id, now=timezone.now())

    async def drive() -> Any:
        driver, bystander = RunDriver(prepared).start(), RunDriver(other).start()
        async for one in driver.events():
            if isinstance(one, Delta):
                break
        await in_database_thread(cancel)
        started = time.monotonic()
        last = await asyncio.wait_for(driver.outcome(), 20)
        seconds = time.monotonic() - started
        is_other_untouched = other.run_id in cancellation._here().driven
        bystander.cancel()
        await bystander.outcome()
        return last, seconds, is_other_untouched

    last, seconds, is_other_untouched = registry.run(drive())
    assert isinstance(last, Cancelled)
    assert is_other_untouched
    assert seconds < 10  # one look a second; the rest is a busy machine
    assert server.requests[0].client_left.wait(5)
    run = stored_run(prepared)
    assert (run.status, run.output) == (RunStatus.CANCELLED, "")


def test_run_swept_as_failed_meanwhile_is_reported_as_that(world: Any) -> None:
    server, key, agent = world
    server.script(Answer(deltas=("a", "b"), gate=threading.Event(), gate_after=1))
    prepared = prepare(key, agent, "hi")

    async def drive() -> Any:
        driver = RunDriver(prepared).start()
        await in_database_thread(sweep)
        return await asyncio.wait_for(driver.outcome(), 20)

    def sweep() -> None:
        with scoped_transaction(prepared.scope):
            end(
                scope=prepared.scope,
                run_id=prepared.run_id,
                status=RunStatus.FAILED,
                now=timezone.now(),
                error_code="interrupted",
            )

    last = registry.run(drive())
    assert last.code == "interrupted"
    assert stored_run(prepared).status == RunStatus.FAILED


def test_nothing_is_watched_once_runs_have_ended(world: Any) -> None:
    _, key, agent = world
    prepared = prepare(key, agent, "hi")

    async def drive() -> Any:
        last = await RunDriver(prepared).start().outcome()
        here = cancellation._here()
        watcher = here.watcher
        assert here.driven == {}
        assert watcher is not None
        await asyncio.wait_for(watcher, 10)
        return last, here.watcher

    last, watcher = registry.run(drive())
    assert isinstance(last, Completed)
    assert watcher is None
