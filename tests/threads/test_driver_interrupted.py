"""Runs that are cancelled, erased, or lose their database: each still ends exactly once."""

from __future__ import annotations

import asyncio
import threading
from typing import Any

import psycopg
import pytest
from django.db import connection
from django.utils import timezone

from memory.db_threads import in_database_thread
from memory.providers import registry
from memory.rls import scoped_transaction
from tests.factories import scope_of
from tests.fakes.openai_replies import (
    Answer,
    status,
    text,
)
from tests.fakes.openai_server import FakeOpenAI
from tests.talking import NOTHING, last_of, learned, prepare, stored_run
from threads import finish
from threads.driver import RunDriver
from threads.events import Cancelled, Completed, Delta, Failed, LastEvent
from threads.models import Message, Run, RunTrace, Thread


def cancelled_at(prepared: Any, moment: Any) -> tuple[LastEvent, list]:
    """Drive a run, call `moment(driver)` once it is under way, and return how it ended."""

    async def drive() -> Any:
        driver = RunDriver(prepared).start()
        await moment(driver)
        last = await asyncio.wait_for(driver.outcome(), 15)
        return last, [one async for one in driver.events()]

    ended: tuple[LastEvent, list[Any]] = registry.run(drive())
    return ended


@pytest.mark.req("B13")
def test_cancel_before_first_step_ends_cancelled(world: Any, server: FakeOpenAI) -> None:
    tenant, key, agent = world
    prepared = prepare(key, agent, "hi")

    async def at_once(driver: Any) -> None:
        driver.cancel()

    last, events = cancelled_at(prepared, at_once)
    assert isinstance(last, Cancelled)
    assert [one for one in events if isinstance(one, LastEvent)] == [last]
    assert stored_run(prepared).status == "cancelled"
    assert server.requests == []
    assert learned(tenant) == NOTHING


@pytest.mark.req("B13")
@pytest.mark.parametrize("times", [1, 3])
def test_cancel_while_model_talks_closes_its_connection(
    world: Any, server: FakeOpenAI, times: Any
) -> None:
    """56."""
    tenant, key, agent = world
    server.script(Answer(deltas=("PARTIAL ", "never"), gate=threading.Event(), gate_after=1))
    agent.provider.timeouts = {}
    with scoped_transaction(scope_of(tenant)):
        agent.provider.save()
    prepared = prepare(key, agent, "hi")

    async def once_text_came(driver: Any) -> None:
        async for one in driver.events():
            if isinstance(one, Delta):
                break
        for _ in range(times):
            driver.cancel()
            await asyncio.sleep(0)

    last, _ = cancelled_at(prepared, once_text_came)
    assert isinstance(last, Cancelled)
    assert server.requests[0].client_left.wait(5)
    run = stored_run(prepared)
    assert (run.status, run.output) == ("cancelled", "")
    assert learned(tenant) == NOTHING
    after = prepare(key, agent, "wieder", prepared.thread_id)
    assert after.request.messages[-1].content == "wieder"


def test_cancel_after_the_end_changes_nothing(world: Any, server: FakeOpenAI) -> None:
    _, key, agent = world
    prepared = prepare(key, agent, "hi")

    async def drive() -> Any:
        driver = RunDriver(prepared).start()
        first = await driver.outcome()
        driver.cancel()
        return first, await driver.outcome()

    first, second = registry.run(drive())
    assert isinstance(first, Completed)
    assert first == second
    assert stored_run(prepared).status == "succeeded"


def test_cancel_while_the_answer_is_stored_loses_nothing(
    world: Any, server: FakeOpenAI, superuser_url: str
) -> None:
    """The commit is held up by a lock; whoever cancels then finds the run succeeded."""
    _, key, agent = world
    prepared = prepare(key, agent, "hi")
    with psycopg.connect(superuser_url) as holder:
        holder.execute("SELECT 1 FROM threads_run WHERE id = %s FOR UPDATE", [prepared.run_id])

        async def once_it_waits(driver: Any) -> None:
            await lock_awaited(superuser_url)
            driver.cancel()
            await asyncio.sleep(0)
            driver.cancel()
            holder.rollback()

        last, events = cancelled_at(prepared, once_it_waits)
    assert isinstance(last, Completed)
    assert sum(isinstance(one, LastEvent) for one in events) == 1
    assert stored_run(prepared).status == "succeeded"


