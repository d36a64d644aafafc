"""The supervisor: one cluster for the control queue and one for each memory lane, kept alive.

The queue's library does not notice a worker that was killed while idle; it then stands still for
ever. So life is proved through the queue itself: the supervisor rings, the worker answers in the
lane's row, and a cluster that does not answer, or lets due jobs wait, is replaced as a whole.
"""

from __future__ import annotations

import logging
import subprocess
import time
from dataclasses import dataclass
from datetime import datetime
from threading import Event
from typing import Final

from django.db import DatabaseError, connection

from memory import lanes
from memory.conf import heartbeat_seconds, job_timeout_seconds, lane_count
from memory.jobs.bell import has_unanswered, ring, ring_control, silence
from memory.jobs.book import due_jobs
from threads.clusters import Cluster, end_group, spawn

logger = logging.getLogger("credence.supervisor")
_MOST_UNANSWERED: Final = 3
_START_GRACE_SECONDS: Final = 30.0
_STOP_GRACE_SECONDS: Final = 5.0
# A cluster that answers nothing is not waited for long: meanwhile nobody looks after the others.
_CONDEMNED_GRACE_SECONDS: Final = 1.0
_MOST_LOOK_SECONDS: Final = 5.0
_MOST_RESTART_DELAY_SECONDS: Final = 30.0


@dataclass(slots=True, kw_only=True)
class Watch:
    """One cluster and what is known of its life. Times are seconds of the monotonic clock.

    Attributes:
        lane: The memory lane's number; None for the control queue.
        started_at: When the cluster was last started.
        rung_at: When it was last rung for a sign of life.
        seen: Its last sign of life, by the database's clock.
        unanswered: Rings without an answer, in a row.
        due_since: Since when jobs wait without any sign of life.
        has_looked: `seen` was read at least once since it was started.
        has_answered: It has shown life since it was started.
        starts_at: When to start it, while it is down.
        quick_ends: How often in a row it ended within the grace of a start without any sign of
            life; one that had worked and was killed is started again at once.
    """

    cluster: Cluster
    lane: int | None
    started_at: float = 0.0
    rung_at: float = 0.0
    seen: datetime | None = None
    unanswered: int = 0
    due_since: float | None = None
    has_looked: bool = False
    has_answered: bool = False
    starts_at: float = 0.0
    quick_ends: int = 0
    is_up: bool = False

    def note_life(self, heartbeat_at: datetime | None) -> None:
        """Take note of the lane's row; any change of it since the first look is an answer."""
        if not self.has_looked:
            self.seen, self.has_looked = heartbeat_at, True
        elif heartbeat_at != self.seen:
            self.seen, self.unanswered, self.due_since = heartbeat_at, 0, None
            self.has_answered = True

    def is_starting(self, *, now: float) -> bool:
        """Say whether it was started a moment ago and may still be loading."""
        return not self.has_answered and now - self.started_at < _START_GRACE_SECONDS


