"""Transactions that a run waits for: tried again when the database was lost, never half-awaited."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Coroutine
from typing import Any, Final, TypeVar

from django.db import InterfaceError, OperationalError

from memory.db_threads import in_database_thread

T = TypeVar("T")
_WAITS_SECONDS: Final = (0.1, 0.3, 1.0, 3.0, 6.0)
_log = logging.getLogger("credence.runs")


async def committed(work: Callable[[], T]) -> T:
    """Run a transaction, again on a fresh connection if the database was lost under it.

    `work` must be safe to repeat. Every end of a run is a conditional update: a repeat of one whose
    commit came through although its acknowledgement did not changes nothing. Gives up after about
    ten seconds.
    """
    for wait_seconds in _WAITS_SECONDS:
        try:
            return await in_database_thread(work)
        except (OperationalError, InterfaceError):
            _log.warning("a run's transaction is tried again: the database was not there")
            await asyncio.sleep(wait_seconds)
    return await in_database_thread(work)


async def to_its_end(work: Coroutine[Any, Any, T]) -> T:
    """Await `work` to its end, whoever cancels the waiting; only its own cancelling ends it."""
    inner = asyncio.ensure_future(work)
    while True:
        try:
            return await asyncio.shield(inner)
        except asyncio.CancelledError:
            if inner.cancelled():
                raise
            if inner.done():
                return inner.result()
