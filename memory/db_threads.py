"""The bounded pool of threads that hold the database connections of an asynchronous process.

Everything that talks to the database runs here, so a process has at most as many connections as
this pool has threads, however many streams wait for a model: those hold neither.
"""

from __future__ import annotations

import asyncio
import contextvars
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import cache
from typing import TypeVar

from django.db import connections

from memory.conf import web_threads

T = TypeVar("T")


@cache
def _pool() -> ThreadPoolExecutor:
    return ThreadPoolExecutor(max_workers=web_threads(), thread_name_prefix="database")


async def in_database_thread(work: Callable[[], T]) -> T:
    """Run `work` on a thread of the pool and return its result; waits while all are busy.

    A cancelled caller stops waiting, but `work` that has begun goes on to its end, so that no
    transaction is left half-way.
    """
    context = contextvars.copy_context()
    loop = asyncio.get_running_loop()
    return await loop.run_in_executor(_pool(), lambda: context.run(_with_fresh_connections, work))


def _with_fresh_connections(work: Callable[[], T]) -> T:
    for connection in connections.all(initialized_only=True):
        connection.close_if_unusable_or_obsolete()
    return work()
