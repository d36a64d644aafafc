"""Conversations for tests: asking, telling of turns made elsewhere, rolling summaries, fakes."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from django.utils import timezone

from memory import jobs
from memory.conf import encryption_keys
from memory.models import EndUser, Job, JobKind, MemoryOp, Tenant
from memory.providers import registry
from memory.providers.crypto import seal
from memory.rls import scoped_transaction
from memory.scope import Scope
from tests.factories import MadeKey, make_end_user, make_provider, make_thread, scope_of
from tests.fakes.openai_server import FakeOpenAI
from threads import finish, pipeline
from threads.driver import RunDriver
from threads.events import LastEvent, RunEvent
from threads.models import Agent, Message, Provider, Run, RunOrigin, Thread, ThreadSummary
from threads.pipeline import PreparedRun
from threads.request import RunRequest
from threads.summaries import roll_summary
from threads.turns import RecordedTurn, record_turns

API_KEY = "sk-proj-4f9aQ7zL2mX8Kd03Bv6Yt1Rw5Ns9Hc2Je7Gu"


def fake_provider(tenant: Tenant, server: FakeOpenAI, **values: Any) -> Provider:
    """A provider row that leads to the scripted server, with a sealed key."""
    values = {
        "kind": "openai_compatible",
        "base_url": server.base_url,
        "locality": "local",
        "vendor": "fake",
        "sealed_api_key": seal(API_KEY, keys=encryption_keys()),
    } | values
    return make_provider(tenant, **values)


def prepare(
    key: MadeKey,
    agent: Agent,
    text: str,
    thread_id: str | None = None,
    user_id: str = "teacher-7",
    **extra: Any,
) -> PreparedRun:
    """Accept a run."""
    request = RunRequest(input=text, user_id=user_id, thread_id=thread_id, **extra)
    return pipeline.prepare(
        principal=key.principal, agent_id=agent.id, request=request, now=timezone.now()
    )


def events_of(prepared: PreparedRun) -> list[RunEvent]:
    """Drive a run to its end and return all its events."""

    async def drive() -> list[RunEvent]:
        driver = RunDriver(prepared).start()
        return [event async for event in driver.events()]

    return registry.run(drive())


def last_of(prepared: PreparedRun) -> LastEvent:
    """Drive a run to its end as a JSON client would and return its last event."""

    async def drive() -> LastEvent:
        return await RunDriver(prepared).start().outcome()

    return registry.run(drive())


def tell(thread: Thread, pairs: Sequence[tuple[str, str]], **values: Any) -> list[Run]:
    """Record turns made elsewhere."""
    turns = [RecordedTurn(input=said, output=answered, **values) for said, answered in pairs]
    scope = scope_of(Tenant(id=thread.tenant_id))
    with scoped_transaction(scope):
        return record_turns(
            scope=scope, thread=thread, turns=turns, origin=RunOrigin.IMPORT, now=timezone.now()
        )


def new_thread(agent: Agent, end_user: EndUser | None = None) -> Thread:
    """A thread of an agent, of a new person if none is given."""
    return make_thread(agent, end_user or make_end_user(Tenant(id=agent.tenant_id)))


def session_of(thread: Thread) -> Scope:
    """The scope inside a thread, as a run and the worker have it."""
    return Scope(
        tenant_ids=(thread.tenant_id,),
        principal_id="test",
        user_id=thread.end_user_id,
        thread_id=thread.pk,
    )


def claim_roll(thread: Thread) -> jobs.Claim:
    """Ask for a roll of a thread's summary, if none waits yet, and claim it."""
    scope = session_of(thread)
    with scoped_transaction(scope):
        job = jobs.NewJob(
            kind=JobKind.ROLL_SUMMARY,
            thread_id=thread.pk,
            run_id=None,
            end_user_id=thread.end_user_id,
            dedupe_key=f"roll_summary:{thread.pk}",
        )
        jobs.enqueue(scope=scope, job=job, now=timezone.now())
    with scoped_transaction(scope):
        job_id = Job.objects.in_scope(scope).get(thread_id=thread.pk, status="ready").pk
    claim = jobs.claim(job_id=job_id, tenant_id=thread.tenant_id)
    assert claim is not None
    return claim


def roll(thread: Thread) -> None:
    """Roll a thread's summary as the worker does, and close the job."""
    claim = claim_roll(thread)
    scope = session_of(thread)
    roll_summary(scope=scope, claim=claim)
    with scoped_transaction(scope):
        jobs.complete(scope=scope, claim=claim, now=timezone.now())


def summary_of(thread: Thread) -> Any:
    """The stored summary, None if there is none yet."""
    scope = session_of(thread)
    with scoped_transaction(scope):
        return ThreadSummary.objects.in_scope(scope).first()


def ops_of(thread: Thread) -> list[MemoryOp]:
    """The booked calls of a thread, oldest first."""
    scope = scope_of(Tenant(id=thread.tenant_id))
    with scoped_transaction(scope):
        return list(MemoryOp.objects.in_scope(scope).filter(thread_id=thread.pk).order_by("id"))


def stored_run(prepared: PreparedRun) -> Run:
    """A run as it is stored."""
    return finish.read_ended(prepared=prepared)


NOTHING = {"jobs": 0, "ops": 0, "answers": 0, "summaries": 0}


def learned(tenant: Any) -> dict[str, int]:
    """Count everything that only a succeeded run may leave behind."""
    scope = scope_of(tenant)
    with scoped_transaction(scope):
        return {
            "jobs": Job.objects.in_scope(scope).count(),
            "ops": MemoryOp.objects.in_scope(scope).count(),
            "answers": Message.objects.in_scope(scope).filter(role="assistant").count(),
            "summaries": ThreadSummary.objects.unscoped(reason="counting in a test").count(),
        }
