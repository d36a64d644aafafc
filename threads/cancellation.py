"""Noticing that a run being driven here was ended elsewhere: one query a second for all of them.

A cancel call may reach another process than the one that talks to the provider. Whoever drives a
run lists it here; one task a loop asks the database which of them have ended, and cancels those.
"""

from __future__ import annotations

import asyncio
import logging
from dataclasses import dataclass, field
from functools import partial
from typing import Final
from weakref import WeakKeyDictionary

from django.db import Error as DatabaseError

from memory.db_threads import in_database_thread
from memory.rls import scoped_transaction
from memory.scope import Scope
from threads.models import Run, RunStatus
from threads.pipeline import PreparedRun

POLL_SECONDS: Final = 1.0
_log = logging.getLogger("credence.runs")


@dataclass
class _Watch:
    """The runs one event loop drives, and the task that looks after them."""

    driven: dict[str, tuple[str, asyncio.Task[object]]] = field(default_factory=dict)
    watcher: asyncio.Task[None] | None = None


_watches: WeakKeyDictionary[asyncio.AbstractEventLoop, _Watch] = WeakKeyDictionary()


def _here() -> _Watch:
    return _watches.setdefault(asyncio.get_running_loop(), _Watch())


def watch(*, prepared: PreparedRun, task: asyncio.Task[object]) -> None:
    """Have `task` cancelled soon after its run was ended by anybody else."""
    here = _here()
    here.driven[prepared.run_id] = (prepared.scope.tenant_id, task)
    if here.watcher is None or here.watcher.done():
        here.watcher = asyncio.create_task(_look_after(here))


def forget(*, run_id: str) -> None:
    """Stop looking after a run."""
    _here().driven.pop(run_id, None)


async def _look_after(here: _Watch) -> None:
    try:
        await _look(here)
    finally:
        here.watcher = None  # a finished task would keep its loop alive


async def _look(here: _Watch) -> None:
    while here.driven:
        await asyncio.sleep(POLL_SECONDS)
        wanted = {run_id: tenant_id for run_id, (tenant_id, _) in here.driven.items()}
        try:
            ended = await in_database_thread(partial(_ended, wanted))
        except DatabaseError:
            _log.warning("cancel watch could not reach the database")
            continue
        for run_id in ended:
            _, task = here.driven.pop(run_id, (None, None))
            if task is not None:
                task.cancel()


def _ended(wanted: dict[str, str]) -> list[str]:
    """Return which of these runs have ended, or are there no more. One query, one transaction."""
    if not wanted:
        return []
    scope = Scope(tenant_ids=tuple(sorted(set(wanted.values()))), principal_id="cancel-watch")
    with scoped_transaction(scope):
        rows = Run.objects.in_scope(scope).filter(pk__in=list(wanted))
        unfinished = rows.filter(status__in=(RunStatus.QUEUED, RunStatus.RUNNING))
        return sorted(set(wanted) - set(unfinished.values_list("id", flat=True)))
