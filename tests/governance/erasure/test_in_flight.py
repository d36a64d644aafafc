"""Erasing while others work for the person: each ends, nothing of it is left, nobody gets a 500."""

from __future__ import annotations

import multiprocessing
import os
import signal
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import Any

import psycopg
import pytest
from django.db import connections
from django.utils import timezone

from governance.erasure.requests import request_erasure
from governance.erasure.work import do_erasure, work_erasures
from governance.models.erasure import Erasure, ErasureStatus, Verified
from memory.db_threads import in_database_thread
from memory.lanes import lane_of
from memory.models import EndUser, Job
from memory.providers import registry
from memory.rls import scoped_transaction
from tests.asgi_client import AsgiClient
from tests.factories import make_agent, make_end_user, make_key, make_tenant, make_thread, scope_of
from tests.fakes.openai_replies import Answer
from tests.fakes.openai_server import FakeOpenAI
from tests.governance.erasure.scenes import erase, no_tagged, read, rows_naming
from tests.governance.erasure.test_work import ask, make_due, talker
from tests.journeys.crash_processes import wait_until
from tests.talking import claim_roll, fake_provider, prepare, tell
from threads.driver import RunDriver
from threads.events import Cancelled, Delta, Failed
from threads.tasks import HANDLERS, _run, work_lane

BOOKS = {"governance_auditentry", "governance_disclosure", "governance_erasure"}


@pytest.fixture
def server() -> Iterator[FakeOpenAI]:
    with FakeOpenAI() as running:
        yield running


@pytest.fixture
def world(committed_db: None, server: FakeOpenAI) -> Any:
    tenant = make_tenant()
    agent = make_agent(tenant, provider=fake_provider(tenant, server), model="fake-1")
    return tenant, make_key(tenant), agent


def person_of(tenant: Any, user_id: str = "teacher-7") -> EndUser:
    scope = scope_of(tenant)
    with scoped_transaction(scope):
        return EndUser.objects.in_scope(scope).get(user_id=user_id)


def test_a_running_run_ends_and_its_answer_is_not_stored(
    world: Any, server: FakeOpenAI, superuser_url: str
) -> None:
    """Cases 157, 40 and 131: the run ends once, its stream too, and no row comes back."""
    tenant, key, agent = world
    gate = threading.Event()
    server.answer_with(lambda body: Answer(deltas=("a", "b"), gate=gate, gate_after=1))
    prepared = prepare(key, agent, "I keep bees 我养蜜蜂")
    person = person_of(tenant)

    async def drive() -> list[Any]:
        driver = RunDriver(prepared).start()
        seen: list[Any] = []
        async for event in driver.events():
            seen.append(event)
            if isinstance(event, Delta) and not gate.is_set():
                await in_database_thread(lambda: erase(person))
                gate.set()
        return seen

    seen = registry.run(drive())
    assert isinstance(seen[-1], Cancelled | Failed)
    left = rows_naming(superuser_url, person.pk, prepared.run_id, "我养蜜蜂")
    assert set(left) <= BOOKS


def test_a_job_in_its_model_call_writes_nothing_and_ends_quietly(
    world: Any, server: FakeOpenAI, superuser_url: str
) -> None:
    """Case 157 and bug report G2: what is derived while its source goes is not written."""
    tenant, _, agent = world
    gate = threading.Event()
    server.answer_with(lambda body: Answer(deltas=("a summary", " of it"), gate=gate, gate_after=1))
    person = make_end_user(tenant, user_id="teacher-7")
    thread = make_thread(agent, person)
    tell(thread, [(f"I keep bees {number} " * 60, "yes " * 60) for number in range(12)])
    claim = claim_roll(thread)
    with ThreadPoolExecutor(max_workers=1) as pool:
        working = pool.submit(in_a_thread, lambda: _run(claim, handlers=HANDLERS))
        server.wait_for_requests(1)
        erase(person)
        gate.set()
        assert working.result(timeout=60) == "lost"
    assert set(rows_naming(superuser_url, person.pk, thread.pk, "I keep bees")) <= BOOKS
    scope = scope_of(tenant)
    with scoped_transaction(scope):
        assert not Job.objects.in_scope(scope).filter(status__in=["ready", "running"]).exists()


