"""One event loop in a thread of its own, so that synchronous callers keep connections open.

A loop for each call, as jobs have it for chat, would cost each search a connection and a handshake.
"""

from __future__ import annotations

import asyncio
import os
import threading
from collections.abc import Coroutine
from concurrent.futures import TimeoutError as FutureTimeoutError
from dataclasses import dataclass
from typing import Any, Final, TypeVar

T = TypeVar("T")
_START_SECONDS: Final = 10.0
_GRACE_SECONDS: Final = 1.0


@dataclass(frozen=True, slots=True, kw_only=True)
class _Running:
    loop: asyncio.AbstractEventLoop
    thread: threading.Thread
    process_id: int


_lock = threading.Lock()
_running: list[_Running] = []


def background_loop() -> asyncio.AbstractEventLoop:
    """Return this process's loop, started on first use; a forked process starts its own."""
    with _lock:
        if _running and _running[0].process_id == os.getpid() and _running[0].thread.is_alive():
            return _running[0].loop
        _running[:] = [_start()]
        return _running[0].loop


def run_in_background(work: Coroutine[Any, Any, T], *, seconds: float) -> T:
    """Return what `work` returns; it bounds itself, and is given up a second after `seconds`.

    Raises:
        TimeoutError: It did not end.
    """
    future = asyncio.run_coroutine_threadsafe(work, background_loop())
    try:
        return future.result(timeout=seconds + _GRACE_SECONDS)
    except FutureTimeoutError:
        raise TimeoutError from None
    finally:
        future.cancel()  # nothing where it has ended; also after the alarm of a job


def stop() -> None:
    """End the loop and its thread, if there is one."""
    with _lock:
        for running in _running:
            running.loop.call_soon_threadsafe(running.loop.stop)
            running.thread.join(_START_SECONDS)
        _running.clear()


def _start() -> _Running:
    loop = asyncio.new_event_loop()
    is_ready = threading.Event()
    loop.call_soon(is_ready.set)
    thread = threading.Thread(target=_serve, args=(loop,), name="embeddings", daemon=True)
    thread.start()
    is_ready.wait(_START_SECONDS)
    return _Running(loop=loop, thread=thread, process_id=os.getpid())


def _serve(loop: asyncio.AbstractEventLoop) -> None:
    asyncio.set_event_loop(loop)
    try:
        loop.run_forever()
    finally:
        loop.run_until_complete(loop.shutdown_asyncgens())
        loop.close()
