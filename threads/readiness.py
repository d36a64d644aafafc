"""Whether this instance can do its work: database, migrations, and lanes that show life."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Final

from django.db import DatabaseError, InterfaceError, connection
from django.db.migrations.executor import MigrationExecutor

from governance.erasure.restored import RestoredDatabaseError, is_restored
from memory import lanes
from memory.conf import heartbeat_seconds, lane_count
from memory.errors import CredenceError

_STALE_AFTER_BEATS: Final = 3


@dataclass(frozen=True, slots=True, kw_only=True)
class NotReady:
    """One part that keeps the instance from working."""

    part: str
    code: str
    detail: str


def missing_parts(*, now: datetime) -> tuple[NotReady, ...]:
    """Return what is missing, nothing if ready. Cost: two statements and a look at the migrations.

    Nothing of a tenant is read.
    """
    try:
        executor = MigrationExecutor(connection)
        if executor.migration_plan(executor.loader.graph.leaf_nodes()):
            return (_part("migrations", "pending", "Migrations wait to be applied."),)
        return (*_restored(), *_stale_lanes(now))
    except (DatabaseError, InterfaceError):
        return (_part("database", "unreachable", "The database does not answer."),)


def _restored() -> tuple[NotReady, ...]:
    """Return that erased persons are back, or that nobody can tell."""
    try:
        if not is_restored():
            return ()
        error: CredenceError = RestoredDatabaseError()
    except CredenceError as damaged:
        error = damaged
    return (_part("erasures", error.code, error.detail),)


def _stale_lanes(now: datetime) -> tuple[NotReady, ...]:
    """Return the queues without a sign of life within three heartbeats."""
    states = lanes.states()
    wanted = [lanes.CONTROL, *(lanes.lane_name(lane) for lane in range(lane_count()))]
    return tuple(
        _part("lanes", "stale", f"No sign of life from the queue {name}; is a worker running?")
        for name in wanted
        if not is_alive(states.get(name), now=now)
    )


def is_alive(state: lanes.LaneState | None, *, now: datetime) -> bool:
    """Say whether a lane works, however long its job takes, or answered a bell lately."""
    if state is None or state.heartbeat_at is None:
        return False
    oldest = now - timedelta(seconds=_STALE_AFTER_BEATS * heartbeat_seconds())
    return state.is_working or state.heartbeat_at >= oldest


def _part(part: str, code: str, detail: str) -> NotReady:
    return NotReady(part=part, code=code, detail=detail)
