"""Naming a process so that another one on the same machine can tell whether it still lives.

Source: proc(5), fields 3 (state) and 22 (start time) of /proc/PID/stat.
"""

from __future__ import annotations

import os
import socket
from functools import cache
from pathlib import Path


@cache
def _machine() -> str:
    """Name this boot of this machine and its process namespace: a pid means something only here."""
    try:
        boot = Path("/proc/sys/kernel/random/boot_id").read_text(encoding="ascii").strip()
        return f"{boot}.{Path('/proc/self/ns/pid').stat().st_ino}"
    except OSError:
        return socket.gethostname()[:50].replace(":", "-")


def this_process() -> str:
    """Return the holder name of the calling process, at most 80 characters."""
    return f"{_machine()}:{os.getpid()}:{_start_of(os.getpid())}"


def holder_is_lost(holder: str) -> bool:
    """Say whether `holder` is a process of this machine that has ended; unknown counts as alive."""
    parts = holder.rsplit(":", 2)
    if len(parts) != 3 or parts[0] != _machine() or not (parts[1] + parts[2]).isdigit():
        return False
    pid, start = int(parts[1]), int(parts[2])
    return _start_of(pid) != start if start else not _exists(pid)


def _start_of(pid: int) -> int:
    """Return when a process began, in clock ticks since boot; 0 if it ended or that is unknown."""
    try:
        raw = Path(f"/proc/{pid}/stat").read_text(encoding="utf-8", errors="replace")
    except OSError:
        return 0
    # The command's name may hold anything, so count from the bracket that closes it.
    state, *fields = raw[raw.rindex(")") + 2 :].split()
    return 0 if state in "ZX" else int(fields[18])


def _exists(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        return True
    return True
