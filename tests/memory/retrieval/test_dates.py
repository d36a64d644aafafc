"""Days that a question names, in two languages, and how near texts are to them."""

from __future__ import annotations

from datetime import UTC, date, datetime

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from memory.retrieval.dates import NamedTime, nearness, times_in

NOW = datetime(2026, 6, 15, 12, tzinfo=UTC)


@pytest.mark.parametrize(
    ("text", "named"),
    [
        ("On April 27th, how long did I run?", NamedTime(month=4, day=27)),
        ("在4月27号这天，我跑了多久？", NamedTime(month=4, day=27)),
        ("by 19 August, 2023", NamedTime(year=2023, month=8, day=19)),
        ("2023年8月19日", NamedTime(year=2023, month=8, day=19)),
        ("2023-08-19", NamedTime(year=2023, month=8, day=19)),
        ("in October 2023", NamedTime(year=2023, month=10)),
        ("2023年10月", NamedTime(year=2023, month=10)),
        ("during June", NamedTime(month=6)),
        ("6月份", NamedTime(month=6)),
        ("五月二日我吃了什么", NamedTime(month=5, day=2)),
        ("二零二六年十一月二十二号", NamedTime(year=2026, month=11, day=22)),
        ("十二月", NamedTime(month=12)),
        ("in 2021?", NamedTime(year=2021)),
        ("昨天我说了什么", NamedTime(first=date(2026, 6, 14), last=date(2026, 6, 14))),
        ("what did I say yesterday", NamedTime(first=date(2026, 6, 14), last=date(2026, 6, 14))),
        ("last week", NamedTime(first=date(2026, 6, 2), last=date(2026, 6, 14))),
    ],
)
def test_time_named_in_a_question(text: str, named: NamedTime) -> None:
    assert times_in(text, now=NOW) == (named,)


@pytest.mark.parametrize("text", ["三十日", "十十月", "一二三四月", "万一月底没空"])
def test_numbers_written_out_that_name_no_month_do_no_harm(text: str) -> None:
    for named in times_in(text, now=NOW):
        assert named.month is None or 1 <= named.month <= 12


@pytest.mark.parametrize(
    "text", ["May I ask you?", "I may go", "march on", "$1999", "13月40日", "谁登上月球", "3.14"]
)
def test_nothing_named(text: str) -> None:
    assert times_in(text, now=NOW) == ()


def test_nearness_falls_after_the_named_day() -> None:
    days = [datetime(2026, 5, day, 12, tzinfo=UTC).timestamp() for day in range(1, 15)]
    near = nearness(times_in("on May 2nd", now=NOW), np.array(days))
    assert near[1] == 1.0
    assert near[0] == pytest.approx(0.4)
    assert list(near[1:9]) == sorted(near[1:9], reverse=True)
    assert (near[9:] == 0).all()


def test_month_of_any_year_fits_and_another_does_not() -> None:
    at = np.array(
        [datetime(year, month, 3, tzinfo=UTC).timestamp() for year, month in ((2023, 6), (2024, 7))]
    )
    assert list(nearness((NamedTime(month=6),), at)) == [1.0, 0.0]
    assert list(nearness((NamedTime(year=2024, month=6),), at)) == [0.0, 0.0]


@given(st.text(), st.lists(st.floats(min_value=-1e9, max_value=4e9), max_size=5))
def test_any_text_and_time_stay_in_bounds(text: str, said_at: list[float]) -> None:
    near = nearness(times_in(text, now=NOW), np.array(said_at, dtype=np.float64))
    assert len(near) == len(said_at)
    assert ((near >= 0) & (near <= 1)).all()


@pytest.mark.parametrize("text", ["February 30, 2023", "2月31日", "0001年13月", "31 June 1999"])
def test_days_that_no_calendar_has_do_no_harm(text: str) -> None:
    near = nearness(times_in(text, now=NOW), np.array([NOW.timestamp()]))
    assert near.shape == (1,)
