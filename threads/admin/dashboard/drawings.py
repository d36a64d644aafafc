"""The four charts of the dashboard, from the figures of days. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import date
from typing import Final

from django.utils.formats import date_format
from django.utils.translation import gettext as _

from governance.admin.charts import Chart, Series, Words, lines, stacked_bars
from threads.admin.dashboard import numbers
from threads.figures import Day
from threads.figures.latencies import quantile_ms
from threads.usage import LENGTHS, Figures

# The calls that make long threads short (A23).
COMPRESSING: Final = ("roll_summary", "build_nodes", "consolidate_nodes")
_FINAL: Final = ("succeeded", "failed", "rejected", "cancelled")


def runs_a_day(days: Mapping[date, Day]) -> Chart:
    """Return runs by how they ended."""
    by_day = [day.by_status() for day in days.values()]
    ended = [
        Series(name=status, title=title, values=[one.get(status, 0) for one in by_day])
        for status, title in zip(
            _FINAL, (_("succeeded"), _("failed"), _("rejected"), _("cancelled")), strict=True
        )
    ]
    at_work = [sum(one.values()) - sum(one.get(status, 0) for status in _FINAL) for one in by_day]
    erased = [day.erased_runs for day in days.values()]
    rest = (
        Series(name="unfinished", title=_("at work"), values=at_work),
        Series(name="erased", title=_("erased since"), values=erased),
    )
    series = [one for one in (*ended, *rest) if one.name == "succeeded" or any(one.values)]
    words = Words(
        name="runs",
        title=_("Runs a day"),
        description=_("A bar for each day, its parts runs by how they ended."),
        unit=_("runs; days of UTC"),
        corner=_("day"),
        show=numbers.count,
    )
    return stacked_bars(words=words, labels=_labels(days), series=series)


def cost_a_day(days: Mapping[date, Day]) -> Chart:
    """Return what runs and memory work cost, one on the other (A22)."""
    series = (
        Series(
            name="runs",
            title=_("runs"),
            values=[float(day.runs.cost_usd) for day in days.values()],
        ),
        Series(
            name="memory",
            title=_("memory work"),
            values=[float(day.memory_ops.cost_usd) for day in days.values()],
        ),
    )
    words = Words(
        name="cost",
        title=_("Cost a day"),
        description=_("A bar for each day: what runs cost, and on it what memory work cost."),
        unit=_("USD; days of UTC"),
        corner=_("day"),
        show=numbers.usd,
    )
    return stacked_bars(words=words, labels=_labels(days), series=series)


def latency_a_day(days: Mapping[date, Day]) -> Chart:
    """Return how long succeeded runs took."""
    series = (
        Series(
            name="p95",
            title=_("95 of 100 within"),
            values=[quantile_ms(day.latencies, 0.95) for day in days.values()],
        ),
        Series(
            name="median",
            title=_("median"),
            values=[quantile_ms(day.latencies, 0.5) for day in days.values()],
        ),
    )
    words = Words(
        name="latency",
        title=_("Latency of succeeded runs"),
        description=_("Two lines over the days: the median, and the time that 95 of 100 keep to."),
        unit=_("from accepting a run to its end, within 2%; days of UTC"),
        corner=_("day"),
        show=numbers.milliseconds,
    )
    return lines(words=words, labels=_labels(days), series=series)


def compression_by_length(total: Day) -> Chart:
    """Return what one call that compresses a thread cost, by how much it read (A23)."""
    found = by_length(total)
    places = range(min(found), max(found) + 1) if found else range(0)
    some = [found.get(place, Figures()) for place in places]
    series = [
        Series(
            name="cost",
            title=_("cost of a call"),
            values=[float(one.cost_usd) / one.count if one.count else None for one in some],
        )
    ]
    words = Words(
        name="compression",
        title=_("Cost of compressing a thread, by length"),
        description=_("A bar for each class of length: what one call cost on average."),
        unit=_("USD a call, by the tokens it read"),
        corner=_("tokens read"),
        show=numbers.usd,
    )
    labels = [_from_label(place) for place in places]
    return stacked_bars(words=words, labels=labels, series=series)


def by_length(total: Day) -> Mapping[int, Figures]:
    """Return class of length to the calls that compressed threads."""
    found: dict[int, Figures] = {}
    for (kind, place), figures in total.by_length.items():
        if kind in COMPRESSING:
            found[place] = found.get(place, Figures()) + figures
    return found


def length_label(place: int) -> str:
    """Return a class of length in words: <256, 1k–2k, ≥64k."""
    if place == 0:
        return f"<{_short(LENGTHS[0])}"
    if place == len(LENGTHS):
        return f"≥{_short(LENGTHS[-1])}"
    return f"{_short(LENGTHS[place - 1])}–{_short(LENGTHS[place])}"


def _from_label(place: int) -> str:
    """Return where a class of length begins: <256, 1k+."""
    return f"{_short(LENGTHS[place - 1])}+" if place else f"<{_short(LENGTHS[0])}"


def _short(tokens: int) -> str:
    return f"{tokens // 1024}k" if tokens >= 1024 else str(tokens)


def _labels(days: Mapping[date, Day]) -> Sequence[str]:
    return [date_format(day, _("M j")) for day in days]
