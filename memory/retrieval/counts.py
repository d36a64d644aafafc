"""How many searches this process made, and how many of them with less than they asked for.

For the metrics; counted here because a search's trace may be thrown away with its transaction.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from threading import Lock

_SEARCHES = "searches"
_lock = Lock()
_counts: Counter[str] = Counter()


def count_search(*, degraded: Iterable[str]) -> None:
    """Count one search and each way in which it was degraded."""
    with _lock:
        _counts[_SEARCHES] += 1
        _counts.update(degraded)


def counted() -> dict[str, int]:
    """Return the counts since the process began: `searches`, and one by the code of each way."""
    with _lock:
        return dict(_counts)
