"""Days that a question names, in Chinese and English, and how near a text's own day is. Pure.

"on May 2nd" names a day of any year, "in June 2023" a month, 昨天 and "last week" days before now.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import date, datetime, timedelta
from typing import Final

import numpy as np
from numpy.typing import NDArray

_MONTHS: Final = (
    "january february march april may june july august september october november december".split()
)
_MONTH: Final = "|".join(sorted({*_MONTHS, *(name[:3] for name in _MONTHS), "sept"}, key=len)[::-1])
_DAY: Final = r"(?P<day>[0-3]?\d)(?:st|nd|rd|th)?"
_YEAR: Final = r"(?P<year>(?:19|20)\d\d)"
# Bounded pieces only, so each is linear.
_PATTERNS: Final = tuple(
    re.compile(pattern, re.IGNORECASE)
    for pattern in (
        r"(?<!\d)(?P<year>(?:19|20)\d\d)\s?[-/.年]\s?(?P<month>[01]?\d)\s?[-/.月]\s?(?P<day>[0-3]?\d)(?!\d)",
        r"(?<!\d)(?P<year>(?:19|20)\d\d)\s?年\s?(?P<month>[01]?\d)\s?月",
        r"(?<!\d)(?P<month>[01]?\d)\s?月\s?(?P<day>[0-3]?\d)\s?[日号號]?",
        rf"\b{_DAY}\s+(?:of\s+)?(?P<name>{_MONTH})\b\.?(?:,?\s+{_YEAR})?",
        rf"\b(?P<name>{_MONTH})\b\.?\s+{_DAY}\b(?:,?\s+{_YEAR})?",
        rf"\b(?P<name>{_MONTH})\b\.?,?\s+(?:of\s+)?{_YEAR}",
        rf"\b(?:in|during|of|since|last|this)\s+(?P<name>{_MONTH})\b",
        r"(?<![\d月])(?P<month>[01]?\d)\s?月(?:份|底|初|中)?",
        r"(?<![\d.,$])(?P<year>(?:19|20)\d\d)(?:\s?年|\b)(?!\s?[-/.]?\d)",
    )
)
_RELATIVE: Final = (
    (re.compile(r"\byesterday\b|昨[天日晚]", re.IGNORECASE), 1, 1),
    (re.compile(r"\bthe day before yesterday\b|前[天日]", re.IGNORECASE), 2, 2),
    (re.compile(r"\b(?:today|this morning|tonight)\b|今[天日早晚]", re.IGNORECASE), 0, 0),
    (re.compile(r"\blast week\b|上(?:个)?(?:周|星期|礼拜)", re.IGNORECASE), 1, 13),
    (re.compile(r"\bthis week\b|(?:这|本)(?:周|星期|礼拜)", re.IGNORECASE), 0, 6),
    (re.compile(r"\blast month\b|上个月|(?<!登)上月(?![球亮])", re.IGNORECASE), 1, 61),
    (re.compile(r"\ba few days ago\b|前几天|几天前", re.IGNORECASE), 1, 10),
)
_LAST_YEAR: Final = re.compile(r"\blast year\b|去年", re.IGNORECASE)
# 五月二十二日, 二零二六年: numbers written out, before the sign of what they count.
_WRITTEN: Final = re.compile(r"[〇零一二三四五六七八九十]{1,4}(?=\s?[年月日号號])")
_DIGITS: Final = {sign: str(value) for value, sign in enumerate("零一二三四五六七八九")} | {
    "〇": "0"
}
_MOST_TIMES: Final = 6
_DAY_SECONDS: Final = 86_400


@dataclass(frozen=True, slots=True, kw_only=True)
class NamedTime:
    """A year, month or day a question names; what is None is any. Or a stretch of days before now.

    Attributes:
        first: First day of a stretch, last its last; then the rest is None.
    """

    year: int | None = None
    month: int | None = None
    day: int | None = None
    first: date | None = None
    last: date | None = None


def times_in(text: str, *, now: datetime) -> tuple[NamedTime, ...]:
    """Return the times a question names, at most six, what is more exact first; linear."""
    text = _WRITTEN.sub(_in_digits, text)
    found = [named for _, named in _named_in(text)]
    found += _relative(text, now.date())
    return tuple(found[:_MOST_TIMES])


def time_phrases(text: str) -> list[str]:
    """Return the stretches of a question that name a day, month or year. Linear."""
    return [match[0] for match, _ in _named_in(text)]


def _named_in(text: str) -> list[tuple[re.Match[str], NamedTime]]:
    found: list[tuple[re.Match[str], NamedTime]] = []
    taken: list[tuple[int, int]] = []
    for pattern in _PATTERNS:
        for match in pattern.finditer(text):
            start, end = match.span()
            named = _named(match)
            if named and not any(start < last and first < end for first, last in taken):
                taken.append((start, end))
                found.append((match, named))
    return found


def _in_digits(match: re.Match[str]) -> str:
    """Return a number of up to four Chinese signs in digits: 二十二 is 22, 二零二六 is 2026."""
    signs = match[0]
    if "十" not in signs:
        return "".join(_DIGITS[sign] for sign in signs)
    tens, _, ones = signs.partition("十")
    if len(tens) > 1 or len(ones) > 1 or "十" in ones:
        return signs
    return f"{_DIGITS.get(tens, '1')}{_DIGITS.get(ones, '0')}"


def _relative(text: str, today: date) -> Iterator[NamedTime]:
    if _LAST_YEAR.search(text):
        yield NamedTime(year=today.year - 1)
    for pattern, least, most in _RELATIVE:
        if pattern.search(text):
            yield NamedTime(first=today - timedelta(days=most), last=today - timedelta(days=least))


def _named(match: re.Match[str]) -> NamedTime | None:
    parts = match.groupdict()
    name = (parts.get("name") or "").lower()[:3]
    month = next((n for n, full in enumerate(_MONTHS, 1) if name and full.startswith(name)), None)
    if parts.get("month"):
        month = int(parts["month"])
    day = int(parts["day"]) if parts.get("day") else None
    year = int(parts["year"]) if parts.get("year") else None
    if month is not None and not 1 <= month <= 12:
        return None
    if day is not None and not 1 <= day <= 31:
        return None
    return NamedTime(year=year, month=month, day=day)


def nearness(times: tuple[NamedTime, ...], said_at: NDArray[np.float64]) -> NDArray[np.float32]:
    """Return for each time of a text (seconds since 1970, UTC) how near it is to what was named, 0 to 1.

    1 on the named day or in the named month or year; less for a few days after, since people tell
    of things afterwards. Cost: a few vector operations a time.
    """
    near = np.zeros(len(said_at), dtype=np.float32)
    if not times:
        return near
    days = np.floor(said_at / _DAY_SECONDS).astype("datetime64[D]")
    for named in times:
        near = np.maximum(near, _near(named, days))
    return near


def _near(named: NamedTime, days: NDArray[np.datetime64]) -> NDArray[np.float32]:
    if named.first is not None and named.last is not None:
        first, last = np.datetime64(named.first), np.datetime64(named.last)
        return ((days >= first) & (days <= last)).astype(np.float32)
    if named.month is not None and named.day is not None:
        return _near_day(named.year, named.month, named.day, days)
    months = days.astype("datetime64[M]").astype(int)
    fits = np.ones(len(days), dtype=bool)
    if named.month is not None:
        fits &= months % 12 == named.month - 1
    if named.year is not None:
        fits &= months // 12 + 1970 == named.year
    return fits.astype(np.float32) * (1.0 if named.month is not None else 0.4)


def _near_day(
    year: int | None, month: int, day: int, days: NDArray[np.datetime64]
) -> NDArray[np.float32]:
    """Fall from 1 on the day over the week after it; a day of any year is that of the text's own."""
    years = days.astype("datetime64[Y]")
    if year is not None:
        years = np.full(len(days), np.datetime64(f"{year:04d}", "Y"))
    start = years.astype("datetime64[M]") + np.timedelta64(month - 1, "M")
    named = start.astype("datetime64[D]") + np.timedelta64(day - 1, "D")
    after = (days - named).astype(int)
    near = np.where(after == 0, 1.0, 0.0)
    near = np.where((after >= 1) & (after <= 7), 0.7 - 0.08 * after, near)
    near = np.where(after == -1, 0.4, near)
    return near.astype(np.float32)
