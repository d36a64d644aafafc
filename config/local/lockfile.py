"""Reading a cluster's postmaster.pid, and making it harmless when its server is dead."""

from __future__ import annotations

import os
import subprocess
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from config.local.os_user import OsUser

_NAME: Final = "postmaster.pid"
_MIN_LINES: Final = 6
# No system hands out a process id this high, so PostgreSQL finds the old owner gone.
_NOBODYS_PID: Final = 2**31 - 1


@dataclass(frozen=True, slots=True, kw_only=True)
class RunningServer:
    """What a live server wrote about itself; `tcp_host` is empty when it listens on no address."""

    pid: int
    port: int
    socket_dir: str
    tcp_host: str


def running_server(data_dir: Path) -> RunningServer | None:
    """Return the server that runs on `data_dir` (free of links), or None.

    A process id alone proves nothing (it may have been given out again), so the process must also
    be a PostgreSQL started on this folder.
    """
    lines = _lines(data_dir)
    if len(lines) < _MIN_LINES or not lines[0].isdigit():
        return None
    pid = int(lines[0])
    if not _is_postgres_on(data_dir, pid=pid):
        return None
    return RunningServer(
        pid=pid, port=int(lines[3]), socket_dir=lines[4], tcp_host=lines[5].strip()
    )


def defuse_stale_lock(data_dir: Path, *, user: OsUser) -> None:
    """Let a start succeed although another process has got the dead server's process id.

    Only the process id is replaced. The rest of the file names the shared memory by which
    PostgreSQL sees that children of the dead server still write; removing it could lose data.
    """
    lines = _lines(data_dir)
    if lines:
        user.write(data_dir / _NAME, "\n".join([str(_NOBODYS_PID), *lines[1:]]) + "\n")


def _lines(data_dir: Path) -> list[str]:
    try:
        return (data_dir / _NAME).read_text(encoding="utf-8").splitlines()
    except FileNotFoundError:
        return []


def _is_postgres_on(data_dir: Path, *, pid: int) -> bool:
    """Look at the command line of a process; a dead one and a zombie have none."""
    if Path("/proc/self").exists():
        try:
            arguments = Path("/proc", str(pid), "cmdline").read_bytes().split(b"\0")
        except (FileNotFoundError, ProcessLookupError):
            return False
        return arguments[0].endswith(b"postgres") and os.fsencode(data_dir) in arguments
    shown = subprocess.run(
        ["/bin/ps", "-ww", "-o", "args=", "-p", str(pid)],
        check=False,
        capture_output=True,
        text=True,
    )
    return "postgres" in shown.stdout and os.fspath(data_dir) in shown.stdout
