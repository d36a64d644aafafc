"""Limits of wrong keys an address and of requests a key, counted in this process.

Several web processes count apart, so that no request waits for another store: the limit of a whole
service is theirs together. Wrong keys are counted by the real peer (governance.peers): a header that
a client writes changes nothing. Whoever sent too many is refused before anything is looked up, but a
key that this process has seen to be right is served on, so that one noisy program behind an address
does not cut off its neighbours.
"""

from __future__ import annotations

import hashlib
import time
from collections import OrderedDict
from dataclasses import dataclass
from math import ceil
from threading import Lock
from typing import Final

from limits import RateLimitItemPerMinute
from limits.storage import MemoryStorage
from limits.strategies import FixedWindowRateLimiter, MovingWindowRateLimiter

from memory.conf import key_requests_per_minute, wrong_keys_per_minute
from memory.errors import CredenceError

_MOST_KNOWN: Final = 10_000


class RateLimitedError(CredenceError):
    """Too many requests; wait as long as Retry-After says."""

    code = "rate_limited"

    def __init__(self, detail: str, *, retry_after_seconds: int) -> None:
        """Keep how long to wait."""
        super().__init__(detail)
        self.retry_after_seconds = retry_after_seconds


@dataclass(frozen=True, slots=True, kw_only=True)
class Standing:
    """What a key may still ask in this minute.

    Attributes:
        reset_seconds: Until the count begins anew.
    """

    limit: int
    remaining: int
    reset_seconds: int

    def headers(self) -> dict[str, str]:
        """Return the fields of draft-ietf-httpapi-ratelimit-headers (version 03, one each)."""
        return {
            "RateLimit-Limit": str(self.limit),
            "RateLimit-Remaining": str(self.remaining),
            "RateLimit-Reset": str(self.reset_seconds),
        }


class Limits:
    """The counts of one process. Cost: some microseconds, no query."""

    def __init__(self) -> None:
        """Begin with nothing counted."""
        self._storage = MemoryStorage()
        self._wrong = MovingWindowRateLimiter(self._storage)
        self._asked = FixedWindowRateLimiter(self._storage)
        self._known: OrderedDict[bytes, None] = OrderedDict()
        self._lock = Lock()

    def forget(self) -> None:
        """Count from nothing again."""
        self._storage.reset()
        with self._lock:
            self._known.clear()

    def before_key(self, *, peer: str, raw: str) -> None:
        """Let pass a peer that has not sent too many wrong keys, or a key known to be right.

        Raises:
            RateLimitedError: The peer did, and the key is unknown here.
        """
        most = wrong_keys_per_minute()
        if most < 1:
            return
        item = RateLimitItemPerMinute(most)
        if self._wrong.test(item, "wrong", peer) or self._is_known(raw):
            return
        wait = _seconds_until(self._wrong.get_window_stats(item, "wrong", peer).reset_time)
        raise RateLimitedError(
            f"Too many wrong API keys came from this address; wait {wait} seconds.",
            retry_after_seconds=wait,
        )

    def wrong_key(self, *, peer: str) -> None:
        """Count a wrong key."""
        if (most := wrong_keys_per_minute()) > 0:
            self._wrong.hit(RateLimitItemPerMinute(most), "wrong", peer)

    def right_key(self, *, raw: str, key_id: str) -> Standing | None:
        """Count a request of a key and say what is left; None without a limit.

        Raises:
            RateLimitedError: The key asked too often in this minute.
        """
        self._know(raw)
        most = key_requests_per_minute()
        if most < 1:
            return None
        item = RateLimitItemPerMinute(most)
        is_allowed = self._asked.hit(item, "key", key_id)
        stats = self._asked.get_window_stats(item, "key", key_id)
        wait = _seconds_until(stats.reset_time)
        if not is_allowed:
            raise RateLimitedError(
                f"This key asked more than {most} times in a minute; wait {wait} seconds.",
                retry_after_seconds=wait,
            )
        return Standing(limit=most, remaining=max(0, stats.remaining), reset_seconds=wait)

    def _know(self, raw: str) -> None:
        digest = _digest(raw)
        with self._lock:
            self._known[digest] = None
            self._known.move_to_end(digest)
            if len(self._known) > _MOST_KNOWN:
                self._known.popitem(last=False)

    def _is_known(self, raw: str) -> bool:
        with self._lock:
            return _digest(raw) in self._known


def _digest(raw: str) -> bytes:
    return hashlib.sha256(raw.encode("utf-8", "replace")).digest()


def _seconds_until(at: float) -> int:
    return max(1, ceil(at - time.time()))


LIMITS: Final = Limits()
