"""How much memory the web process and the worker's processes hold, looked at every few seconds."""

from __future__ import annotations

import statistics
import threading
import time
from dataclasses import dataclass, field
from pathlib import Path

from tests.journeys.crash_processes import Processes, family

EVERY_SECONDS = 5.0
# The last quarter's median may be this much over the second quarter's: the caches of searches grow
# by about 1 kB a memory (CREDENCE_RECALL_CACHE_MB), and malloc does not give everything back.
MOST_FACTOR = 1.15
MOST_EXTRA_MB = 24.0


@dataclass(kw_only=True)
class Samples:
    """(seconds since the start, MB) of each group of processes."""

    began: float
    series: dict[str, list[tuple[float, float]]] = field(default_factory=dict)

    def watch(self, *, processes: Processes, until: float, stop: threading.Event) -> None:
        """Look until the time is over; a process that is just starting is left out."""
        groups = {"web": processes.web_parent, "worker": processes.supervisor}
        while time.monotonic() < until and not stop.wait(EVERY_SECONDS):
            for name, first in groups.items():
                try:
                    mb = sum(map(_mb, family(first())))
                except AssertionError:
                    continue
                at = time.monotonic() - self.began
                self.series.setdefault(name, []).append((round(at, 1), round(mb, 1)))

    def quarters(self, name: str) -> list[float]:
        """The medians of the four quarters of the time."""
        series = self.series.get(name, [])
        if len(series) < 8:
            return []
        quarter = (series[-1][0] - series[0][0]) / 4
        parts = [
            [mb for at, mb in series if at >= series[0][0] + quarter * n - 0.01]
            if n == 3
            else [
                mb
                for at, mb in series
                if series[0][0] + quarter * n <= at < series[0][0] + quarter * (n + 1)
            ]
            for n in range(4)
        ]
        return [round(statistics.median(part), 1) for part in parts if part]


def is_flat(quarters: list[float]) -> bool:
    """Whether the last quarter's median is within the bound of the second's."""
    return len(quarters) == 4 and quarters[3] <= quarters[1] * MOST_FACTOR + MOST_EXTRA_MB


def _mb(pid: int) -> float:
    """The proportional share of what is resident: pages that forked processes share count once."""
    try:
        text = Path(f"/proc/{pid}/smaps_rollup").read_text(encoding="ascii")
    except OSError:
        return 0.0
    found = [line.split()[1] for line in text.splitlines() if line.startswith("Pss:")]
    return int(found[0]) * 1024 / 1e6 if found else 0.0