def in_a_thread(work: Callable[[], Any]) -> Any:
    """Work on a thread of its own, and close what it opened."""
    try:
        return work()
    finally:
        connections.close_all()


def sent(client: AsgiClient, method: str, path: str, body: Any, *, headers: Any) -> Any:
    """The answer to one request."""
    return registry.run(client.request(method, path, json_body=body, headers=headers))


def test_api_writes_during_and_after_get_an_answer_and_leave_nothing(
    world: Any, superuser_url: str
) -> None:
    """Case 157: whoever names a thread of a person who goes is told that there is none."""
    tenant, key, agent = world
    person = make_end_user(tenant, user_id="teacher-7")
    thread = make_thread(agent, person)
    tell(thread, [("hello", "hi")])
    hidden = ask(person)
    work_until_hidden(hidden)
    client = AsgiClient()
    calls = [
        ("GET", f"/v1/threads/{thread.pk}", None),
        ("PATCH", f"/v1/threads/{thread.pk}", {"title": "mine"}),
        ("GET", f"/v1/threads/{thread.pk}/messages", None),
        ("GET", f"/v1/threads/{thread.pk}/runs", None),
        (
            "POST",
            f"/v1/threads/{thread.pk}/turns",
            {"input": "x", "output": "y", "status": "succeeded"},
        ),
        ("GET", f"/v1/agents/{agent.pk}/threads", None),
    ]
    answers = [sent(client, *call, headers=key.headers) for call in calls]
    assert [answer.status for answer in answers] == [404, 404, 404, 404, 404, 200]
    assert all(thread.pk.encode() not in answer.body for answer in answers)
    make_due(hidden)
    assert work_erasures(now=timezone.now(), within_seconds=60, tagged=no_tagged).done == 1
    assert set(rows_naming(superuser_url, person.pk, thread.pk)) <= BOOKS


class StopError(Exception):
    """Ends a round."""


def work_until_hidden(erasure: Erasure) -> None:
    def stop() -> None:
        raise StopError

    work_erasures(now=timezone.now(), within_seconds=60, tagged=no_tagged, between=stop)
    assert read(erasure).status == ErasureStatus.QUEUED


def test_killed_half_way_it_is_done_by_the_next(committed_db: None, superuser_url: str) -> None:
    """Case 160: kill -9 inside a batch's transaction, then again; nothing is counted twice."""
    tenant = make_tenant()
    whole = erase(talker(tenant, "whole"))
    asked = ask(talker(tenant, "killed"))
    for table in ("threads_message", "threads_thread"):
        with psycopg.connect(superuser_url) as holder:
            holder.execute(f"LOCK TABLE {table} IN EXCLUSIVE MODE")
            killed_at_lock(superuser_url, table)
        make_due(asked)
    report = work_erasures(now=timezone.now(), within_seconds=60, tagged=no_tagged)
    assert report.done == 1
    done = read(asked)
    assert (done.status, done.verified, done.attempts) == (ErasureStatus.DONE, Verified.TRUE, 3)
    assert done.counts == whole.counts


def killed_at_lock(superuser_url: str, table: str) -> None:
    """Let a process of its own erase until it waits for a locked table, and kill it there."""
    connections.close_all()
    child = multiprocessing.get_context("fork").Process(target=_erase_for_ever)
    child.start()
    assert child.pid is not None
    with psycopg.connect(superuser_url, autocommit=True) as looker:
        wait_until(
            lambda: looker.execute(
                "SELECT 1 FROM pg_stat_activity WHERE wait_event_type = 'Lock'"
                " AND query LIKE '%%DELETE FROM%%' AND query LIKE %s",
                [f"%{table}%"],
            ).fetchone(),
            what=f"the erasure waits for {table}",
        )
        os.kill(child.pid, signal.SIGKILL)
        child.join()
        assert child.exitcode == -signal.SIGKILL


