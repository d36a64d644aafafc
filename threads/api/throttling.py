"""Limits of wrong keys an address and of requests a key.

Wrong keys are counted in the database, for all processes together, by the real peer
(governance.peers): a header that a client writes changes nothing. Only a wrong key costs a
statement. Whoever sent too many is remembered by each process that noticed and refused there before
anything is looked up; another process notices at the first wrong key that reaches it. A key that was
right from that very address before is served on, so that one noisy program does not cut off its
neighbours; from elsewhere it was right tells nothing, or a refused address could go on guessing.

Requests of a key are counted in this process, so that none waits for another store: N processes let
N times as many through.
"""

from __future__ import annotations

import hashlib
import time
from collections import OrderedDict
from dataclasses import dataclass
from math import ceil
from threading import Lock
from typing import Final, TypeVar

from limits import RateLimitItemPerMinute
from limits.storage import MemoryStorage
from limits.strategies import FixedWindowRateLimiter

from governance.attempts import count_wrong_key
from memory.conf import key_requests_per_minute, wrong_keys_per_minute
from memory.errors import CredenceError

# Keys seen to be right, and addresses refused: some 2 MB of each, the oldest go first.
_MOST_KNOWN: Final = 10_000
_MINUTE_SECONDS: Final = 60
K = TypeVar("K")
V = TypeVar("V")


class RateLimitedError(CredenceError):
    """Too many requests; wait as long as Retry-After says."""

    code = "rate_limited"

    def __init__(self, detail: str, *, retry_after_seconds: int) -> None:
        """Keep how long to wait."""
        super().__init__(detail)
        self.retry_after_seconds = retry_after_seconds

    @classmethod
    def of_peer(cls, wait_seconds: int) -> RateLimitedError:
        """Return the refusal of an address."""
        return cls(
            f"Too many wrong API keys came from this address; wait {wait_seconds} seconds.",
            retry_after_seconds=wait_seconds,
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Standing:
    """What a key may still ask in this minute.

    Attributes:
        reset_seconds: Until the count begins anew.
        is_over: The key asked more often than it may.
    """

    limit: int
    remaining: int
    reset_seconds: int
    is_over: bool

    def require_room(self) -> None:
        """Let pass a request that the key may make.

        Raises:
            RateLimitedError: The key asked too often in this minute.
        """
        if self.is_over:
            wait = self.reset_seconds
            raise RateLimitedError(
                f"This key asked more than {self.limit} times in a minute; wait {wait} seconds.",
                retry_after_seconds=wait,
            )

    def headers(self) -> dict[str, str]:
        """Return the fields of draft-ietf-httpapi-ratelimit-headers (version 03, one each)."""
        return {
            "RateLimit-Limit": str(self.limit),
            "RateLimit-Remaining": str(self.remaining),
            "RateLimit-Reset": str(self.reset_seconds),
        }


class Limits:
    """What one process counts and remembers.

    Cost of a request with a right key: some 50 microseconds and no statement.
    """

    def __init__(self) -> None:
        """Begin with nothing counted."""
        self._storage = MemoryStorage()
        self._asked = FixedWindowRateLimiter(self._storage)
        self._known: OrderedDict[bytes, None] = OrderedDict()
        self._refused_until: OrderedDict[str, float] = OrderedDict()
        self._lock = Lock()

    def forget(self) -> None:
        """Know as little as a process that has just begun."""
        self._storage.reset()
        with self._lock:
            self._known.clear()
            self._refused_until.clear()

    def before_key(self, *, peer: str, raw: str) -> None:
        """Let pass a peer that has not sent too many wrong keys, or a key that was right from there.

        Raises:
            RateLimitedError: The peer did, and the key was not.
        """
        if wrong_keys_per_minute() < 1:
            return
        wait = self._refused_seconds(peer)
        if wait and not self._is_known(peer, raw):
            raise RateLimitedError.of_peer(wait)

    def wrong_key(self, *, peer: str, raw: str) -> None:
        """Count a wrong key. Cost: one statement.

        Raises:
            RateLimitedError: The peer had sent too many before this one.
        """
        with self._lock:
            self._known.pop(_digest(peer, raw), None)
        most = wrong_keys_per_minute()
        if most < 1:
            return
        sent = count_wrong_key(peer=peer)
        if sent.count >= most:
            until = time.time() + min(sent.ends_in_seconds, _MINUTE_SECONDS)
            self._keep(self._refused_until, peer, until)
        if sent.count > most:
            raise RateLimitedError.of_peer(self._refused_seconds(peer) or 1)

    def right_key(self, *, peer: str, raw: str, key_id: str) -> Standing | None:
        """Count a request of a key and say what is left; None without a limit."""
        self._keep(self._known, _digest(peer, raw), None)
        most = key_requests_per_minute()
        if most < 1:
            return None
        item = RateLimitItemPerMinute(most)
        is_allowed = self._asked.hit(item, "key", key_id)
        stats = self._asked.get_window_stats(item, "key", key_id)
        return Standing(
            limit=most,
            remaining=max(0, stats.remaining),
            reset_seconds=max(1, ceil(stats.reset_time - time.time())),
            is_over=not is_allowed,
        )

    def _keep(self, store: OrderedDict[K, V], name: K, value: V) -> None:
        with self._lock:
            store[name] = value
            store.move_to_end(name)
            if len(store) > _MOST_KNOWN:
                store.popitem(last=False)

    def _is_known(self, peer: str, raw: str) -> bool:
        with self._lock:
            return _digest(peer, raw) in self._known

    def _refused_seconds(self, peer: str) -> int:
        """Return how long a peer is still refused, 0 if it is not; a clock put back ends it too."""
        with self._lock:
            left = self._refused_until.get(peer, 0.0) - time.time()
        return ceil(left) if 0 < left <= _MINUTE_SECONDS else 0


def _digest(peer: str, raw: str) -> bytes:
    return hashlib.sha256(f"{peer} {raw}".encode("utf-8", "replace")).digest()


LIMITS: Final = Limits()
