"""What befalls the processes: workers and lanes are killed, the database is stopped hard and soft."""

from __future__ import annotations

import os
import random
import signal
import threading
import time
import urllib.error
import urllib.request
from collections.abc import Callable
from contextlib import suppress

from config.local.errors import LocalPostgresError
from config.local.postgres import EmbeddedPostgres
from tests.instance import Instance
from tests.journeys.crash_processes import Processes, family
from tests.soak.findings import Findings

UP_SECONDS = 90.0


class Faults:
    """Strikes one of four ways every `every_seconds` or so, and waits until all is well again."""

    def __init__(self, *, instance: Instance, findings: Findings, seed: int) -> None:
        self._instance = instance
        self._processes = Processes(instance)
        self._findings = findings
        self._random = random.Random(seed)
        self._server = EmbeddedPostgres(data_dir=instance.var / "postgres")

    def strike(self, *, every_seconds: float, until: float, stop: threading.Event) -> None:
        """Go on until the time is over."""
        ways: dict[str, Callable[[], None]] = {
            "worker tree killed": self._kill_worker,
            "lane killed": self._kill_lane,
            "database fast": lambda: self._stop_database("fast"),
            "database immediate": lambda: self._stop_database("immediate"),
        }
        order = list(ways)
        turn = 0
        while not stop.wait(self._random.uniform(0.7, 1.3) * every_seconds):
            if time.monotonic() > until:
                return
            if turn % len(order) == 0:
                self._random.shuffle(order)
            name = order[turn % len(order)]
            turn += 1
            self._findings.count(f"fault {name}")
            with suppress(AssertionError, LocalPostgresError):
                ways[name]()
            self.wait_until_well(name)

    def wait_until_well(self, name: str) -> None:
        """Wait until /readyz is 200, and note how long that took."""
        began = time.monotonic()
        while time.monotonic() - began < UP_SECONDS:
            if self._is_well():
                self._findings.took(f"recovery after {name}", time.monotonic() - began)
                return
            time.sleep(0.25)
        self._findings.wrong("not ready again", f"{UP_SECONDS:.0f} s after {name}")

    def _is_well(self) -> bool:
        url = f"{self._instance.base_url}/readyz"
        with (
            suppress(urllib.error.URLError, OSError),
            urllib.request.urlopen(url, timeout=10) as got,
        ):
            return bool(got.status == 200)
        return False

    def _kill_worker(self) -> None:
        _kill(family(self._processes.supervisor()))

    def _kill_lane(self) -> None:
        parent, parts = self._processes.cluster()
        _kill(self._random.choice([[parent], parts[:1], [parent, *parts]]))

    def _stop_database(self, mode: str) -> None:
        self._server.stop(mode=mode)  # `make run` starts it again


def _kill(pids: list[int]) -> None:
    for pid in pids:
        with suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)
