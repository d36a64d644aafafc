"""When a failed call may be made again, and how long to wait first. Pure but for the jitter."""

from __future__ import annotations

import random
from dataclasses import dataclass
from datetime import UTC
from email.utils import parsedate_to_datetime

_STATUS_RETRIES = {429: 2, 503: 2, 500: 1, 502: 1, 504: 1}
_CONNECTION_RETRIES = 2


@dataclass(frozen=True, slots=True, kw_only=True)
class RetryPolicy:
    """Bounds of the waiting, in seconds.

    A wait longer than `longest_wait_seconds`, or one that would end more than `window_seconds`
    after the call began, is not waited for: the call fails at once, so that a provider which
    only ever fails is done with in well under 20 s.
    """

    base_seconds: float = 0.5
    longest_wait_seconds: float = 10.0
    window_seconds: float = 15.0


def allowed_retries(*, status: int | None) -> int:
    """Return how often a call may be repeated after `status`; None is a connection without answer.

    Only failures before the first byte of an answer, and refusals that say "later", qualify.
    """
    return _CONNECTION_RETRIES if status is None else _STATUS_RETRIES.get(status, 0)


def wait_seconds(
    *,
    policy: RetryPolicy,
    status: int | None,
    retries_done: int,
    elapsed_seconds: float,
    retry_after_seconds: float | None,
) -> float | None:
    """Return how long to wait before the next try, or None when there must be none.

    Retry-After is honoured: never a shorter wait than asked for, and no try at all when it asks
    for more than the policy's bound.
    """
    if retries_done >= allowed_retries(status=status):
        return None
    backoff: float = policy.base_seconds * 2**retries_done * random.uniform(0.5, 1.0)  # noqa: S311
    wait = max(backoff, retry_after_seconds or 0.0)
    if wait > policy.longest_wait_seconds or elapsed_seconds + wait > policy.window_seconds:
        return None
    return wait


def parse_retry_after(value: str | None, *, now_epoch_seconds: float) -> float | None:
    """Read a Retry-After header, seconds or an HTTP date, as seconds from now (at least 0).

    Source: RFC 9110, section 10.2.3. Anything unreadable counts as absent.
    """
    if value is None:
        return None
    text = value.strip()
    if text.isascii() and text.isdigit():
        return float(text[:9])
    at = epoch_seconds(text)
    return None if at is None else max(0.0, at - now_epoch_seconds)


def epoch_seconds(http_date: str | None) -> float | None:
    """Return an HTTP date as seconds since 1970, or None if it is none."""
    try:
        at = parsedate_to_datetime(http_date or "")
    except (ValueError, OverflowError):
        return None
    return (at if at.tzinfo else at.replace(tzinfo=UTC)).timestamp()
