"""Latencies in classes, sixteen to each doubling, so that days can be added up. Pure.

What is read from classes is the middle of one: within 2.2% of the time it stands for.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

PER_DOUBLING: Final = 16


def quantile_ms(counts: Mapping[int, int], share: float) -> float | None:
    """Return the time that `share` of the runs did not exceed; None without runs.

    Args:
        counts: Class to number of runs; class k begins at 2 ** (k / 16) milliseconds.
        share: 0.5 for the median.
    """
    total = sum(counts.values())
    if total == 0:
        return None
    wanted, seen = share * total, 0
    for bucket in sorted(counts):
        seen += counts[bucket]
        if seen >= wanted:
            break
    return float(2 ** ((bucket + 0.5) / PER_DOUBLING))
