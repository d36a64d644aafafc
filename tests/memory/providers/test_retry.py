"""When a call is repeated, and how long that waits."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from memory.providers.retry import RetryPolicy, parse_retry_after, wait_seconds

NOW = 1_784_000_000.0  # 2026-07-14 03:33:20 UTC


def wait(status: int | None = 503, **changes: float | None) -> float | None:
    values: dict[str, float | None] = {
        "retries_done": 0, "elapsed_seconds": 0.0, "retry_after_seconds": None, **changes
    }  # fmt: skip
    return wait_seconds(policy=RetryPolicy(), status=status, **values)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("value", "seconds"),
    [
        ("0", 0.0),
        (" 7 ", 7.0),
        ("Tue, 14 Jul 2026 03:33:25 GMT", 5.0),
        ("Tue, 14 Jul 2026 03:30:00 GMT", 0.0),
        ("9" * 400, 999_999_999.0),
        (None, None),
        ("", None),
        ("-5", None),
        ("1.5", None),
        ("soon", None),
        ("٣", None),
        ("Tue, 99 Jul 2026 03:33:25 GMT", None),
    ],
)
def test_retry_after_is_read_as_seconds_or_date(value: str | None, seconds: float | None) -> None:
    assert parse_retry_after(value, now_epoch_seconds=NOW) == seconds


@settings(deadline=None)
@given(value=st.text(max_size=60))
def test_retry_after_never_fails(value: str) -> None:
    seconds = parse_retry_after(value, now_epoch_seconds=NOW)
    assert seconds is None or seconds >= 0


def test_wait_is_never_shorter_than_asked_for() -> None:
    assert wait(retry_after_seconds=7.0) == 7.0
    assert wait(retry_after_seconds=10.0) == 10.0


@pytest.mark.parametrize(
    ("status", "changes"),
    [
        (503, {"retry_after_seconds": 10.1}),
        (503, {"retry_after_seconds": 9.0, "elapsed_seconds": 6.5}),
        (503, {"elapsed_seconds": 15.0}),
        (503, {"retries_done": 2}),
        (500, {"retries_done": 1}),
        (None, {"retries_done": 2}),
        (400, {}),
        (200, {}),
    ],
)
def test_no_further_try_past_the_bounds(status: int | None, changes: dict[str, float]) -> None:
    assert wait(status, **changes) is None


@settings(deadline=None)
@given(
    status=st.sampled_from([None, 429, 500, 502, 503, 504]),
    retry_after=st.none() | st.floats(0, 30),
)
def test_all_waits_together_stay_inside_the_window(
    status: int | None, retry_after: float | None
) -> None:
    elapsed, tries = 0.0, 0
    while True:
        seconds = wait(
            status, retries_done=tries, elapsed_seconds=elapsed, retry_after_seconds=retry_after
        )
        if seconds is None:
            break
        elapsed, tries = elapsed + seconds, tries + 1
    assert tries <= 2
    assert elapsed <= 15
