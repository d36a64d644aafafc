"""Figures of days: right on a small set, the same as the usage report's, and none of another tenant."""

from __future__ import annotations

from datetime import date, timedelta
from decimal import Decimal

import pytest

from memory.models import Tenant
from memory.rls import scoped_transaction
from tests.factories import make_key, make_run, make_tenant, scope_of
from tests.threads.figures.made import MONDAY, a_thread, call, ended
from threads import usage
from threads.figures import Day, between
from threads.figures.days import added, as_row, from_row
from threads.figures.latencies import quantile_ms
from threads.models import KeptUsage
from threads.usage import LENGTHS

FIRST = MONDAY.date()
TUESDAY = MONDAY + timedelta(days=1)


def figures(tenant: Tenant, *, first: date = FIRST, days: int = 2) -> dict[date, Day]:
    scope = scope_of(tenant)
    with scoped_transaction(scope):
        return between(scope=scope, first=first, last=first + timedelta(days=days - 1))


@pytest.fixture
def tenant(db: None) -> Tenant:
    """Three succeeded runs and one failed on Monday, one rejected on Tuesday, and what came of them."""
    made = make_tenant()
    thread = a_thread(made)
    ended(thread, at=MONDAY, ms=1000, turn_tokens=100, past=0, cost_usd="0.01", input_tokens=500)
    ended(thread, at=MONDAY + timedelta(minutes=1), turn_tokens=40, past=90, status="failed",
          error_code="provider_timeout")  # fmt: skip
    ended(
        thread, at=MONDAY + timedelta(minutes=2), ms=2000, turn_tokens=200, past=60, output_tokens=7
    )
    ended(thread, at=MONDAY + timedelta(minutes=3), ms=8000, turn_tokens=300, past=60)
    ended(thread, at=TUESDAY, status="rejected", error_code="context_too_long")
    call(made, at=MONDAY, tokens=300, usd="0.002")
    call(made, at=MONDAY, tokens=3000, usd="0.02", kind="build_nodes")
    call(made, at=TUESDAY, tokens=300, usd="0.003")
    return made


def test_runs_are_counted_by_how_they_ended(tenant: Tenant) -> None:
    monday, tuesday = figures(tenant).values()
    assert monday.outcomes == {("succeeded", ""): 3, ("failed", "provider_timeout"): 1}
    assert tuesday.outcomes == {("rejected", "context_too_long"): 1}
    assert monday.by_status() == {"succeeded": 3, "failed": 1}
    assert (monday.runs.count, tuesday.runs.count) == (4, 1)


def test_latency_is_that_of_succeeded_runs_within_a_twentieth(tenant: Tenant) -> None:
    monday, tuesday = figures(tenant).values()
    assert quantile_ms(monday.latencies, 0.5) == pytest.approx(2000, rel=0.05)
    assert quantile_ms(monday.latencies, 0.95) == pytest.approx(8000, rel=0.05)
    assert quantile_ms(tuesday.latencies, 0.5) is None


def test_saved_is_what_earlier_turns_would_have_cost_less_what_was_sent_of_them(
    tenant: Tenant,
) -> None:
    """0 before the first; 100 + 40 before the third, whose failed one history shows; 340 before the last."""
    history = figures(tenant)[FIRST].history
    assert (history.runs, history.whole_tokens, history.past_tokens) == (3, 480, 120)
    assert history.saved_tokens == 360


def test_earlier_turns_of_a_thread_count_though_they_are_older_than_the_days(db: None) -> None:
    tenant = make_tenant()
    thread = a_thread(tenant)
    make_run(thread, created_at=MONDAY - timedelta(days=400), turn_tokens=1000)
    ended(thread, at=MONDAY, turn_tokens=5, past=70)
    history = figures(tenant)[FIRST].history
    assert (history.whole_tokens, history.past_tokens) == (1000, 70)


def test_runs_without_an_account_are_left_out_of_what_was_saved(db: None) -> None:
    tenant = make_tenant()
    thread = a_thread(tenant)
    ended(thread, at=MONDAY, turn_tokens=50)
    ended(thread, at=MONDAY, turn_tokens=50)
    day = figures(tenant)[FIRST]
    assert (day.runs.count, day.history.runs, day.history.whole_tokens) == (2, 0, 0)


@pytest.mark.req("A22")
def test_cost_of_runs_and_of_memory_work_are_the_usage_reports(tenant: Tenant) -> None:
    days = figures(tenant)
    total = added(days.values())
    assert total.runs.cost_usd == Decimal("0.01")
    assert total.memory_ops.cost_usd == Decimal("0.025")
    report = usage.report(principal=make_key(tenant).principal, group_by="day")
    assert (report.total.runs, report.total.memory_ops) == (total.runs, total.memory_ops)
    assert report.total.total_usd == Decimal("0.035")
    by_day = {row.key: (row.runs, row.memory_ops) for row in report.results}
    assert by_day == {day.isoformat(): (one.runs, one.memory_ops) for day, one in days.items()}


@pytest.mark.req("A23")
def test_calls_are_sorted_by_what_they_read(tenant: Tenant) -> None:
    monday = figures(tenant)[FIRST]
    assert {key: one.count for key, one in monday.by_length.items()} == {
        ("roll_summary", 1): 1,
        ("build_nodes", 4): 1,
    }
    assert LENGTHS[0] <= 300 < LENGTHS[1]
    assert LENGTHS[3] <= 3000 < LENGTHS[4]


def test_day_of_utc_decides(db: None) -> None:
    tenant = make_tenant()
    thread = a_thread(tenant)
    ended(thread, at=MONDAY.replace(hour=23, minute=59, second=59))
    ended(thread, at=TUESDAY.replace(hour=0, minute=0, second=0))
    assert [day.runs.count for day in figures(tenant).values()] == [1, 1]


def test_recorded_and_imported_turns_are_no_runs_of_ours(db: None) -> None:
    tenant = make_tenant()
    make_run(a_thread(tenant), created_at=MONDAY, origin="import")
    make_run(a_thread(tenant), created_at=MONDAY, origin="api")
    assert figures(tenant)[FIRST] == Day()


def test_erased_runs_count_though_nobody_knows_how_they_ended(tenant: Tenant) -> None:
    scope = scope_of(tenant)
    with scoped_transaction(scope):
        KeptUsage.objects.create(
            tenant=tenant, agent=a_thread(tenant).agent, day=FIRST, runs=5, cost_usd=Decimal("0.5")
        )
    monday = figures(tenant)[FIRST]
    assert (monday.runs.count, monday.erased_runs) == (9, 5)
    assert monday.runs.cost_usd == Decimal("0.51")


@pytest.mark.req("B18")
def test_figures_of_another_tenant_are_in_none_of_ours(tenant: Tenant) -> None:
    other = make_tenant()
    assert all(day == Day() for day in figures(other).values())
    before = figures(tenant)
    thread = a_thread(other)
    ended(thread, at=MONDAY, turn_tokens=10_000, past=0, cost_usd="99")
    call(other, at=MONDAY, tokens=300, usd="77")
    assert figures(tenant) == before


def test_stored_day_is_read_back_as_it_was(tenant: Tenant) -> None:
    monday = figures(tenant)[FIRST]
    row = as_row(tenant_id=tenant.pk, day=FIRST, figures=monday, now=MONDAY)
    assert from_row(row) == monday