def _erase_for_ever() -> None:
    work_erasures(now=timezone.now(), within_seconds=600, tagged=no_tagged)


def test_two_at_once_do_it_once(committed_db: None) -> None:
    """Case 160: in parallel."""
    tenant = make_tenant()
    whole = erase(talker(tenant, "whole"))
    asked = ask(talker(tenant, "both"))
    with ThreadPoolExecutor(max_workers=2) as pool:
        tries = [
            pool.submit(
                in_a_thread,
                lambda: do_erasure(erasure_id=asked.pk, tagged=no_tagged, now=timezone.now()),
            )
            for _ in range(2)
        ]
        assert sorted(one.result(timeout=60) for one in tries) == [False, True]
    assert read(asked).counts == whole.counts


def work_until(is_over: threading.Event, tenant_id: str) -> None:
    """Make summaries and nodes of what is written and goes, as the worker does."""
    while not is_over.is_set():
        work_lane(lane=lane_of(tenant_id), handlers=HANDLERS)


def test_writers_erasure_and_consolidation_at_once_never_fail(
    world: Any, superuser_url: str
) -> None:
    """Bug report G5: eight writers, the worker and an erasure; no 500, and nothing is left."""
    tenant, key, agent = world
    person = make_end_user(tenant, user_id="teacher-7")
    thread = make_thread(agent, person)
    tell(thread, [(f"question {number}", "answer") for number in range(8)])
    is_over = threading.Event()
    statuses: list[int] = []

    def write() -> None:
        client = AsgiClient()
        body = {"input": "x", "output": "y", "status": "succeeded"}
        while not is_over.is_set():
            for path, told in (
                (f"/v1/agents/{agent.pk}/run", {"user_id": "teacher-7", "input": "hello"}),
                (f"/v1/threads/{thread.pk}/turns", body),
            ):
                statuses.append(sent(client, "POST", path, told, headers=key.headers).status)

    with ThreadPoolExecutor(max_workers=9) as pool:
        writers = [pool.submit(in_a_thread, write) for _ in range(8)]
        writers.append(pool.submit(in_a_thread, partial(work_until, is_over, tenant.pk)))
        try:
            for _ in range(3):
                scope = scope_of(tenant)
                with scoped_transaction(scope):
                    found = EndUser.objects.in_scope(scope).filter(user_id="teacher-7").first()
                if found is None:
                    continue
                asked = request_erasure(scope=scope, person=found, mode="all", now=timezone.now())
                assert do_erasure(erasure_id=asked.pk, tagged=no_tagged, now=timezone.now())
                assert read(asked).status == ErasureStatus.DONE
                assert set(rows_naming(superuser_url, found.pk)) <= BOOKS
        finally:
            is_over.set()
        for one in writers:
            one.result(timeout=60)
    assert statuses
    assert max(statuses) < 500, sorted(set(statuses))


def test_a_writer_at_the_very_end_is_refused_by_the_database(
    world: Any, superuser_url: str
) -> None:
    """A transaction that began before the last one and ends after it can not bring a row back."""
    tenant, _, agent = world
    person = talker(tenant, "late")
    asked = ask(person)
    connection = psycopg.connect(superuser_url)
    with connection:
        connection.execute(
            "INSERT INTO threads_thread (id, tenant_id, agent_id, end_user_id, title, status,"
            " next_seq, run_count, created_at, updated_at) VALUES ('th_late', %s, %s, %s, 'late',"
            " 'active', 1, 0, now(), now())",
            [tenant.pk, agent.pk, person.pk],
        )
        assert do_erasure(erasure_id=asked.pk, tagged=no_tagged, now=timezone.now())
        with pytest.raises(psycopg.errors.ForeignKeyViolation):
            connection.commit()
        connection.rollback()
    assert set(rows_naming(superuser_url, person.pk, "th_late")) <= BOOKS