async def lock_awaited(superuser_url: str) -> None:
    """Return once some connection of the application waits for a lock."""
    with psycopg.connect(superuser_url, autocommit=True) as behind:
        for _ in range(1000):
            row = behind.execute(
                "SELECT count(*) FROM pg_stat_activity WHERE wait_event_type = 'Lock'"
            ).fetchone()
            if row is not None and row[0] > 0:
                return
            await asyncio.sleep(0.01)
    raise TimeoutError


def kill_connections(superuser_url: str) -> int:
    """End every connection of role app, as a restart of the server does."""
    with psycopg.connect(superuser_url, autocommit=True) as behind:
        rows = behind.execute(
            "SELECT pg_terminate_backend(pid) FROM pg_stat_activity"
            " WHERE usename <> current_user AND datname = current_database()"
        ).fetchall()
    return len(rows)


@pytest.mark.parametrize("reply", [text("fine"), status(404)], ids=["answered", "failed"])
def test_database_connections_killed_before_the_commit_145(
    world: Any, server: FakeOpenAI, superuser_url: str, reply: Any
) -> None:
    """145: between the provider's answer and the commit, while the transaction is open."""
    _, key, agent = world
    server.script(reply)
    prepared = prepare(key, agent, "hi")
    connection.close()
    with psycopg.connect(superuser_url) as holder:
        holder.execute("SELECT 1 FROM threads_run WHERE id = %s FOR UPDATE", [prepared.run_id])

        async def once_it_waits(driver: Any) -> None:
            await lock_awaited(superuser_url)
            assert kill_connections(superuser_url) >= 1
            holder.rollback()

        last, events = cancelled_at(prepared, once_it_waits)
    assert sum(isinstance(one, LastEvent) for one in events) == 1
    run = stored_run(prepared)
    if isinstance(last, Completed):
        assert (run.status, run.output) == ("succeeded", "fine")
    else:
        assert (run.status, run.error_code) == ("failed", "provider_error")
    with scoped_transaction(prepared.scope):
        roles = Message.objects.in_scope(prepared.scope).values_list("role", flat=True)
        expected = ["user", "assistant"] if run.status == "succeeded" else ["user"]
        assert sorted(roles) == sorted(expected)
        steps = RunTrace.objects.in_scope(prepared.scope).get().steps
    assert sum(step["kind"] == "model" for step in steps) == 1


def test_end_repeated_after_a_lost_acknowledgement_is_stored_once(world: Any) -> None:
    """The commit came through, its acknowledgement did not: the repeat changes nothing."""
    _, key, agent = world
    prepared = prepare(key, agent, "hi")
    assert isinstance(last_of(prepared), Completed)
    before = stored_run(prepared)
    driver = RunDriver(prepared)

    async def again() -> LastEvent:
        return await driver._ended_elsewhere()

    assert not finish.fail(prepared=prepared, code="internal_error", detail="", now=timezone.now())
    assert isinstance(registry.run(again()), Completed)
    assert stored_run(prepared).finished_at == before.finished_at


def test_thread_deleted_while_model_talks_still_ends_131(world: Any, server: FakeOpenAI) -> None:
    """131: nothing is orphaned, and whoever listens hears the end."""
    tenant, key, agent = world
    gate = threading.Event()
    server.script(Answer(deltas=("a", "b"), gate=gate, gate_after=0))
    prepared = prepare(key, agent, "hi")

    def delete() -> None:
        with scoped_transaction(scope_of(tenant)):
            Thread.objects.in_scope(scope_of(tenant)).filter(pk=prepared.thread_id).delete()

    async def delete_meanwhile(driver: Any) -> None:
        await in_database_thread(delete)
        gate.set()

    last, events = cancelled_at(prepared, delete_meanwhile)
    assert isinstance(last, Failed)
    assert last.code == "not_found"
    assert sum(isinstance(one, LastEvent) for one in events) == 1
    with scoped_transaction(scope_of(tenant)):
        assert not Run.objects.in_scope(scope_of(tenant)).exists()
        assert not Message.objects.in_scope(scope_of(tenant)).exists()