class Supervisor:
    """Keeps the clusters alive until told to stop; single-threaded."""

    def __init__(self) -> None:
        """Plan one cluster for the control queue and one for each memory lane."""
        self._period = float(heartbeat_seconds())
        self._sweep: subprocess.Popen[bytes] | None = None
        self.watches = [Watch(cluster=Cluster(name=lanes.CONTROL), lane=None)]
        self.watches += [
            Watch(cluster=Cluster(name=lanes.lane_name(lane)), lane=lane)
            for lane in range(lane_count())
        ]

    def run(self, *, should_stop: Event) -> None:
        """Supervise until `should_stop` is set, then stop every cluster, which takes seconds."""
        look_seconds = min(_MOST_LOOK_SECONDS, self._period / 4)
        try:
            while not should_stop.is_set():
                self.look(now=time.monotonic())
                should_stop.wait(look_seconds)
        finally:
            self.stop()

    def look(self, *, now: float) -> None:
        """Look at every cluster once; a database out of reach condemns nobody."""
        for watch in self.watches:
            self._keep_up(watch, now=now)
        try:
            states = lanes.states()
            for watch in self.watches:
                self._check(watch, state=states.get(watch.cluster.name), now=now)
        except DatabaseError as error:
            logger.warning("database_unreachable", extra={"code": type(error).__name__})
            connection.close()

    def stop(self) -> None:
        """Stop all clusters: all are asked first, so that the grace is waited for once."""
        for watch in self.watches:
            watch.cluster.ask_to_stop()
        until = time.monotonic() + _STOP_GRACE_SECONDS
        for watch in self.watches:
            watch.cluster.stop(grace_seconds=max(until - time.monotonic(), 0))
        if self._sweep is not None:
            end_group(self._sweep)
            self._sweep = None

    def _keep_up(self, watch: Watch, *, now: float) -> None:
        if watch.is_up and watch.cluster.has_ended():
            self._take_down(watch, reason="ended", now=now)
        if not watch.is_up and now >= watch.starts_at:
            watch.cluster.start()
            watch.is_up, watch.started_at, watch.rung_at = True, now, now - self._period
            watch.has_answered, watch.unanswered, watch.due_since = False, 0, None
            watch.has_looked = False  # what its predecessor showed last is no answer of its own

    def _take_down(self, watch: Watch, *, reason: str, now: float) -> None:
        """Stop a cluster and plan its next start: at once, or later the oftener it dies young."""
        name = watch.cluster.name
        logger.warning("cluster_restarted", extra={"lane": name, "code": reason})
        watch.cluster.stop(grace_seconds=0 if reason == "ended" else _CONDEMNED_GRACE_SECONDS)
        died_young = watch.is_starting(now=now)
        watch.quick_ends = watch.quick_ends + 1 if died_young else 0
        delay = min(2.0**watch.quick_ends - 1, _MOST_RESTART_DELAY_SECONDS)
        watch.is_up, watch.starts_at = False, now + delay

    def _check(self, watch: Watch, *, state: lanes.LaneState | None, now: float) -> None:
        """Ring for a sign of life when it is time, and take the cluster down if it is silent."""
        if not watch.is_up:
            return
        watch.note_life(state.heartbeat_at if state else None)
        if state is not None and state.is_working:
            watch.unanswered, watch.due_since, watch.rung_at = 0, None, now
            return
        self._look_for_due_jobs(watch, now=now)
        if now - watch.rung_at >= self._period:
            self._ring_for_life(watch, now=now)
        reason = self._verdict(watch, now=now)
        if reason is not None:
            self._take_down(watch, reason=reason, now=now)
            silence(queue=watch.cluster.name)

    def _look_for_due_jobs(self, watch: Watch, *, now: float) -> None:
        if watch.lane is None:
            return
        if not due_jobs(lane=watch.lane, most=1):
            watch.due_since = None
        elif watch.due_since is None:
            watch.due_since = now
            ring(watch.lane)

    def _ring_for_life(self, watch: Watch, *, now: float) -> None:
        if watch.lane is None:
            ring_control()
        else:
            ring(watch.lane)
        watch.rung_at = now
        watch.unanswered += 1
        if watch.lane is None and watch.unanswered > 1 and not watch.is_starting(now=now):
            self._sweep_here()

    def _sweep_here(self) -> None:
        """Sweep in a process of its own while the control queue is silent."""
        if self._sweep is not None and self._sweep.poll() is None:
            return
        self._sweep = spawn("sweep")

    def _verdict(self, watch: Watch, *, now: float) -> str | None:
        """Return why the cluster has to go, if it has to."""
        if watch.is_starting(now=now):
            return None
        if watch.unanswered > _MOST_UNANSWERED:
            return "silent"
        if watch.due_since is not None and now - watch.due_since > self._period:
            return "jobs_wait"
        seconds = 2 * job_timeout_seconds() + self._period
        if has_unanswered(queue=watch.cluster.name, seconds=seconds):
            return "unacknowledged"
        return None
