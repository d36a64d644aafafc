"""A person who talks with an agent, and the worker that indexes what they said."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from django.utils import timezone

from memory import jobs, store
from memory.jobs import Claim
from memory.models import EmbeddingModel, IndexEntry, Job, RecallEntry, Shelf, Tenant
from memory.rls import scoped_transaction
from memory.scope import Scope
from tests.factories import make_agent, make_end_user, make_tenant, scope_of
from tests.jobbook import tenant_scope
from tests.talking import new_thread
from threads.models import Message, Thread
from threads.recall.indexing import index_job, index_recall


@dataclass(frozen=True)
class Talk:
    """One thread and the scopes to look at it with."""

    tenant: Tenant
    thread: Thread

    @property
    def wide(self) -> Scope:
        return scope_of(self.tenant)

    @property
    def scope(self) -> Scope:
        """As the worker has it for an index job: the person, no thread."""
        return Scope(
            tenant_ids=(self.tenant.pk,), principal_id="worker", user_id=self.thread.end_user_id
        )

    def recalled(self) -> list[RecallEntry]:
        with scoped_transaction(self.scope):
            return list(RecallEntry.objects.in_scope(self.scope).order_by("said_at", "id"))

    def entries(self) -> list[IndexEntry]:
        with scoped_transaction(self.scope):
            rows = IndexEntry.objects.in_scope(self.scope).select_related("recall")
            return list(rows.order_by("version", "id"))

    def shelf(self) -> Shelf:
        with scoped_transaction(self.scope):
            return Shelf.objects.in_scope(self.scope).get(end_user_id=self.thread.end_user_id)

    def messages(self) -> list[Message]:
        with scoped_transaction(self.scope):
            return list(Message.objects.in_scope(self.scope).order_by("run__seq", "position"))

    def jobs_of(self, kind: str) -> list[Job]:
        """Unfinished jobs of a kind."""
        with scoped_transaction(self.wide):
            rows = Job.objects.in_scope(self.wide).filter(kind=kind)
            return list(rows.filter(status__in=["ready", "running"]).order_by("id"))

    def failures(self) -> set[str]:
        """Codes of what went wrong in the tenant's jobs."""
        with scoped_transaction(self.wide):
            rows = Job.objects.in_scope(self.wide).exclude(error_code="")
            return set(rows.values_list("error_code", flat=True))

    def claim(self) -> Claim:
        """Ask for the thread's index, if nobody has, and claim the job."""
        scope = self.scope
        with scoped_transaction(scope):
            job = index_job(
                thread_id=self.thread.pk, end_user_id=self.thread.end_user_id, run_id=None
            )
            jobs.enqueue(scope=scope, job=job, now=timezone.now())
        return self.claim_of_thread()

    def claim_of_thread(self) -> Claim:
        """Claim the thread's job."""
        key = f"index_recall:{self.thread.pk}"
        (waiting,) = (job for job in self.jobs_of("index_recall") if job.dedupe_key == key)
        claimed = jobs.claim(job_id=waiting.pk, tenant_id=self.tenant.pk)
        assert claimed is not None
        return claimed

    def model(self) -> str:
        """A model of two dimensions that the tenant searches by."""
        with scoped_transaction(self.wide):
            made = EmbeddingModel.objects.create(
                tenant=self.tenant, kind="usem3", name="toy", dimensions=2, status="active"
            )
        return str(made.pk)

    def put(self, model_id: str, entry_id: str, *, is_good: bool) -> None:
        """Store an entry's vector, or that there is none."""
        vector = np.array([1, 0], dtype=np.float32) if is_good else None
        with scoped_transaction(self.scope):
            store.put_vectors(
                scope=self.scope,
                shelf_id=self.shelf().pk,
                model_id=model_id,
                vectors=[store.NewVector(entry_id=entry_id, vector=vector)],
                now=timezone.now(),
            )

    def index(self) -> None:
        """Index the thread as the worker does, and close the job."""
        claimed = self.claim()
        index_recall(scope=self.scope, claim=claimed)
        with scoped_transaction(tenant_scope(self.tenant.pk)):
            jobs.complete(scope=tenant_scope(self.tenant.pk), claim=claimed, now=timezone.now())


def make_talk(**agent: Any) -> Talk:
    """A thread of a new person of a new tenant."""
    tenant = make_tenant()
    return Talk(tenant, new_thread(make_agent(tenant, **agent), make_end_user(tenant)))


def beside(talk: Talk) -> Talk:
    """Another thread of the same person with the same agent."""
    return Talk(talk.tenant, new_thread(talk.thread.agent, talk.thread.end_user))
