"""The web server and the worker as children of `make run`: started, watched, restarted, stopped."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

STOP_SECONDS: Final = 12.0
_RESTART_SECONDS: Final = 1.0
_ROOT: Final = Path(__file__).resolve().parents[2]


@dataclass(slots=True)
class Child:
    """One long-running process in a session of its own, so that only we pass on Ctrl-C."""

    name: str
    arguments: Sequence[str]
    environment: Mapping[str, str]
    process: subprocess.Popen[bytes] | None = None
    started_at: float = field(default=0.0)

    def start(self) -> None:
        """Start it; it dies with us, on Linux even when we are killed."""
        self.process = subprocess.Popen(
            [sys.executable, "-m", "config.local.tied", str(os.getpid()), *self.arguments],
            cwd=_ROOT,
            env=dict(self.environment),
            stdin=subprocess.DEVNULL,
            start_new_session=True,
        )
        self.started_at = time.monotonic()

    def has_ended(self) -> bool:
        """Say whether it was started and is not running any more."""
        return self.process is not None and self.process.poll() is not None

    def ask_to_stop(self) -> None:
        """Send SIGTERM, if it runs."""
        if self.process is not None and self.process.poll() is None:
            self.process.send_signal(signal.SIGTERM)

    def stop(self) -> None:
        """Ask it to stop, wait, then end what is left of its group."""
        if self.process is None:
            return
        self.ask_to_stop()
        try:
            self.process.wait(STOP_SECONDS)
        except subprocess.TimeoutExpired:
            _end_group(self.process.pid)
            self.process.wait()
        _end_group(self.process.pid)


def _end_group(group: int) -> None:
    try:
        os.killpg(group, signal.SIGKILL)
    except (ProcessLookupError, PermissionError):
        return


def keep_alive(children: Sequence[Child], say: Callable[[str], None]) -> None:
    """Start again what has ended, at most once a second each."""
    for child in children:
        is_young = time.monotonic() - child.started_at < _RESTART_SECONDS
        if child.has_ended() and not is_young:
            code = child.process.returncode if child.process else None
            say(f"{child.name} ended with {code}; starting it again")
            child.stop()
            child.start()
