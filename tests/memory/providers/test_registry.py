"""Providers are made once per configuration and loop, and closed without hurting a stream."""

from __future__ import annotations

import asyncio
from contextlib import aclosing

import pytest

from memory.providers import registry
from memory.providers.base import TextDelta, complete
from memory.providers.errors import ProviderMisconfiguredError
from memory.providers.offline import OfflineProvider
from tests.fakes.openai_replies import Answer, Hang
from tests.fakes.openai_server import FakeOpenAI
from tests.memory.providers.conftest import Caller, request


def test_same_configuration_and_loop_share_one_provider(caller: Caller) -> None:
    async def run() -> None:
        first = registry.chat_provider(caller.config())
        assert registry.chat_provider(caller.config()) is first
        assert registry.chat_provider(caller.config(api_key="sk-other")) is not first
        await registry.close_all()
        assert registry.chat_provider(caller.config()) is not first

    registry.run(run())


def test_each_loop_has_its_own_and_closed_loops_are_forgotten(
    caller: Caller, server: FakeOpenAI
) -> None:
    async def ask() -> str:
        return (await complete(registry.chat_provider(caller.config()), request=request("x"))).text

    assert [registry.run(ask()) for _ in range(3)] == ["x", "x", "x"]
    assert server.connections == 3
    assert not registry._live


def test_cache_is_bounded_and_eviction_lets_a_stream_finish(
    caller: Caller, server: FakeOpenAI
) -> None:
    hang = Hang()
    server.script(Answer(deltas=["a", "b"], gate=hang.release, gate_after=1))

    async def run() -> str:
        seen = ""
        provider = registry.chat_provider(caller.config())
        async with aclosing(provider.stream(request=request())) as events:
            async for event in events:
                if isinstance(event, TextDelta):
                    seen += event.text
                if seen == "a":
                    for at in range(registry.MAX_PROVIDERS):
                        registry.chat_provider(caller.config(id=f"other_{at}"))
                    assert len(registry._live) == registry.MAX_PROVIDERS
                    assert registry.chat_provider(caller.config()) is not provider
                    hang.release.set()
        assert (await complete(provider, request=request("late"))).text == "late"
        await asyncio.to_thread(server.drop_connections)
        return seen

    assert registry.run(run()) == "ab"


def test_close_all_ends_the_connections(caller: Caller, server: FakeOpenAI) -> None:
    async def run() -> None:
        await complete(registry.chat_provider(caller.config()), request=request())
        assert server.open_connections == 1
        await registry.close_all()
        await asyncio.to_thread(server.drop_connections)
        assert server.open_connections == 0

    registry.run(run())


def test_offline_needs_no_loop_and_unknown_kinds_are_refused(caller: Caller) -> None:
    assert isinstance(registry.chat_provider(caller.config(kind="offline")), OfflineProvider)
    with pytest.raises(ProviderMisconfiguredError):
        registry.chat_provider(caller.config(kind="telepathy"))
