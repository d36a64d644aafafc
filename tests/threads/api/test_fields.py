"""Fields take exactly what they say."""

from __future__ import annotations

from datetime import UTC, datetime
from decimal import Decimal

import pytest
from rest_framework.exceptions import ValidationError

from threads.api.fields import BadTimeError, JsonObject, read_time, write_money, write_time


@pytest.mark.parametrize(
    "text",
    [
        "0000-01-01T00:00:00Z",
        "9999-12-31T23:59:60Z",
        "0001-01-01T00:00:00+14:00",
        "9999-12-31T23:59:59-14:00",
        "infinity",
        "-infinity",
        "2026-06-12T08:00:00",
        "2026-06-12",
        "2026-02-30T08:00:00Z",
        "2026-06-12 08:00:00Z",
        "２０２６-06-12T08:00:00Z",
        "2026-W24-5T08:00:00Z",
        "2026-06-12T08:00:00+99:00",
        "",
    ],
)
def test_case_122_impossible_times_are_refused(text: str) -> None:
    with pytest.raises(BadTimeError):
        read_time(text)


def test_read_time_returns_utc() -> None:
    assert read_time("2026-06-12T08:00:00.5+08:00") == datetime(
        2026, 6, 12, 0, 0, 0, 500_000, tzinfo=UTC
    )


def test_write_time_always_has_microseconds_and_z() -> None:
    assert write_time(datetime(2026, 6, 12, tzinfo=UTC)) == "2026-06-12T00:00:00.000000Z"


@pytest.mark.parametrize(
    ("amount", "text"),
    [
        ("0", "0.000000"),
        ("0.00041000", "0.000410"),
        ("0.00000012", "0.00000012"),
        ("1E+3", "1000.000000"),
        ("12.5", "12.500000"),
    ],
)
def test_write_money_has_six_decimals_or_more_and_no_exponent(amount: str, text: str) -> None:
    assert write_money(Decimal(amount)) == text


def test_object_over_its_limit_is_told_the_limit() -> None:
    field = JsonObject()
    fits = {"k": "字" * (16_000 - len('{"k":""}'))}
    assert field.run_validation(fits) == fits
    with pytest.raises(ValidationError, match="at most 16,000 characters"):
        field.run_validation({"k": fits["k"] + "字"})
