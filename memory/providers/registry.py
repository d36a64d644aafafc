"""One live provider per configuration and event loop, so that connections are used again."""

from __future__ import annotations

import asyncio
from collections import OrderedDict
from collections.abc import Coroutine
from threading import Lock
from typing import Any, TypeVar

from memory.providers.base import ChatProvider, ProviderConfig
from memory.providers.errors import ProviderMisconfiguredError
from memory.providers.offline import OfflineProvider
from memory.providers.openai_compatible import OpenAICompatibleProvider

T = TypeVar("T")
MAX_PROVIDERS = 64

_Key = tuple[ProviderConfig, asyncio.AbstractEventLoop]
_live: OrderedDict[_Key, OpenAICompatibleProvider] = OrderedDict()
_lock = Lock()
_retiring: set[asyncio.Task[None]] = set()


def chat_provider(config: ProviderConfig) -> ChatProvider:
    """Return the provider of `config` for the running event loop, made on first use.

    At most 64 are kept; the one unused for longest ends when its running streams have. Cost:
    a dictionary look-up, or about 5 ms for a new one.

    Raises:
        ProviderMisconfiguredError: when the kind is unknown or the base URL cannot be used.
        ProviderRefusedHostError: when the host is not on the operator's list.
    """
    if config.kind == "offline":
        return OfflineProvider()
    if config.kind != "openai_compatible":
        raise ProviderMisconfiguredError("The provider's kind is unknown.")
    key = (config, asyncio.get_running_loop())
    with _lock:
        _forget_closed_loops()
        if key not in _live:
            _live[key] = OpenAICompatibleProvider(config)
        _live.move_to_end(key)
        evicted = [_live.popitem(last=False) for _ in range(len(_live) - MAX_PROVIDERS)]
        provider = _live[key]
    for (_, loop), retired in evicted:
        loop.call_soon_threadsafe(_retire, retired)
    return provider


async def close_all() -> None:
    """Close the connections of the running loop at once; other loops close theirs when idle."""
    here = asyncio.get_running_loop()
    with _lock:
        _forget_closed_loops()
        entries = list(_live.items())
        _live.clear()
    for (_, loop), provider in entries:
        if loop is here:
            await provider.aclose()
        else:
            loop.call_soon_threadsafe(_retire, provider)


async def close_loop() -> None:
    """Close the connections of the running loop, and no other's."""
    here = asyncio.get_running_loop()
    with _lock:
        keys = [key for key in _live if key[1] is here]
        providers = [_live.pop(key) for key in keys]
    for provider in providers:
        await provider.aclose()


def run(work: Coroutine[Any, Any, T]) -> T:
    """Run `work` in a loop of its own, as the worker does, and close what it opened."""
    return asyncio.run(_closing(work))


async def _closing(work: Coroutine[Any, Any, T]) -> T:
    try:
        return await work
    finally:
        await close_loop()


def _retire(provider: OpenAICompatibleProvider) -> None:
    task = asyncio.get_running_loop().create_task(provider.retire())
    _retiring.add(task)  # a loop holds its tasks weakly
    task.add_done_callback(_retiring.discard)


def _forget_closed_loops() -> None:
    for key in [key for key in _live if key[1].is_closed()]:
        del _live[key]
