"""The figures at the head of the dashboard: one number each, and what it is made of. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import datetime

from django.utils.timesince import timesince
from django.utils.translation import gettext as _

from threads.admin.dashboard import numbers
from threads.admin.dashboard.waiting import DECISIONS, Waiting, of
from threads.figures import Day
from threads.figures.latencies import quantile_ms


@dataclass(frozen=True, slots=True, kw_only=True)
class Tile:
    """One figure.

    Attributes:
        detail: What it is made of, or what to know about it.
        tone: `bad` or `odd` where somebody should look.
    """

    name: str
    title: str
    value: str
    detail: str
    tone: str = ""


def tiles_of(*, total: Day, told: Mapping[str, Waiting], now: datetime) -> tuple[Tile, ...]:
    """Return the six figures of a period."""
    return (
        _runs(total),
        _failures(total),
        _latency(total),
        _cost(total),
        _saved(total),
        _waiting(told, now),
    )


def failures_by_code(total: Day) -> Iterator[tuple[str, str, str, str]]:
    """Yield (status, code, runs, share of all runs), the most frequent first."""
    ended = [(key, count) for key, count in total.outcomes.items() if key[0] in _ODD]
    for (status, code), count in sorted(ended, key=lambda one: (-one[1], one[0])):
        yield status, code or "–", numbers.count(count), numbers.percent(count, total.runs.count)


_ODD = frozenset({"failed", "rejected"})


def _runs(total: Day) -> Tile:
    succeeded = total.by_status().get("succeeded", 0)
    return Tile(
        name="runs",
        title=_("Runs"),
        value=numbers.count(total.runs.count),
        detail=_("%(share)s succeeded") % {"share": numbers.percent(succeeded, total.runs.count)},
    )


def _failures(total: Day) -> Tile:
    by_status = total.by_status()
    failed, rejected = by_status.get("failed", 0), by_status.get("rejected", 0)
    share = numbers.percent(failed, total.runs.count)
    return Tile(
        name="failures",
        title=_("Failures"),
        value=numbers.count(failed),
        detail=_("%(share)s of runs; %(rejected)s more were rejected")
        % {"share": share, "rejected": numbers.count(rejected)},
        tone="bad" if total.runs.count and failed / total.runs.count >= 0.05 else "",
    )


def _latency(total: Day) -> Tile:
    median, late = quantile_ms(total.latencies, 0.5), quantile_ms(total.latencies, 0.95)
    return Tile(
        name="latency",
        title=_("Latency, median"),
        value="–" if median is None else numbers.milliseconds(median),
        detail=""
        if late is None
        else _("95 of 100 within %(time)s") % {"time": numbers.milliseconds(late)},
    )


def _cost(total: Day) -> Tile:
    runs, memory = total.runs.cost_usd, total.memory_ops.cost_usd
    return Tile(
        name="cost",
        title=_("Cost"),
        value=numbers.usd(runs + memory),
        detail=_("runs %(runs)s + memory work %(memory)s")
        % {"runs": numbers.usd(runs), "memory": numbers.usd(memory)},
    )


def _saved(total: Day) -> Tile:
    saved, whole = total.history.saved_tokens, total.history.whole_tokens
    return Tile(
        name="saved",
        title=_("Tokens saved"),
        value=numbers.tokens(saved),
        detail=_("%(share)s of the whole history, %(whole)s")
        % {"share": numbers.percent(saved, whole), "whole": numbers.tokens(whole)},
    )


def _waiting(told: Mapping[str, Waiting], now: datetime) -> Tile:
    queues = [one for one in of(told, DECISIONS) if one.count]
    oldest = min((one.oldest_at for one in queues if one.oldest_at), default=None)
    return Tile(
        name="waiting",
        title=_("Waiting"),
        value=numbers.count(sum(one.count for one in queues)),
        detail=_("nothing waits")
        if oldest is None
        else _("the oldest for %(time)s") % {"time": timesince(oldest, now, depth=1)},
    )
