"""A fake server, and calls to it as a pipeline would make them."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterator
from typing import Any

import pytest

from memory.providers.base import (
    ChatAnswer,
    ChatEvent,
    ChatMessage,
    ChatRequest,
    ProviderConfig,
    ProviderTimeouts,
    complete,
)
from memory.providers.openai_compatible import OpenAICompatibleProvider
from memory.providers.retry import RetryPolicy
from tests.fakes.openai_server import FakeOpenAI

KEY = "sk-test-4f9aQ7zL2mX8"
QUICK = RetryPolicy(base_seconds=0.001)


class Caller:
    """Calls the fake server through a fresh provider, in a loop of its own."""

    def __init__(self, server: FakeOpenAI) -> None:
        self.server = server
        self.waits: list[float] = []

    def config(self, **changes: Any) -> ProviderConfig:
        timeouts = ProviderTimeouts(**changes.pop("timeouts", {}))
        values: dict[str, Any] = {
            "id": "prov_1",
            "kind": "openai_compatible",
            "base_url": self.server.base_url,
            "api_key": KEY,
            "locality": "local",
            "vendor": "fake",
            "timeouts": timeouts,
            "allowed_hosts": ("loopback",),
        }
        return ProviderConfig(**{**values, **changes})

    async def sleep(self, seconds: float) -> None:
        self.waits.append(seconds)

    def provider(self, **changes: Any) -> OpenAICompatibleProvider:
        resolve = changes.pop("resolve", None)
        return OpenAICompatibleProvider(
            self.config(**changes), retry_policy=QUICK, resolve=resolve, sleep=self.sleep
        )

    def use(
        self, work: Callable[[OpenAICompatibleProvider], Awaitable[Any]], **changes: Any
    ) -> Any:
        async def run() -> Any:
            provider = self.provider(**changes)
            try:
                return await work(provider)
            finally:
                await provider.aclose()

        return asyncio.run(run())

    def complete(self, prompt: str = "你好, hello?", **changes: Any) -> ChatAnswer:
        asked = request(prompt, tools=changes.pop("tools", ()))
        answer: ChatAnswer = self.use(lambda provider: complete(provider, request=asked), **changes)
        return answer

    def events(self, prompt: str = "hi", **changes: Any) -> list[ChatEvent]:
        async def collect(provider: OpenAICompatibleProvider) -> list[ChatEvent]:
            return [event async for event in provider.stream(request=request(prompt))]

        events: list[ChatEvent] = self.use(collect, **changes)
        return events


def request(prompt: str = "hi", *, tools: Any = (), system: str = "Be brief.") -> ChatRequest:
    messages = (
        ChatMessage(role="system", content=system),
        ChatMessage(role="user", content=prompt),
    )
    return ChatRequest(model="fake-1", messages=messages, max_output_tokens=64, tools=tools)


@pytest.fixture
def server() -> Iterator[FakeOpenAI]:
    with FakeOpenAI() as running:
        yield running


@pytest.fixture
def caller(server: FakeOpenAI) -> Caller:
    return Caller(server)
