"""A tenant whose agent talks to a scripted server, played through the ASGI handler."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from dataclasses import dataclass
from typing import Any

from memory.db_threads import in_database_thread
from memory.models import EndUser, Tenant
from memory.providers import registry
from memory.rls import scoped_transaction
from tests.asgi_client import Answer, AsgiClient
from tests.factories import (
    MadeKey,
    scope_of,
)
from tests.fakes.openai_server import FakeOpenAI
from threads.models import Agent, IdempotencyRecord, Run

ASK = {"input": "出一份数据结构试卷", "user_id": "teacher-7"}


@dataclass
class Stage:
    """A tenant whose agent talks to a scripted server."""

    server: FakeOpenAI
    tenant: Tenant
    agent: Agent
    key: MadeKey
    person: EndUser

    @property
    def run_path(self) -> str:
        return f"/v1/agents/{self.agent.pk}/run"

    @property
    def stream_path(self) -> str:
        return f"{self.run_path}/stream"

    def runs(self) -> list[Run]:
        scope = scope_of(self.tenant)
        with scoped_transaction(scope):
            return list(Run.objects.in_scope(scope).order_by("created_at", "id"))

    def records(self) -> list[IdempotencyRecord]:
        scope = scope_of(self.tenant)
        with scoped_transaction(scope):
            return list(IdempotencyRecord.objects.in_scope(scope))

    def age_records(self, **values: Any) -> None:
        scope = scope_of(self.tenant)
        with scoped_transaction(scope):
            IdempotencyRecord.objects.in_scope(scope).update(**values)

    def play(self, scene: Callable[[AsgiClient], Coroutine[Any, Any, Any]]) -> Any:
        """Run a coroutine against a fresh client, in a loop of its own."""

        async def whole() -> Any:
            client = AsgiClient(self.key.headers)
            try:
                return await scene(client)
            finally:
                await registry.close_loop()

        return asyncio.run(whole())


async def ended(stage: Stage) -> None:
    """Wait until the only run has ended; that is in the database, where nothing can be awaited."""
    for _ in range(500):
        if (await in_database_thread(stage.runs))[0].status != "running":
            return
        await asyncio.sleep(0.02)
    raise TimeoutError


def code_of(answer: Answer) -> tuple[int, str]:
    assert answer.headers["content-type"] == "application/problem+json"
    assert answer.headers["x-request-id"] == answer.json()["request_id"]
    return answer.status, answer.json()["code"]
