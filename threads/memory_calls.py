"""The book of memory work: one row for each model call."""

from __future__ import annotations

from collections.abc import Sequence

from django.utils import timezone

from memory.models import Job, MemoryOp
from memory.rls import scoped_transaction
from memory.scope import Scope
from threads.chat import memory_providers, price
from threads.models import Agent, Thread
from threads.summarizer import SummaryCall


def book_calls(
    *,
    scope: Scope,
    kind: str,
    job_id: str | None,
    agent: Agent,
    calls: Sequence[SummaryCall],
) -> None:
    """Write one memory_ops row for each model call that was made, also for those that failed.

    In a transaction of its own: a call costs, whatever becomes of its answer. In the tenant's scope,
    for the thread and the person may be gone by now. Cost: two queries, and a statement a call.

    Args:
        scope: Names the thread.
        kind: What the calls were for: the kind of a job, or `compress` inside a run.
        job_id: The job that made them, if one did.
        agent: Whose providers were asked.
        calls: The calls.
    """
    if not calls:
        return
    now = timezone.now()
    providers = {provider.pk: provider for provider in memory_providers(agent)}
    tenant = Scope(tenant_ids=scope.tenant_ids, principal_id=scope.principal_id)
    with scoped_transaction(tenant):
        thread = Thread.objects.in_scope(tenant).filter(pk=scope.thread_id).first()
        job = Job.objects.in_scope(tenant).filter(pk=job_id).first() if job_id else None
        for call in calls:
            cost = price(
                provider=providers[call.provider_id], model=call.model, usage=call.usage, now=now
            )
            MemoryOp.objects.create(
                tenant_id=scope.tenant_id,
                end_user_id=thread.end_user_id if thread else None,
                thread=thread,
                agent_id=agent.pk,
                job=job,
                kind=kind,
                model=call.model,
                outcome=call.outcome,
                input_tokens=call.usage.input_tokens,
                output_tokens=call.usage.output_tokens,
                cost_usd=cost.usd,
                at=now,
            )
