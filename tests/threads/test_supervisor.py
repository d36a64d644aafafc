"""The supervisor's judgement: who is replaced, when, and who is left in peace."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import pytest
from django.db import OperationalError, connection
from django_q.models import OrmQ

from memory import lanes
from memory.jobs.bell import silence
from memory.processes import this_process
from tests.jobbook import ask, make_any_thread
from threads.clusters import Cluster
from threads.supervisor import Supervisor, Watch

pytestmark = pytest.mark.django_db
PERIOD, GRACE = 30.0, 31.0


class FakeCluster(Cluster):
    """A cluster without processes."""

    def __init__(self, name: str) -> None:
        super().__init__(name=name)
        self.starts, self.is_dead = 0, False
        self.stops: list[float] = []

    def start(self) -> None:
        self.starts, self.is_dead = self.starts + 1, False

    def has_ended(self) -> bool:
        return self.is_dead

    def ask_to_stop(self) -> None:
        return

    def stop(self, *, grace_seconds: float) -> None:
        self.stops.append(grace_seconds)


@pytest.fixture
def supervisor(settings: Any) -> Supervisor:
    settings.CREDENCE_HEARTBEAT_SECONDS = PERIOD
    made = Supervisor()
    made.watches = [Watch(cluster=FakeCluster("memory0"), lane=0)]
    return made


def cluster_of(supervisor: Supervisor) -> Any:
    return supervisor.watches[0].cluster


def look(supervisor: Supervisor, *, seconds: float, after: float = 100.0) -> float:
    """Look every five seconds for so long, from `after` on, and return when that ended."""
    for tick in range(0, int(seconds) + 1, 5):
        supervisor.look(now=after + tick)
    return after + seconds


def answer() -> None:
    """What the worker does with a bell."""
    lanes.beat(name="memory0")
    silence(queue="memory0")


def test_supervisor_plans_a_cluster_for_each_lane_and_one_for_control(settings: Any) -> None:
    settings.CREDENCE_MEMORY_LANES = 2
    names = [watch.cluster.name for watch in Supervisor().watches]
    assert names == ["control", "memory0", "memory1"]


def test_look_rings_once_a_period(supervisor: Supervisor) -> None:
    rings = 0
    for tick in range(0, 100, 5):
        supervisor.look(now=100.0 + tick)
        rings += OrmQ.objects.filter(key="memory0").count()
        answer()
    assert rings == 4
    assert cluster_of(supervisor).stops == []


def test_look_cluster_that_answers_no_ring_for_three_periods_is_replaced(
    supervisor: Supervisor,
) -> None:
    now = look(supervisor, seconds=3 * PERIOD - 5)
    assert cluster_of(supervisor).stops == []
    now = look(supervisor, seconds=5, after=now)
    assert cluster_of(supervisor).stops == [1.0]
    assert OrmQ.objects.count() == 0
    look(supervisor, seconds=5, after=now)
    assert cluster_of(supervisor).starts == 2


def test_look_cluster_that_is_starting_is_given_time(supervisor: Supervisor) -> None:
    ask(make_any_thread())
    look(supervisor, seconds=25)
    assert cluster_of(supervisor).stops == []


def test_look_due_jobs_that_wait_a_period_condemn_a_silent_cluster(supervisor: Supervisor) -> None:
    now = look(supervisor, seconds=5)
    answer()
    now = look(supervisor, seconds=20, after=now)
    ask(make_any_thread())
    now = look(supervisor, seconds=PERIOD, after=now)
    assert cluster_of(supervisor).stops == []
    look(supervisor, seconds=10, after=now)
    assert cluster_of(supervisor).stops == [1.0]


def test_look_due_jobs_without_a_bell_are_rung_for_at_once(supervisor: Supervisor) -> None:
    now = look(supervisor, seconds=5)
    answer()
    ask(make_any_thread())
    silence(queue="memory0")
    supervisor.look(now=now + 5)
    assert OrmQ.objects.filter(key="memory0").count() == 1


def test_look_lane_that_is_being_worked_on_is_left_alone(supervisor: Supervisor) -> None:
    lanes.take(name="memory0", holder=this_process(), seconds=600)
    for _ in range(2):
        ask(make_any_thread())
    look(supervisor, seconds=10 * PERIOD)
    assert cluster_of(supervisor).stops == []


def test_look_ended_cluster_is_replaced_at_once_and_later_if_it_dies_young(
    supervisor: Supervisor,
) -> None:
    starts = []
    now = look(supervisor, seconds=0)
    for _ in range(200):
        cluster = cluster_of(supervisor)
        cluster.is_dead = True
        before = cluster.starts
        supervisor.look(now=now)
        if cluster.starts > before:
            starts.append(now)
        now += 1
    gaps = [later - earlier for earlier, later in pairwise(starts)]
    assert gaps[0] < 6
    assert gaps == sorted(gaps)
    assert max(gaps) <= 31


def test_look_database_out_of_reach_condemns_nobody(
    supervisor: Supervisor, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse() -> None:
        raise OperationalError

    closed = []
    monkeypatch.setattr(lanes, "states", refuse)
    monkeypatch.setattr(connection, "close", lambda: closed.append(True))
    look(supervisor, seconds=20 * PERIOD)
    assert cluster_of(supervisor).stops == []
    assert closed


def test_stop_stops_every_cluster(supervisor: Supervisor) -> None:
    look(supervisor, seconds=0)
    supervisor.stop()
    assert len(cluster_of(supervisor).stops) == 1
