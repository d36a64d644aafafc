"""Server-sent events: one `event:` and one `data:` line each, and comments while nothing happens.

Source: the server-sent events section of the HTML standard.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Mapping
from contextlib import suppress
from typing import Any, Final, TypeVar

from threads.api.renderers import to_json

T = TypeVar("T")
CONTENT_TYPE: Final = "text/event-stream"
HEADERS: Final = {"Cache-Control": "private, no-store", "X-Accel-Buffering": "no"}
KEEP_ALIVE: Final = b": keep-alive\n\n"


def event(name: str, data: Mapping[str, Any]) -> bytes:
    """Return one event; line breaks inside the data are escaped by JSON."""
    return f"event: {name}\ndata: {to_json(data)}\n\n".encode()


async def or_silence(items: AsyncIterator[T], *, seconds: float) -> AsyncIterator[T | None]:
    """Yield the items as they come, and None whenever there was none for `seconds`.

    The wait for an item goes on across a silence: nothing is lost. Closing this stops the wait.
    """
    pending: asyncio.Task[T] | None = None
    try:
        while True:
            if pending is None:
                pending = asyncio.create_task(_next(items))
            done, _ = await asyncio.wait({pending}, timeout=seconds)
            if not done:
                yield None
                continue
            task, pending = pending, None
            try:
                item = task.result()
            except StopAsyncIteration:
                return
            yield item
    finally:
        if pending is not None:
            pending.cancel()
            with suppress(asyncio.CancelledError, StopAsyncIteration):
                await pending


async def _next(items: AsyncIterator[T]) -> T:
    return await anext(items)
