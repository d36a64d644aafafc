"""One queue cluster as a process group of its own, that never outlives its supervisor.

A cluster is a tree: parent, guard, worker, monitor, pusher. Killing the parent alone would leave
the others working as orphans, so the group is killed as a whole, and on Linux every process of the
tree asks the kernel to be killed when its parent ends.
Source: prctl(2), PR_SET_PDEATHSIG; setpgid(2).
"""

from __future__ import annotations

import ctypes
import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Final

from memory.jobs.bell import serve

_ROOT: Final = Path(__file__).resolve().parents[1]
_PR_SET_PDEATHSIG: Final = 1
_GROUP_END_SECONDS: Final = 5.0


class Cluster:
    """A queue cluster, started, watched and stopped from the supervisor's main thread."""

    def __init__(self, *, name: str) -> None:
        """Take the queue's name; nothing runs yet."""
        self.name = name
        self._process: subprocess.Popen[bytes] | None = None

    @property
    def pid(self) -> int | None:
        """The parent's process id, which is the group's too, while it runs."""
        return self._process.pid if self._process else None

    def start(self) -> None:
        """Start the cluster in a session of its own, out of reach of the terminal's Ctrl-C."""
        self._process = spawn("worker", "--supervised-by", str(os.getpid()), queue=self.name)

    def has_ended(self) -> bool:
        """Say whether the parent is gone; it is not reaped yet, so its id stays ours."""
        if self._process is None:
            return True
        options = os.WEXITED | os.WNOHANG | os.WNOWAIT
        return os.waitid(os.P_PID, self._process.pid, options) is not None

    def ask_to_stop(self) -> None:
        """Send SIGTERM to the parent, which lets the worker finish its job."""
        if self._process is not None and not self.has_ended():
            os.kill(self._process.pid, signal.SIGTERM)

    def stop(self, *, grace_seconds: float) -> None:
        """Ask, wait, then kill the whole group, orphans of a dead parent included."""
        self.ask_to_stop()
        until = time.monotonic() + grace_seconds
        while not self.has_ended() and time.monotonic() < until:
            time.sleep(0.05)
        if self._process is not None:
            end_group(self._process)
            self._process = None


def spawn(*arguments: str, queue: str | None = None) -> subprocess.Popen[bytes]:
    """Start `manage.py` with `arguments` in a new session, as a child of this process."""
    environment = dict(os.environ)
    if queue is not None:
        environment["Q_CLUSTER_NAME"] = queue
    return subprocess.Popen(
        [sys.executable, "-m", "django", *arguments],
        cwd=_ROOT,
        env=environment,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        start_new_session=True,
    )


def end_group(process: subprocess.Popen[bytes]) -> None:
    """Kill the group that `process` leads and wait, at most 5 s, until none of it is left.

    The leader is reaped only after the signal: until then its id cannot name anybody else.
    """
    _signal_group(process.pid, signal.SIGKILL)
    process.wait()
    until = time.monotonic() + _GROUP_END_SECONDS
    while _signal_group(process.pid, 0) and time.monotonic() < until:
        time.sleep(0.02)


def _signal_group(group: int, number: int) -> bool:
    try:
        os.killpg(group, number)
    except (ProcessLookupError, PermissionError):
        return False
    return True


def serve_queue(*, supervisor_pid: int) -> None:
    """Run the cluster named by Q_CLUSTER_NAME in this process, tied to the supervisor's life."""
    _die_with(supervisor_pid)
    owner = [os.getpid()]

    def tie_child() -> None:
        parent, owner[0] = owner[0], os.getpid()
        _die_with(parent)

    os.register_at_fork(after_in_child=tie_child)
    serve()


def _die_with(parent: int) -> None:
    """Have the kernel kill this process when its parent ends; it may just have ended already."""
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
    if os.getppid() != parent:
        os._exit(1)
