"""Lanes: which serial queue a tenant's work goes through, and the lease that keeps it serial.

One process at a time serves a lane. It holds the lane's row by a conditional update with an epoch,
timed by the database's clock; whoever finds the epoch changed has lost the lane and stops.
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from django.db import connection

from memory.conf import lane_count
from memory.errors import CredenceError
from memory.models import Lane
from memory.processes import holder_is_lost

CONTROL = "control"
_TAKE = """
    INSERT INTO memory_lane AS lane (name, holder, epoch, lease_until, heartbeat_at)
    VALUES (%(name)s, %(holder)s, 1,
        statement_timestamp() + make_interval(secs => %(seconds)s), statement_timestamp())
    ON CONFLICT (name) DO UPDATE SET
        holder = EXCLUDED.holder, epoch = lane.epoch + 1,
        lease_until = EXCLUDED.lease_until, heartbeat_at = EXCLUDED.heartbeat_at
    WHERE lane.lease_until IS NULL OR lane.lease_until < statement_timestamp()
        OR lane.epoch = %(lost_epoch)s
    RETURNING lane.epoch
"""
_RENEW = """
    UPDATE memory_lane SET heartbeat_at = statement_timestamp(),
        lease_until = statement_timestamp() + make_interval(secs => %s)
    WHERE name = %s AND epoch = %s
"""
_RELEASE = """
    UPDATE memory_lane SET holder = '', lease_until = NULL, heartbeat_at = statement_timestamp()
    WHERE name = %s AND epoch = %s
"""
_BEAT = """
    INSERT INTO memory_lane (name, holder, epoch, heartbeat_at)
    VALUES (%s, '', 0, statement_timestamp())
    ON CONFLICT (name) DO UPDATE SET heartbeat_at = EXCLUDED.heartbeat_at
"""
_STATES = """
    SELECT name, holder, heartbeat_at, coalesce(lease_until >= statement_timestamp(), false)
    FROM memory_lane
"""


class LaneLostError(CredenceError):
    """Another process serves this lane now."""

    code = "lane_lost"


@dataclass(frozen=True, slots=True, kw_only=True)
class LaneLease:
    """The right to serve one lane, for as long as the row's epoch is this one."""

    name: str
    epoch: int


@dataclass(frozen=True, slots=True, kw_only=True)
class LaneState:
    """What a lane shows.

    Attributes:
        name: The queue's name.
        heartbeat_at: Its last sign of life, by the database's clock.
        is_working: A living process holds it.
    """

    name: str
    heartbeat_at: datetime | None
    is_working: bool


def lane_key(tenant_id: str) -> int:
    """Return the stable hash of a tenant that picks its lane, 0 to 2**31 - 1."""
    return int.from_bytes(hashlib.sha256(tenant_id.encode()).digest()[:4], "big") >> 1


def lane_of(tenant_id: str) -> int:
    """Return the lane that all work of a tenant goes through, so that its order holds."""
    return lane_key(tenant_id) % lane_count()


def lane_name(lane: int) -> str:
    """Return the name of a memory lane, which is its queue's and its cluster's too."""
    return f"memory{lane}"


def take(*, name: str, holder: str, seconds: float) -> LaneLease | None:
    """Take a lane for `seconds`, or return None while a living process holds it.

    A holder that died on this very machine is found out at once; elsewhere its lease has to run
    out. Cost: one statement, three if the lane is held.
    """
    epoch = _take(name=name, holder=holder, seconds=seconds, lost_epoch=-1)
    if epoch is None:
        lost_epoch = _lost_epoch(name)
        if lost_epoch is None:
            return None
        epoch = _take(name=name, holder=holder, seconds=seconds, lost_epoch=lost_epoch)
    return None if epoch is None else LaneLease(name=name, epoch=epoch)


def _take(*, name: str, holder: str, seconds: float, lost_epoch: int) -> int | None:
    values: dict[str, Any] = {
        "name": name,
        "holder": holder,
        "seconds": seconds,
        "lost_epoch": lost_epoch,
    }
    with connection.cursor() as cursor:
        cursor.execute(_TAKE, values)
        row = cursor.fetchone()
    return None if row is None else int(row[0])


def _lost_epoch(name: str) -> int | None:
    lane = Lane.objects.filter(name=name).first()
    return lane.epoch if lane is not None and holder_is_lost(lane.holder) else None


def renew(*, lease: LaneLease, seconds: float) -> None:
    """Hold the lane for another `seconds` from now, and show life. Cost: one statement.

    Raises:
        LaneLostError: Somebody else took it meanwhile.
    """
    with connection.cursor() as cursor:
        cursor.execute(_RENEW, (seconds, lease.name, lease.epoch))
        if cursor.rowcount == 0:
            raise LaneLostError


def release(*, lease: LaneLease) -> None:
    """Give the lane back; without effect if it is somebody else's by now."""
    with connection.cursor() as cursor:
        cursor.execute(_RELEASE, (lease.name, lease.epoch))


def beat(*, name: str) -> None:
    """Show life in a queue that needs no lease."""
    with connection.cursor() as cursor:
        cursor.execute(_BEAT, (name,))


def states() -> dict[str, LaneState]:
    """Return what every lane shows, by name. Cost: one statement."""
    with connection.cursor() as cursor:
        cursor.execute(_STATES)
        rows = cursor.fetchall()
    return {
        name: LaneState(
            name=name,
            heartbeat_at=heartbeat_at,
            is_working=is_leased and not holder_is_lost(holder),
        )
        for name, holder, heartbeat_at, is_leased in rows
    }
