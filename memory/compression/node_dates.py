"""Dates as models write them, read as ISO days."""

from __future__ import annotations

from datetime import date
from typing import Final

import re2

_DAY: Final = (
    r"(\d{4})\s?[-/.年]\s?(\d{1,2})\s?[-/.月]\s?(\d{1,2})日?"
    r"(?:[T ]\d{1,2}:\d{2}(?::\d{2})?(?:Z|UTC)?)?"
)
_SPAN: Final = _DAY + rf"(?:\s?(?:[-–—~～/]|至|到|to|until)\s?{_DAY})?"
_HEAD = re2.compile(rf"^[\[(（【]?\s?{_SPAN}\s?[\])）】]?\s?[:：,，;；–—-]?\s*")
_ANYWHERE = re2.compile(_SPAN)


def split_date(text: str) -> tuple[str, str]:
    """Return the date at the head of `text` ("" if none) and what comes after it.

    A date is an ISO day, or two of them with " – " between; days that do not exist stay text.
    """
    found = _HEAD.match(text)
    day = _span(found.groups()) if found else ""
    if found is None or not day or text[found.end() - 1 : found.end() + 1].isdigit():
        return "", text
    return day, text[found.end() :]


def date_of(text: str) -> str:
    """Return the first date in `text` as ISO, "" if there is none."""
    found = _ANYWHERE.search(text[:80])
    return _span(found.groups()) if found else ""


def _span(numbers: tuple[str | None, ...]) -> str:
    first, last = _iso(numbers[:3]), _iso(numbers[3:6])
    return f"{first} – {last}" if first and last and first < last else first


def _iso(numbers: tuple[str | None, ...]) -> str:
    """Return year, month and day as ISO, "" if there is no such day."""
    try:
        year, month, day = (int(number or 0) for number in numbers)
        return date(year, month, day).isoformat()
    except ValueError:
        return ""
