"""The worker's job of a decision about many rows: rounds, crashes, and what is gone."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor

import pytest
from django.db import connections
from django.utils import timezone

from governance import bulk
from governance.models import BulkDecision
from memory import jobs
from memory.lanes import lane_of
from memory.models import Job, KnowledgeDocument, Tenant
from memory.rls import scoped_transaction
from memory.scope import Scope
from tests.factories import scope_of
from tests.governance.bulk.test_bulk import Desk, make_desk
from threads import tasks
from threads.learning import bulk_job


def job_of(tenant: Tenant) -> Job:
    with scoped_transaction(scope_of(tenant)):
        return Job.objects.in_scope(scope_of(tenant)).filter(kind="bulk_decide").get()


def claimed(tenant: Tenant) -> jobs.Claim:
    mine = jobs.claim(job_id=job_of(tenant).pk, tenant_id=tenant.pk)
    assert mine is not None
    return mine


def worker(tenant: Tenant) -> Scope:
    return Scope(tenant_ids=(tenant.pk,), principal_id="worker")


@pytest.fixture
def desk(committed_db: None) -> Desk:
    return make_desk(rows=250)


@pytest.mark.req("E05")
def test_worker_serves_the_decision_in_rounds_until_all_rows_are_decided(
    desk: Desk, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(bulk_job, "WITHIN_SECONDS", 0.2)
    desk.start()
    rounds = 0
    while job_of(desk.tenant).status != "done":
        tasks.work_lane(
            lane=lane_of(desk.tenant.pk), handlers={"bulk_decide": bulk_job.bulk_decide}
        )
        rounds += 1
        assert rounds < 200
    (row,) = desk.rows(BulkDecision)
    assert (row.status, row.decided, row.refused) == ("done", 250, 0)
    assert set(desk.states()) == {"admitted"}
    assert sorted(target for _, target, _ in desk.audited()) == sorted(desk.ids)


def test_job_asks_for_another_round_while_rows_are_left(
    desk: Desk, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(bulk_job, "WITHIN_SECONDS", 0.0)
    desk.start()
    mine = claimed(desk.tenant)
    bulk_job.bulk_decide(scope=worker(desk.tenant), claim=mine)
    with scoped_transaction(worker(desk.tenant)):
        jobs.complete(scope=worker(desk.tenant), claim=mine, now=timezone.now())
    assert job_of(desk.tenant).status == "ready"
    assert desk.rows(BulkDecision)[0].done_upto == 1


def test_job_of_a_decision_that_is_gone_is_done(desk: Desk) -> None:
    desk.start()
    mine = claimed(desk.tenant)
    with scoped_transaction(desk.scope):
        BulkDecision.objects.in_scope(desk.scope).delete()
    bulk_job.bulk_decide(scope=worker(desk.tenant), claim=mine)
    assert set(desk.states()) == {"pending"}


def test_two_workers_at_once_decide_every_row_once(desk: Desk) -> None:
    """A lost lease: both go on, and the rows are shared between them, none twice."""
    bulk_id = desk.start()

    def one() -> None:
        bulk.work(scope=worker(desk.tenant), bulk_id=bulk_id, now=timezone.now(), within_seconds=60)
        connections.close_all()

    with ThreadPoolExecutor(max_workers=2) as pool:
        for ended in [pool.submit(one), pool.submit(one)]:
            ended.result()
    (row,) = desk.rows(BulkDecision)
    assert (row.status, row.decided, row.refused, row.done_upto) == ("done", 250, 0, 250)
    assert len(desk.audited()) == 250


def test_handler_is_known_to_the_worker() -> None:
    assert tasks.HANDLERS["bulk_decide"] is bulk_job.bulk_decide


def test_staff_who_lost_the_role_stops_the_decision(desk: Desk) -> None:
    desk.start()
    desk.staff.groups.clear()
    bulk_job.bulk_decide(scope=worker(desk.tenant), claim=claimed(desk.tenant))
    (row,) = desk.rows(BulkDecision)
    assert (row.status, row.error_code) == ("stopped", "forbidden")
    assert set(desk.states()) == {"pending"}
    assert len(desk.rows(KnowledgeDocument)) == 250
