"""Runs and calls as they end, at a moment of one's own."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from decimal import Decimal
from typing import Any

from memory.models import MemoryOp, Tenant
from memory.rls import scoped_transaction
from tests.factories import make_agent, make_end_user, make_run, make_thread, scope_of
from threads.models import Run, Thread

MONDAY = datetime(2026, 11, 2, 9, 0, tzinfo=UTC)


def a_thread(tenant: Tenant) -> Thread:
    """A thread of an agent and a person of its own."""
    return make_thread(make_agent(tenant), make_end_user(tenant))


def ended(thread: Thread, *, at: datetime, ms: int = 1000, **values: Any) -> Run:
    """The thread's next run, made by Credence, which took that long; succeeded unless told.

    `past` is what its account says of the thread; without it there is no account.
    """
    past = values.pop("past", None)
    end = {"status": "succeeded", "finished_at": at + timedelta(milliseconds=ms)} | values
    account: dict[str, Any] = {}
    if past is not None:
        account = {"decision": "pass", "sections": [{"name": "thread", "granted": past}]}
    run = make_run(
        thread, origin="run", status="running", lease_until=at, finished_at=None, created_at=at,
        context=account,
    )  # fmt: skip
    with scoped_transaction(scope_of(Tenant(id=thread.tenant_id))):
        Run.objects.in_scope(scope_of(Tenant(id=thread.tenant_id))).filter(pk=run.pk).update(**end)
    return run


def call(
    tenant: Tenant, *, at: datetime, tokens: int, kind: str = "roll_summary", usd: str = "0"
) -> None:
    """A call made for memory that read so many tokens."""
    with scoped_transaction(scope_of(tenant)):
        MemoryOp.objects.create(
            tenant=tenant, kind=kind, model="m", outcome="ok", input_tokens=tokens, output_tokens=10,
            cost_usd=Decimal(usd), at=at,
        )  # fmt: skip
