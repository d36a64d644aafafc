"""A person whose turns are looked through for lasting facts by the worker."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from django.utils import timezone

from governance.models import CoreCandidate, Extraction
from memory import jobs
from memory.models import Job, JobKind, MemoryOp, Tenant
from memory.rls import scoped_transaction
from memory.scope import Scope
from tests.factories import NOW, make_agent, make_end_user, make_run, make_tenant, scope_of
from tests.fakes.openai_replies import Answer
from tests.fakes.openai_server import FakeOpenAI
from tests.jobbook import tenant_scope
from tests.talking import fake_provider, new_thread
from threads.learning.extraction import extract_core
from threads.models import Run, RunTrace, Thread

QUICK = {"connect": 5, "first_token": 10, "between": 10, "total": 40}


@dataclass(frozen=True)
class Lesson:
    """One thread, and the worker that learns from it."""

    tenant: Tenant
    thread: Thread

    @property
    def wide(self) -> Scope:
        return scope_of(self.tenant)

    @property
    def worker(self) -> Scope:
        return Scope(
            tenant_ids=(self.tenant.pk,), principal_id="worker", user_id=self.thread.end_user_id
        )

    def say(self, *said: str, output: str = "ok", **values: Any) -> list[Run]:
        """Succeeded runs of the agent's own, unless told otherwise."""
        values = {"origin": "run", "status": "succeeded", "output": output} | values
        return [self._run(input=one, **values) for one in said]

    def _run(self, **values: Any) -> Run:
        if values["origin"] != "run":
            return make_run(self.thread, **values)
        ended = values.pop("status")
        lease = {"status": "running", "finished_at": None, "lease_until": NOW}
        run = make_run(self.thread, **values | lease)
        with scoped_transaction(self.wide):
            rows = Run.objects.in_scope(self.wide).filter(pk=run.pk)
            rows.update(status=ended, finished_at=NOW, lease_until=None)
        return run

    def show(self, run: Run, *items: tuple[str, str]) -> None:
        """What a run's prompt showed: (kind, content)."""
        with scoped_transaction(self.wide):
            RunTrace.objects.create(
                tenant=self.tenant,
                run=run,
                end_user_id=run.end_user_id,
                items=[
                    {"id": f"x-{number}", "kind": kind, "content": content}
                    for number, (kind, content) in enumerate(items)
                ],
            )

    def claim(self) -> jobs.Claim:
        scope = self.worker
        job = jobs.NewJob(
            kind=JobKind.EXTRACT_CORE,
            thread_id=None,
            run_id=None,
            end_user_id=self.thread.end_user_id,
            dedupe_key=f"extract_core:{self.thread.pk}",
        )
        with scoped_transaction(scope):
            jobs.enqueue(scope=scope, job=job, now=timezone.now())
        (waiting,) = [one for one in self.rows(Job) if one.status == "ready" and _is_ours(one)]
        mine = jobs.claim(job_id=waiting.pk, tenant_id=self.tenant.pk)
        assert mine is not None
        return mine

    def learn(self) -> None:
        """Look through the thread as the worker does, and close the job."""
        claim = self.claim()
        extract_core(scope=self.worker, claim=claim)
        scope = tenant_scope(self.tenant.pk)
        with scoped_transaction(scope):
            jobs.complete(scope=scope, claim=claim, now=timezone.now())

    def rows(self, model: Any) -> list[Any]:
        with scoped_transaction(self.wide):
            return list(model.objects.in_scope(self.wide).order_by("id"))

    def candidates(self) -> list[CoreCandidate]:
        return self.rows(CoreCandidate)

    def facts(self) -> list[str]:
        return [row.fact for row in self.candidates()]

    def outcomes(self) -> list[tuple[str, int]]:
        return [(row.outcome, row.facts) for row in self.rows(Extraction)]

    def ops(self) -> list[tuple[str, str]]:
        return [(op.kind, op.outcome) for op in self.rows(MemoryOp)]


def _is_ours(job: Job) -> bool:
    return job.kind == "extract_core"


def make_lesson(server: FakeOpenAI | None = None, **agent: Any) -> Lesson:
    """A thread of a new person; with a server, of an agent that asks it."""
    tenant = make_tenant()
    provider = fake_provider(tenant, server, timeouts=QUICK) if server else None
    agent = {"model": "fake-1"} | agent if server else agent
    made = make_agent(tenant, provider=provider, **agent)
    return Lesson(tenant, new_thread(made, make_end_user(tenant)))


def listing(*facts: Any) -> Callable[[Any], Any]:
    """A model that answers with a list; a text is a fact, a pair a fact and its subject."""
    entries = []
    for fact in facts:
        if isinstance(fact, str):
            entries.append({"fact": fact, "confidence": 0.9, "subject": ""})
        elif isinstance(fact, tuple):
            entries.append({"fact": fact[0], "confidence": 0.9, "subject": fact[1]})
        else:
            entries.append(fact)
    whole = json.dumps(entries, ensure_ascii=False)
    pieces = [whole[at : at + 8_000] for at in range(0, len(whole), 8_000)]
    return lambda body: Answer(deltas=pieces)


def sent(server: FakeOpenAI) -> str:
    """All that the server was asked."""
    return "\n".join(json.dumps(one.body, ensure_ascii=False) for one in server.requests)
