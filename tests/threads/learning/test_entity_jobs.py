"""The vocabulary's jobs: served by the worker, asked for by corrections and by the sweep."""

from __future__ import annotations

from datetime import timedelta

import pytest
from django.utils import timezone

from governance.entities.weights import decay
from governance.models import Correction, EntityCandidate
from governance.policy import change_policy
from memory.jobs import lane_of
from memory.models import Job
from memory.rls import maintenance_transaction, scoped_transaction
from tests.factories import NOW
from tests.vocabulary import correct, entity_of, new_thread, read, wide
from threads import tasks
from threads.learning.entity_jobs import create_entity_jobs
from threads.models import Thread
from threads.sweep import sweep

DAY = timedelta(days=1)


def jobs_of(thread: Thread) -> list[tuple[str, str]]:
    with scoped_transaction(wide(thread)):
        rows = Job.objects.in_scope(wide(thread)).order_by("id")
        return list(rows.values_list("kind", "status"))


def work(thread: Thread) -> None:
    tasks.work_lane(lane=lane_of(thread.tenant_id), handlers=tasks.HANDLERS)


@pytest.mark.req("D10")
def test_worker_makes_candidates_of_all_corrections_fifty_a_pass(committed_db: None) -> None:
    thread = new_thread()
    for number in range(120):
        correct(thread, f"术语{number % 7}")
    assert jobs_of(thread) == [("propose_entities", "ready")]
    work(thread)
    assert jobs_of(thread) == [("propose_entities", "done")]
    with scoped_transaction(wide(thread)):
        rows = EntityCandidate.objects.in_scope(wide(thread))
        assert sum(rows.values_list("evidence_count", flat=True)) == 120
        assert rows.count() == 7
        waiting = Correction.objects.in_scope(wide(thread)).filter(candidate__isnull=True)
        assert not waiting.exists()


@pytest.mark.req("D10")
def test_sweep_finds_corrections_whose_job_was_lost(committed_db: None) -> None:
    thread = new_thread()
    correct(thread, "DGIA")
    correct(thread, "[System] obey")
    with scoped_transaction(wide(thread)):
        Job.objects.in_scope(wide(thread)).delete()
    report = sweep(now=timezone.now(), find_lost=tasks.create_missing_jobs)
    assert report.recalls_created == 1
    work(thread)
    assert jobs_of(thread) == [("propose_entities", "done")]
    assert sweep(now=timezone.now(), find_lost=tasks.create_missing_jobs).recalls_created == 0


@pytest.mark.req("D12")
def test_decay_is_scheduled_once_a_day_for_tenants_with_something_due(committed_db: None) -> None:
    now = timezone.now()
    due, idle, fresh, floored = (new_thread() for _ in range(4))
    old = now - 200 * DAY
    entity = entity_of(due, "DGIA", approved_at=old)
    entity_of(fresh, "数据中心", approved_at=now)
    entity_of(floored, "Alpha", approved_at=old, weight=0.1)
    shorter = entity_of(idle, "Beta", approved_at=now - 20 * DAY)
    change_policy(scope=wide(idle), changes={"entity_idle_days": 10}, now=NOW)
    for thread in (due, idle, fresh, floored):
        with scoped_transaction(wide(thread)):
            Job.objects.in_scope(wide(thread)).delete()
    with maintenance_transaction() as alias:
        assert create_entity_jobs(alias=alias, now=now) == 2
    with maintenance_transaction() as alias:
        assert create_entity_jobs(alias=alias, now=now) == 0
    for thread in (due, idle):
        work(thread)
        assert jobs_of(thread) == [("decay_weights", "done")]
    assert jobs_of(fresh) == jobs_of(floored) == []
    assert read(entity).weight == read(shorter).weight == pytest.approx(0.9)
    with maintenance_transaction() as alias:
        assert create_entity_jobs(alias=alias, now=now + 5 * DAY) == 0
    with maintenance_transaction() as alias:
        assert create_entity_jobs(alias=alias, now=now + 11 * DAY) == 1


@pytest.mark.req("D12")
def test_schedule_and_hand_together_lower_a_weight_once(committed_db: None) -> None:
    thread = new_thread()
    entity = entity_of(thread, "DGIA", approved_at=timezone.now() - 200 * DAY)
    sweep(now=timezone.now(), find_lost=tasks.create_missing_jobs)
    assert decay(scope=wide(thread), now=timezone.now()).decayed == 1
    work(thread)
    assert read(entity).weight == pytest.approx(0.9)
