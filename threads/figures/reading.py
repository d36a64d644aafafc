"""Days as pages read them: stored ones as stored, the others counted anew."""

from __future__ import annotations

from datetime import date, timedelta

from memory.scope import Scope
from threads.figures.days import Day, from_row
from threads.figures.measuring import measure
from threads.models import DayFigures


def between(*, scope: Scope, first: date, last: date) -> dict[date, Day]:
    """Return every day from `first` to `last`, in order, those on which nothing was among them.

    Days are stored one after another from the tenant's first on, so that only what lies behind the
    last stored one is counted. Inside the caller's transaction of that scope, which names one
    tenant. Cost: one statement, and two over what is not stored yet.
    """
    rows = DayFigures.objects.in_scope(scope).filter(day__gte=first, day__lte=last).order_by("day")
    found = {row.day: from_row(row) for row in rows}
    open_from = max(found) + timedelta(days=1) if found else first
    if open_from <= last:
        found |= measure(scope=scope, first=open_from, last=last)
    days = (first + timedelta(days=number) for number in range((last - first).days + 1))
    return {day: found.get(day, Day()) for day in days}
