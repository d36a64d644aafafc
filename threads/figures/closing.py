"""Storing the figures of days that are over, so that pages need not count them again."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, date, datetime, timedelta
from typing import Any, Final

from django.db.models import OuterRef, Q, Subquery

from memory.models import MemoryOp, Tenant
from memory.models.tenancy import TenantStatus
from memory.rls import maintenance_transaction, scoped_transaction
from memory.scope import Scope
from threads.figures.days import Day, as_row
from threads.figures.measuring import measure
from threads.models import DayFigures, Run, RunOrigin, RunStatus

_REASON: Final = "Days of every tenant are closed; ids and dates are read."
_PRINCIPAL: Final = "worker"
# Clocks of several machines differ, and a call made for memory is booked when it ends.
_SETTLING: Final = timedelta(hours=1)
_MOST_DAYS: Final = 31
_MOST_TENANTS: Final = 50


def close_days(*, now: datetime) -> int:
    """Store the figures of days that are over, at most 31 of each tenant; return how many days.

    Done again it changes nothing: a day is stored once. A day with a run still at work, and those
    after it, wait. Cost: one statement over the tenants; four for each tenant that is behind, two
    more for the first days of all.
    """
    last = (now - _SETTLING).astimezone(UTC).date() - timedelta(days=1)
    closed = 0
    for tenant_id, stored_upto, began in _behind(last):
        scope = Scope(tenant_ids=(tenant_id,), principal_id=_PRINCIPAL)
        closed += _close(scope, stored_upto, began, last, now)
    return closed


def _behind(last: date) -> Iterator[tuple[str, date | None, date]]:
    """Yield tenants of which days up to `last` are not stored: id, last day stored, day it began."""
    with maintenance_transaction() as alias:
        stored = DayFigures.objects.unscoped(reason=_REASON).using(alias)
        newest: Any = stored.filter(tenant_id=OuterRef("pk")).order_by("-day").values("day")[:1]
        tenants = Tenant.objects.unscoped(reason=_REASON).using(alias)
        rows = tenants.exclude(status=TenantStatus.ENDED).annotate(newest=Subquery(newest))
        found = rows.filter(Q(newest__isnull=True) | Q(newest__lt=last)).order_by("pk")
        listed = list(found.values_list("pk", "newest", "created_at")[:_MOST_TENANTS])
    for tenant_id, stored_upto, made_at in listed:
        yield tenant_id, stored_upto, made_at.astimezone(UTC).date()


def _close(scope: Scope, stored_upto: date | None, began: date, last: date, now: datetime) -> int:
    with scoped_transaction(scope):
        if stored_upto is None:
            first = min([began, *_first_days(scope)])
        else:
            first = stored_upto + timedelta(days=1)
        last = min([last, first + timedelta(days=_MOST_DAYS - 1), *_days_before_unfinished(scope)])
        if last < first:
            return 0
        measured = measure(scope=scope, first=first, last=last)
        days = [first + timedelta(days=number) for number in range((last - first).days + 1)]
        rows = [
            as_row(tenant_id=scope.tenant_id, day=day, figures=measured.get(day, Day()), now=now)
            for day in days
        ]
        DayFigures.objects.in_scope(scope).bulk_create(rows, ignore_conflicts=True)
    return len(rows)


def _first_days(scope: Scope) -> Iterator[date]:
    """Yield the days of the first run and of the first call, which may be older than the tenant."""
    runs = Run.objects.in_scope(scope).filter(origin=RunOrigin.RUN).order_by("created_at")
    calls = MemoryOp.objects.in_scope(scope).order_by("at")
    for at in (
        runs.values_list("created_at", flat=True).first(),
        calls.values_list("at", flat=True).first(),
    ):
        if at is not None:
            yield at.astimezone(UTC).date()


def _days_before_unfinished(scope: Scope) -> Iterator[date]:
    """Yield the day before each run that is still at work; few are, and their index knows them."""
    unfinished = Run.objects.in_scope(scope).filter(
        status__in=[RunStatus.QUEUED, RunStatus.RUNNING]
    )
    for at in unfinished.order_by().values_list("created_at", flat=True):
        yield at.astimezone(UTC).date() - timedelta(days=1)
