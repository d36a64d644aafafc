"""Lanes: stable choice, one holder at a time, epochs, and holders that died."""

from __future__ import annotations

import os
import subprocess
import sys
from typing import Any

import pytest

from memory import lanes
from memory.models import Lane
from memory.processes import holder_is_lost, this_process
from tests.processes import name_of_a_dead_process

ELSEWHERE = "another-machine:17:4"


def test_lane_of_same_tenant_always_the_same_lane(settings: Any) -> None:
    settings.CREDENCE_MEMORY_LANES = 4
    tenants = [f"tn_{number}" for number in range(200)]
    chosen = [lanes.lane_of(tenant) for tenant in tenants]
    assert chosen == [lanes.lane_of(tenant) for tenant in tenants]
    assert set(chosen) == {0, 1, 2, 3}


def test_lane_key_fits_the_column_and_never_changes() -> None:
    assert lanes.lane_key("tn_01jd0000000000000000000000") == 264920020
    assert all(0 <= lanes.lane_key(str(number)) < 2**31 for number in range(500))


@pytest.mark.django_db
def test_take_while_another_holds_it_returns_none() -> None:
    assert lanes.take(name="memory0", holder=ELSEWHERE, seconds=60) is not None
    assert lanes.take(name="memory0", holder=this_process(), seconds=60) is None
    assert lanes.take(name="memory0", holder=ELSEWHERE, seconds=60) is None


@pytest.mark.django_db
def test_take_after_lease_ran_out_gives_a_new_epoch_and_the_old_holder_is_told() -> None:
    old = lanes.take(name="memory0", holder=ELSEWHERE, seconds=-1)
    new = lanes.take(name="memory0", holder=this_process(), seconds=60)
    assert old is not None
    assert new is not None
    assert new.epoch == old.epoch + 1
    with pytest.raises(lanes.LaneLostError):
        lanes.renew(lease=old, seconds=60)
    lanes.release(lease=old)
    assert lanes.take(name="memory0", holder=ELSEWHERE, seconds=60) is None


@pytest.mark.django_db
def test_take_from_a_holder_that_died_here_succeeds_at_once() -> None:
    dead = name_of_a_dead_process()
    assert lanes.take(name="memory0", holder=dead, seconds=600) is not None
    assert lanes.states()["memory0"].is_working is False
    assert lanes.take(name="memory0", holder=this_process(), seconds=60) is not None
    assert lanes.states()["memory0"].is_working is True


@pytest.mark.django_db
def test_release_frees_the_lane_and_shows_life() -> None:
    lease = lanes.take(name="memory0", holder=ELSEWHERE, seconds=60)
    assert lease is not None
    before = lanes.states()["memory0"]
    lanes.release(lease=lease)
    after = lanes.states()["memory0"]
    assert before.is_working
    assert not after.is_working
    assert before.heartbeat_at is not None
    assert after.heartbeat_at is not None
    assert after.heartbeat_at > before.heartbeat_at
    assert lanes.take(name="memory0", holder=ELSEWHERE, seconds=60) is not None


@pytest.mark.django_db
def test_beat_of_a_held_lane_leaves_holder_and_epoch_alone() -> None:
    lanes.take(name="memory0", holder=ELSEWHERE, seconds=60)
    lanes.beat(name="memory0")
    lane = Lane.objects.get(name="memory0")
    assert (lane.holder, lane.epoch) == (ELSEWHERE, 1)


def test_holder_is_lost_only_for_ended_processes_of_this_machine() -> None:
    assert len(this_process()) <= 80
    assert not holder_is_lost(this_process())
    assert not holder_is_lost(ELSEWHERE)
    assert not holder_is_lost("")
    assert holder_is_lost(name_of_a_dead_process())


def test_holder_is_lost_when_its_process_id_was_given_to_another() -> None:
    machine, pid, start = this_process().rsplit(":", 2)
    assert holder_is_lost(f"{machine}:{pid}:{int(start) + 1}")


def test_holder_is_lost_for_a_zombie() -> None:
    child = subprocess.Popen(
        [sys.executable, "-c", "from memory.processes import this_process as t; print(t())"],
        stdout=subprocess.PIPE,
        text=True,
    )
    assert child.stdout is not None
    name = child.stdout.read().strip()
    os.waitid(os.P_PID, child.pid, os.WEXITED | os.WNOWAIT)
    assert holder_is_lost(name)
    child.stdout.close()
    child.wait()
