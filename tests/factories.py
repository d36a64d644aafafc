"""Rows for tests, made through the product's own functions where it has one.

Each call makes things of its own (fresh slugs and names), so tests never share rows.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from datetime import UTC, datetime
from itertools import count
from typing import Any

from django.contrib.auth.models import User
from django.utils import timezone

from governance.access import Principal
from governance.keys import authenticate, create_key
from governance.models import KeyScope
from governance.permissions import Role
from governance.tenants import create_staff, create_tenant, ensure_end_user
from memory.models import EndUser, Tenant
from memory.rls import scoped_transaction
from memory.scope import Scope
from threads.models import Agent, Artifact, Provider, Run, Thread

NOW = datetime(2026, 11, 2, 9, 0, tzinfo=UTC)
_numbers = count(1)


@dataclass(frozen=True)
class MadeKey:
    """A key with its secret, and the principal it authenticates as."""

    id: str
    secret: str
    principal: Principal

    @property
    def headers(self) -> dict[str, str]:
        """The header a client sends."""
        return {"Authorization": f"Bearer {self.secret}"}


def scope_of(
    tenant: Tenant, end_user: EndUser | None = None, thread: Thread | None = None
) -> Scope:
    """A scope on one tenant, and on a person and thread if given."""
    return Scope(
        tenant_ids=(tenant.id,),
        principal_id="test",
        user_id=end_user.id if end_user else None,
        thread_id=thread.id if thread else None,
    )


def _of(tenant_id: str) -> Scope:
    return Scope(tenant_ids=(tenant_id,), principal_id="test")


def make_tenant(slug: str | None = None) -> Tenant:
    """A live tenant with its roles."""
    return create_tenant(slug=slug or f"tenant-{next(_numbers)}", name="", now=NOW, actor="test")


def make_staff(tenant: Tenant, role: Role = Role.ADMIN, password: str = "right horse") -> User:
    """A member of staff holding one role of one tenant."""
    return create_staff(
        scope=scope_of(tenant),
        username=f"staff-{next(_numbers)}",
        password=password,
        role=role,
        now=NOW,
    )


def make_end_user(tenant: Tenant, user_id: str | None = None) -> EndUser:
    """A person of the tenant."""
    scope = scope_of(tenant)
    with scoped_transaction(scope):
        return ensure_end_user(scope=scope, user_id=user_id or f"user-{next(_numbers)}", now=NOW)


def make_provider(tenant: Tenant, **values: Any) -> Provider:
    """A provider; offline unless `kind` says otherwise."""
    values = {"kind": "offline", "locality": "local", "vendor": "credence"} | values
    with scoped_transaction(scope_of(tenant)):
        return Provider.objects.create(
            tenant=tenant, name=values.pop("name", f"provider-{next(_numbers)}"), **values
        )


def make_agent(tenant: Tenant, provider: Provider | None = None, **values: Any) -> Agent:
    """An agent with a window of 8,192 tokens."""
    values = {
        "name": f"agent-{next(_numbers)}",
        "model": "offline",
        "context_window": 8192,
        "max_output_tokens": 512,
    } | values
    provider = provider or make_provider(tenant)
    with scoped_transaction(scope_of(tenant)):
        return Agent.objects.create(tenant=tenant, provider=provider, **values)


def make_key(
    tenant: Tenant, scopes: Collection[str] = tuple(KeyScope.values), **limits: Any
) -> MadeKey:
    """A key with every scope, or those given."""
    scope = scope_of(tenant)
    now = timezone.now()
    with scoped_transaction(scope):
        made = create_key(scope=scope, scopes=scopes, now=now, **limits)
    return MadeKey(
        id=made.key.id, secret=made.secret, principal=authenticate(raw=made.secret, now=now)
    )


def make_thread(agent: Agent, end_user: EndUser, **values: Any) -> Thread:
    """A thread without runs."""
    with scoped_transaction(_of(agent.tenant_id)):
        return Thread.objects.create(
            tenant_id=agent.tenant_id, agent=agent, end_user=end_user, **values
        )


def make_run(thread: Thread, **values: Any) -> Run:
    """The thread's next run, recorded as succeeded unless told otherwise."""
    scope = _of(thread.tenant_id)
    values = {
        "status": "succeeded",
        "origin": "api",
        "input": "question",
        "output": "answer",
        "created_at": NOW,
        "finished_at": NOW,
    } | values
    with scoped_transaction(scope):
        thread.refresh_from_db()
        seq, thread.next_seq = thread.next_seq, thread.next_seq + 1
        thread.run_count += 1
        thread.save(update_fields=["next_seq", "run_count"])
        return Run.objects.create(
            tenant_id=thread.tenant_id,
            thread=thread,
            agent_id=thread.agent_id,
            end_user_id=thread.end_user_id,
            seq=seq,
            **values,
        )


def make_artifact(run: Run, **values: Any) -> Artifact:
    """A file of a run."""
    content = str(values.pop("content", "# 试卷"))
    values = {"name": f"file-{next(_numbers)}.md", "bytes": len(content.encode())} | values
    with scoped_transaction(_of(run.tenant_id)):
        return Artifact.objects.create(
            tenant_id=run.tenant_id,
            run=run,
            thread_id=run.thread_id,
            end_user_id=run.end_user_id,
            content=content,
            created_at=NOW,
            **values,
        )
