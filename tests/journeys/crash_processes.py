"""The processes of a running instance, found in /proc by who started whom, and how to kill them."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from tests.instance import Instance

UP_SECONDS = 60.0
_FRESH_TICKS = 2 * os.sysconf("SC_CLK_TCK")


def wait_until(found: Callable[[], Any], *, what: str, seconds: float = 30.0) -> Any:
    """Ask again and again until the answer is true, and return it."""
    until = time.monotonic() + seconds
    while not (answer := found()):
        if time.monotonic() > until:
            raise AssertionError(f"waited {seconds:.0f} s in vain until {what}")
        time.sleep(0.02)
    return answer


def _fields(pid: int | str) -> list[str]:
    """Fields of /proc/PID/stat from the state on; empty if it ended (proc(5))."""
    try:
        text = Path(f"/proc/{pid}/stat").read_text(encoding="utf-8", errors="replace")
    except OSError:
        return []
    fields = text.rpartition(")")[2].split()
    return [] if fields[0] in "ZX" else fields


def is_alive(pid: int) -> bool:
    """Whether a process exists and is no zombie."""
    return bool(_fields(pid))


def children() -> dict[int, list[int]]:
    """Living processes by parent, in the order of their start."""
    found: dict[int, list[tuple[int, int]]] = {}
    for stat in Path("/proc").glob("[0-9]*"):
        fields = _fields(stat.name)
        if fields:
            found.setdefault(int(fields[1]), []).append((int(fields[19]), int(stat.name)))
    return {parent: [pid for _, pid in sorted(pids)] for parent, pids in found.items()}


def family(pid: int) -> list[int]:
    """A process and all its descendants."""
    tree, found, todo = children(), [], [pid]
    while todo:
        found.append(todo.pop())
        todo += tree.get(found[-1], [])
    return found


def kill(*pids: int) -> None:
    """kill -9 each of them, and wait until they are gone."""
    for pid in pids:
        os.kill(pid, signal.SIGKILL)
    wait_until(lambda: not any(map(is_alive, pids)), what=f"{pids} are gone")


def _holds(pid: int, *, name: str, text: str) -> bool:
    try:
        return text.encode() in Path(f"/proc/{pid}/{name}").read_bytes().split(b"\0")
    except OSError:
        return False


class Processes:
    """Who is who in the tree of one instance; each method waits until it is there."""

    def __init__(self, instance: Instance) -> None:
        """Look at this instance, also after it was started again."""
        self._instance = instance

    @property
    def launcher(self) -> int:
        """`make run` itself."""
        assert self._instance.process is not None
        return self._instance.process.pid

    def everybody(self) -> list[int]:
        """All but the database, which is nobody's child."""
        return family(self.launcher)

    def _child(self, word: str) -> int:
        def look() -> int | None:
            mine = children().get(self.launcher, [])
            return next((pid for pid in mine if _holds(pid, name="cmdline", text=word)), None)

        return int(wait_until(look, what=f"{word} runs", seconds=UP_SECONDS))

    def web_parent(self) -> int:
        """The server's parent process."""
        return self._child("granian")

    def web(self) -> int:
        """The server's process that answers."""

        def look() -> int | None:
            return next(iter(children().get(self.web_parent(), [])), None)

        return int(wait_until(look, what="a web process runs", seconds=UP_SECONDS))

    def supervisor(self) -> int:
        """`manage.py worker`."""
        return self._child("worker")

    def cluster(self, queue: str = "memory0") -> tuple[int, list[int]]:
        """The parent of a queue's cluster, and [worker, monitor, pusher] as they were forked."""

        def look() -> tuple[int, list[int]] | None:
            tree = children()
            for parent in tree.get(self.supervisor(), []):
                if _holds(parent, name="environ", text=f"Q_CLUSTER_NAME={queue}"):
                    for guard in tree.get(parent, []):
                        parts = tree.get(guard, [])
                        if len(parts) == 3:
                            return parent, parts
            return None

        found: tuple[int, list[int]] = wait_until(
            look, what=f"the cluster {queue} runs", seconds=UP_SECONDS
        )
        return found

    def is_cluster_fresh(self) -> bool:
        """Whether the memory lane's cluster still has the parts that it started with."""
        _, parts = self.cluster()
        starts = [int((_fields(pid) or ["0"] * 20)[19]) for pid in parts]
        return max(starts) - min(starts) < _FRESH_TICKS

    def cluster_parent(self) -> int:
        """The memory lane's `qcluster`."""
        return self.cluster()[0]

    def postmaster(self) -> int:
        """The database server."""
        file = self._instance.var / "postgres" / "postmaster.pid"

        def look() -> int | None:
            lines = file.read_text(encoding="utf-8").split() if file.exists() else []
            return int(lines[0]) if lines and is_alive(int(lines[0])) else None

        return int(wait_until(look, what="the database runs", seconds=UP_SECONDS))
