"""The worker command, with real processes that are killed for real."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from django_q.models import OrmQ

from memory import lanes
from memory.jobs.bell import silence
from tests.jobbook import all_ended, ask, change, make_any_thread, only_job, wait_for
from tests.processes import environment_for_children

pytestmark = [
    pytest.mark.crash,
    pytest.mark.usefixtures("committed_db"),
    pytest.mark.timeout(180),
]


class Worker:
    """A running `manage.py worker` and its tree of processes."""

    def __init__(self, **environment: Any) -> None:
        values = {
            "DJANGO_SETTINGS_MODULE": "tests.threads.worker_settings",
            "CREDENCE_HEARTBEAT_SECONDS": "1",
            "CREDENCE_LOG_LEVEL": "WARNING",
        }
        self.process = subprocess.Popen(
            [sys.executable, "-m", "django", "worker"],
            env=environment_for_children(**(values | environment)),
        )

    def tree(self) -> dict[int, list[int]]:
        """Process ids of all descendants, by parent."""
        children: dict[int, list[int]] = {}
        for stat in Path("/proc").glob("[0-9]*/stat"):
            try:
                fields = stat.read_text().rpartition(")")[2].split()
            except OSError:
                continue
            if fields[0] != "Z":
                children.setdefault(int(fields[1]), []).append(int(stat.parent.name))
        return children

    def cluster(self, name: str) -> tuple[int, int, list[int]] | None:
        """(parent, guard, [worker, monitor, pusher]) of one cluster; None while it is not up."""
        tree = self.tree()
        for parent in tree.get(self.process.pid, []):
            try:
                variables = Path(f"/proc/{parent}/environ").read_bytes().split(b"\0")
            except OSError:
                continue
            if f"Q_CLUSTER_NAME={name}".encode() in variables:
                for guard in tree.get(parent, []):
                    parts = sorted(tree.get(guard, []))
                    if len(parts) == 3:
                        return parent, guard, parts
        return None

    def everybody(self) -> list[int]:
        """Process ids of the whole tree."""
        tree, found, todo = self.tree(), [], [self.process.pid]
        while todo:
            found.append(todo.pop())
            todo += tree.get(found[-1], [])
        return found

    def stop(self) -> int:
        """Ask it to stop, as a shell or an init system does, and return its exit code."""
        if self.process.poll() is None:
            self.process.send_signal(signal.SIGTERM)
        return self.process.wait(30)


def is_alive(pid: int) -> bool:
    """Whether a process exists and is no zombie."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


def nobody_lives(pids: list[int]) -> bool:
    """Whether all of them have ended."""
    return not any(is_alive(pid) for pid in pids)


@pytest.fixture
def start() -> Iterator[Any]:
    """Start workers, and leave nothing of them behind."""
    workers = []

    def start_one(**environment: Any) -> Worker:
        worker = Worker(**environment)
        workers.append(worker)
        wait_for(lambda: lanes.states().get("memory0"), seconds=60)
        for name in ("control", "memory0"):
            wait_for(partial(worker.cluster, name), seconds=60)
        return worker

    yield start_one
    for worker in workers:
        everybody = worker.everybody()
        worker.stop()
        wait_for(partial(nobody_lives, everybody))


def do_one_job(*, seconds: float = 60) -> None:
    """Ask for one job and wait until it is done."""
    thread = make_any_thread()
    ask(thread)
    wait_for(lambda: all_ended(thread.tenant_id), seconds=seconds)
    assert only_job(thread).status == "done"


@pytest.mark.req("A24")
def test_worker_does_jobs_and_stops_cleanly_within_seconds(start: Any) -> None:
    worker = start()
    do_one_job()
    everybody = worker.everybody()
    assert len(everybody) == 11
    assert worker.stop() == 0
    assert not any(is_alive(pid) for pid in everybody)


@pytest.mark.parametrize("part", [0, 1, 2])
def test_worker_idle_child_killed_jobs_are_done_again(start: Any, part: int) -> None:
    """Case 136: idle worker, monitor and pusher, in the order in which the guard forks them."""
    worker = start()
    do_one_job()
    os.kill(worker.cluster("memory0")[2][part], signal.SIGKILL)
    do_one_job()
    do_one_job()


def test_worker_cluster_parent_killed_leaves_no_orphan_and_is_replaced(start: Any) -> None:
    """Case 137."""
    worker = start()
    do_one_job()
    parent, guard, parts = worker.cluster("memory0")
    os.kill(parent, signal.SIGKILL)
    wait_for(lambda: not any(is_alive(pid) for pid in [parent, guard, *parts]))
    do_one_job()


def test_worker_supervisor_killed_takes_every_process_with_it(start: Any) -> None:
    worker = start()
    everybody = worker.everybody()
    worker.process.kill()
    worker.process.wait()
    wait_for(lambda: not any(is_alive(pid) for pid in everybody))


def test_worker_killed_while_working_repeats_the_job_when_its_lease_ends(start: Any) -> None:
    worker = start(CREDENCE_JOB_LEASE_SECONDS="2")
    thread = make_any_thread()
    ask(thread, "endless")
    wait_for(lambda: only_job(thread).status == "running")
    os.kill(worker.cluster("memory0")[2][0], signal.SIGKILL)
    change(only_job(thread), dedupe_key="short")
    wait_for(lambda: all_ended(thread.tenant_id), seconds=60)
    job = only_job(thread)
    assert (job.status, job.attempts) == ("done", 2)


def test_worker_frozen_control_queue_is_replaced_and_the_sweep_goes_on(start: Any) -> None:
    worker = start()
    wait_for(lambda: lanes.states().get("control"), seconds=60)
    old = wait_for(lambda: worker.cluster("control"), seconds=60)
    for pid in [old[1], *old[2]]:
        os.kill(pid, signal.SIGSTOP)
    before = lanes.states()["control"].heartbeat_at
    wait_for(lambda: lanes.states()["control"].heartbeat_at != before, seconds=60)
    assert not any(is_alive(pid) for pid in [old[1], *old[2]])


def test_worker_queue_emptied_by_hand_all_jobs_are_done(start: Any) -> None:
    """Case 143."""
    threads = [make_any_thread() for _ in range(3)]
    for thread in threads:
        ask(thread)
    silence(queue="memory0")
    start()
    wait_for(lambda: all(all_ended(thread.tenant_id) for thread in threads), seconds=60)


def test_worker_secret_key_rotated_all_jobs_are_done(start: Any) -> None:
    """Case 142: every waiting bell is unreadable, the book is not."""
    thread = make_any_thread()
    ask(thread)
    assert OrmQ.objects.filter(key="memory0").count() == 1
    start(TEST_SECRET_KEY="another")
    wait_for(lambda: all_ended(thread.tenant_id), seconds=60)
    assert only_job(thread).status == "done"
