"""The circuit breaker of memory work, on an injected clock."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

from memory.providers.breaker import FAILURES_TO_OPEN, OPEN_SECONDS, CircuitBreaker

NOW = datetime(2026, 11, 2, 9, 0, tzinfo=UTC)


def broken(breaker: CircuitBreaker, times: int, *, now: datetime = NOW) -> None:
    for _ in range(times):
        breaker.failed(provider_id="a", now=now)


def test_third_failure_in_a_row_opens_for_a_minute_and_for_this_provider_only() -> None:
    breaker = CircuitBreaker()
    broken(breaker, FAILURES_TO_OPEN - 1)
    assert not breaker.is_open(provider_id="a", now=NOW)
    broken(breaker, 1)
    assert breaker.is_open(provider_id="a", now=NOW)
    assert not breaker.is_open(provider_id="b", now=NOW)
    later = NOW + timedelta(seconds=OPEN_SECONDS)
    assert breaker.is_open(provider_id="a", now=later - timedelta(seconds=1))
    assert not breaker.is_open(provider_id="a", now=later)


def test_success_in_between_starts_the_count_anew() -> None:
    breaker = CircuitBreaker()
    broken(breaker, FAILURES_TO_OPEN - 1)
    breaker.succeeded(provider_id="a")
    broken(breaker, FAILURES_TO_OPEN - 1)
    assert not breaker.is_open(provider_id="a", now=NOW)


def test_one_failed_try_after_the_rest_opens_again_one_success_closes() -> None:
    breaker = CircuitBreaker()
    broken(breaker, FAILURES_TO_OPEN)
    later = NOW + timedelta(seconds=OPEN_SECONDS)
    broken(breaker, 1, now=later)
    assert breaker.is_open(provider_id="a", now=later)
    breaker.succeeded(provider_id="a")
    assert not breaker.is_open(provider_id="a", now=later)
