"""Days that are over are stored once, and read as if they had been counted anew."""

from __future__ import annotations

from datetime import date, datetime, timedelta
from typing import Any

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext
from django.utils import timezone

from memory.models import Tenant
from memory.rls import scoped_transaction
from tests.factories import make_tenant, scope_of
from tests.threads.figures.made import MONDAY, a_thread, call, ended
from threads.figures import Day, between, close_days
from threads.figures.measuring import measure
from threads.models import DayFigures, KeptUsage, Run
from threads.tasks import control_tick

pytestmark = pytest.mark.usefixtures("committed_db")
FIRST = MONDAY.date()
THURSDAY = MONDAY + timedelta(days=3)


@pytest.fixture
def tenant(committed_db: None) -> Tenant:
    """A run and a call on Monday, a run on Wednesday."""
    made = make_tenant()
    thread = a_thread(made)
    ended(thread, at=MONDAY, turn_tokens=100, past=0, cost_usd="0.01")
    call(made, at=MONDAY, tokens=900, usd="0.002")
    ended(thread, at=MONDAY + timedelta(days=2), turn_tokens=50, past=30, status="succeeded")
    return made


def stored(tenant: Tenant) -> list[date]:
    with scoped_transaction(scope_of(tenant)):
        rows = DayFigures.objects.in_scope(scope_of(tenant)).order_by("day")
        return list(rows.values_list("day", flat=True))


def read(tenant: Tenant, read_by: Any = between, *, days: int = 4) -> dict[date, Day]:
    scope = scope_of(tenant)
    with scoped_transaction(scope):
        found = read_by(scope=scope, first=FIRST, last=FIRST + timedelta(days=days - 1))
    return {day: one for day, one in found.items() if one != Day()}


def close(at: datetime) -> int:
    return close_days(now=at)


def test_days_that_are_over_are_stored_and_read_the_same(tenant: Tenant) -> None:
    counted = read(tenant, measure)
    assert close(THURSDAY) == 3
    assert stored(tenant) == [FIRST + timedelta(days=number) for number in range(3)]
    assert read(tenant) == counted
    assert sorted(counted) == [FIRST, FIRST + timedelta(days=2)]


def test_stored_days_are_not_counted_again(tenant: Tenant) -> None:
    close(THURSDAY)
    with CaptureQueriesContext(
        connection,
    ) as seen:
        read(tenant, days=3)
    assert [query for query in seen if "threads_run" in query["sql"]] == []
    with CaptureQueriesContext(connection) as seen:
        read(tenant, days=4)
    assert len([query for query in seen if "threads_run" in query["sql"]]) == 2


def test_closing_twice_stores_once(tenant: Tenant) -> None:
    assert (close(THURSDAY), close(THURSDAY)) == (3, 0)
    assert len(stored(tenant)) == 3


def test_a_day_is_left_open_for_an_hour(tenant: Tenant) -> None:
    midnight = THURSDAY.replace(hour=0, minute=0)
    close(midnight + timedelta(minutes=59))
    assert stored(tenant)[-1] == FIRST + timedelta(days=1)
    close(midnight + timedelta(minutes=61))
    assert stored(tenant)[-1] == FIRST + timedelta(days=2)


def test_a_run_at_work_keeps_its_day_and_later_ones_open(tenant: Tenant) -> None:
    scope = scope_of(tenant)
    run = ended(a_thread(tenant), at=MONDAY + timedelta(days=1), status="running", finished_at=None)
    close(THURSDAY)
    assert stored(tenant) == [FIRST]
    with scoped_transaction(scope):
        Run.objects.in_scope(scope).filter(pk=run.pk).update(
            status="failed", error_code="interrupted", finished_at=THURSDAY
        )
    close(THURSDAY)
    assert read(tenant)[FIRST + timedelta(days=1)].outcomes == {("failed", "interrupted"): 1}
    assert len(stored(tenant)) == 3


def test_runs_erased_after_their_day_was_stored_are_not_counted_twice(tenant: Tenant) -> None:
    """An erasure moves the sums of runs to the book of kept ones; the day has them already."""
    close(THURSDAY)
    before, scope = read(tenant), scope_of(tenant)
    with scoped_transaction(scope):
        run = Run.objects.in_scope(scope).order_by("seq").first()
        assert run is not None
        KeptUsage.objects.create(
            tenant=tenant, agent_id=run.agent_id, day=FIRST, runs=1, cost_usd=run.cost_usd
        )
        run.delete()
    assert read(tenant) == before


def test_many_days_are_stored_a_month_at_a_time(tenant: Tenant) -> None:
    assert close(MONDAY + timedelta(days=80)) == 31
    assert close(MONDAY + timedelta(days=80)) == 31
    assert close(MONDAY + timedelta(days=80)) == 18
    assert close(MONDAY + timedelta(days=80)) == 0


def test_each_tenant_has_days_of_its_own(tenant: Tenant) -> None:
    other = make_tenant()
    ended(a_thread(other), at=MONDAY, cost_usd="5")
    close(THURSDAY)
    assert len(stored(tenant)) == len(stored(other)) == 3
    assert read(tenant)[FIRST].runs.cost_usd != read(other)[FIRST].runs.cost_usd


def test_control_queue_closes_days(tenant: Tenant) -> None:
    control_tick()
    assert len(stored(tenant)) >= min((timezone.now().date() - FIRST).days, 31) - 1
