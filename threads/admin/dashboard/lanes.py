"""The queues that a tenant's work goes through: whether they show life, and how late the work is."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from typing import Any

from django.utils.functional import Promise
from django.utils.translation import gettext_lazy as _

from memory import lanes
from threads.readiness import is_alive


@dataclass(frozen=True, slots=True, kw_only=True)
class LaneSign:
    """What one queue shows.

    Attributes:
        seen_at: Its last sign of life; None if there never was one.
        is_alive: As readiness judges.
    """

    name: str
    title: str | Promise
    seen_at: datetime | None
    is_working: bool
    is_alive: bool


def signs_of(*, tenant_id: str, now: datetime) -> tuple[LaneSign, ...]:
    """Return the signs of the tenant's own lane and of the control queue. Cost: one statement."""
    states = lanes.states()
    named: tuple[tuple[str, Any], ...] = (
        (lanes.lane_name(lanes.lane_of(tenant_id)), _("memory work")),
        (lanes.CONTROL, _("erasing, sweeping")),
    )
    return tuple(_sign(name, title, states.get(name), now) for name, title in named)


def _sign(name: str, title: str, state: lanes.LaneState | None, now: datetime) -> LaneSign:
    return LaneSign(
        name=name,
        title=title,
        seen_at=state.heartbeat_at if state else None,
        is_working=state is not None and state.is_working,
        is_alive=is_alive(state, now=now),
    )
