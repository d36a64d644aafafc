"""Retention and expiry with real commits: what goes, what stays, twice, half-way, hour by hour."""

from __future__ import annotations

from dataclasses import asdict
from datetime import datetime, timedelta
from io import StringIO
from json import loads
from typing import Any

import pytest
from django.core.management import call_command
from django.utils import timezone

from governance.models import AuditEntry
from governance.policy import change_policy
from memory import jobs, store
from memory.models import IndexEntry, Job, RecallEntry
from memory.rls import maintenance_transaction, scoped_transaction
from tests.factories import make_run, scope_of
from tests.jobbook import tenant_scope
from tests.recalling import Talk, make_talk
from threads.forgetting.retention import expire
from threads.learning.expiry import apply_retention, count_due, create_expire_jobs
from threads.models import ContextTrace, Run, RunTrace
from threads.recall.indexing import find_index, unindexed_runs
from threads.recall.sweeping import create_lost_jobs
from threads.tasks import HANDLERS

pytestmark = [pytest.mark.usefixtures("committed_db"), pytest.mark.req("B15")]


def ago(days: int) -> datetime:
    return timezone.now() - timedelta(days=days)


def talk_of(*ages: int) -> Talk:
    """A person whose turns are so many days old, indexed."""
    talk = make_talk()
    for days in ages:
        at = ago(days)
        make_run(
            talk.thread,
            input=f"红黑树 turn of {days} days",
            output="answer",
            created_at=at,
            finished_at=at,
        )
    claim = talk.claim()
    HANDLERS["index_recall"](scope=talk.scope, claim=claim)
    with scoped_transaction(talk.scope):
        jobs.complete(scope=talk.scope, claim=claim, now=timezone.now())
    return talk


def keep(talk: Talk, **days: int | None) -> None:
    change_policy(scope=talk.wide, changes=days, now=timezone.now())


def count(talk: Talk, model: Any) -> int:
    with scoped_transaction(talk.wide):
        return int(model.objects.in_scope(talk.wide).count())


def audited(talk: Talk) -> list[dict[str, Any]]:
    with scoped_transaction(talk.wide):
        rows = AuditEntry.objects.in_scope(talk.wide).filter(action="retention_applied")
        return [row.detail for row in rows.order_by("id")]


def trace(talk: Talk, days: int) -> None:
    """A trace of a run, and one of the context endpoint, so many days old."""
    run = make_run(talk.thread)
    values: dict[str, Any] = {"tenant": talk.tenant, "end_user_id": talk.thread.end_user_id}
    values |= {"messages": [{"role": "user", "content": "你好"}], "created_at": ago(days)}
    with scoped_transaction(talk.wide):
        RunTrace.objects.create(run=run, **values)
        ContextTrace.objects.create(agent_id=talk.thread.agent_id, **values)


def due_jobs(talk: Talk, at: datetime | None = None) -> int:
    with maintenance_transaction() as alias:
        create_expire_jobs(alias=alias, now=at or timezone.now())
    return len(talk.jobs_of("expire"))


def test_recall_past_its_days_goes_with_its_index_and_stays_gone() -> None:
    talk = talk_of(40, 31, 5)
    assert (count(talk, RecallEntry), count(talk, IndexEntry)) == (3, 3)
    before = talk.shelf().generation
    keep(talk, retention_recall_days=30)
    report = apply_retention(scope=talk.wide, now=timezone.now())
    assert report.recall == 2
    assert [entry.said for entry in talk.recalled()] == ["红黑树 turn of 5 days"]
    assert count(talk, IndexEntry) == 1
    assert talk.shelf().generation > before
    assert count(talk, Run) == 3
    with scoped_transaction(talk.scope):
        now = timezone.now()
        assert unindexed_runs(scope=talk.scope, thread_id=talk.thread.pk, now=now) == []
        assert find_index(scope=talk.scope, thread_id=talk.thread.pk) is None
    with maintenance_transaction() as alias:
        assert create_lost_jobs(alias=alias, now=timezone.now()) >= 0
    assert talk.jobs_of("index_recall") == []
    keep(talk, retention_recall_days=None)
    with scoped_transaction(talk.scope):
        assert find_index(scope=talk.scope, thread_id=talk.thread.pk) is not None


def test_traces_past_ninety_days_go_by_default_and_recall_stays() -> None:
    talk = talk_of(400)
    trace(talk, 91)
    trace(talk, 89)
    report = apply_retention(scope=talk.wide, now=timezone.now())
    assert (report.run_traces, report.context_traces, report.recall) == (1, 1, 0)
    assert (count(talk, RunTrace), count(talk, ContextTrace)) == (1, 1)
    assert count(talk, RecallEntry) == 1
    assert audited(talk) == [{"run_traces": 1}, {"context_traces": 1}]


def test_doing_it_twice_finds_nothing_and_writes_no_second_audit_row() -> None:
    talk = talk_of(40)
    keep(talk, retention_recall_days=30)
    assert apply_retention(scope=talk.wide, now=timezone.now()).recall == 1
    again = apply_retention(scope=talk.wide, now=timezone.now())
    assert set(asdict(again).values()) == {0}
    assert audited(talk) == [{"recall": 1}]


def test_what_breaks_half_way_goes_on_where_it_stopped() -> None:
    talk = talk_of(40, 39, 38, 37, 36)
    keep(talk, retention_recall_days=30)
    calls = iter(range(100))

    def break_at_third() -> None:
        if next(calls) == 3:  # the first is of the items
            raise RuntimeError

    with pytest.raises(RuntimeError):
        apply_retention(scope=talk.wide, now=timezone.now(), hold=break_at_third, batch=2)
    assert (count(talk, RecallEntry), count(talk, IndexEntry)) == (1, 1)
    assert audited(talk) == [{"recall": 2}, {"recall": 2}]
    apply_retention(scope=talk.wide, now=timezone.now(), batch=2)
    assert (count(talk, RecallEntry), count(talk, IndexEntry)) == (0, 0)
    assert sum(row["recall"] for row in audited(talk)) == 5


def test_a_tenant_expires_only_its_own() -> None:
    talk, other = talk_of(40), talk_of(40)
    keep(talk, retention_recall_days=30)
    keep(other, retention_recall_days=50)
    apply_retention(scope=talk.wide, now=timezone.now())
    assert (count(talk, RecallEntry), count(other, RecallEntry)) == (0, 1)


def test_the_sweep_asks_once_an_hour_where_something_is_due() -> None:
    talk = talk_of(40)
    assert due_jobs(talk) == 0
    keep(talk, retention_recall_days=30)
    assert due_jobs(talk) == 1
    assert due_jobs(talk) == 1
    (job,) = talk.jobs_of("expire")
    claim = jobs.claim(job_id=job.pk, tenant_id=talk.tenant.pk)
    assert claim is not None
    scope = tenant_scope(talk.tenant.pk)
    expire(scope=scope, claim=claim)
    with scoped_transaction(scope):
        jobs.complete(scope=scope, claim=claim, now=timezone.now())
    assert count(talk, RecallEntry) == 0
    trace(talk, 99)
    assert due_jobs(talk) == 0
    assert due_jobs(talk, timezone.now() + timedelta(minutes=61)) == 1


def test_a_job_that_was_claimed_again_deletes_nothing() -> None:
    talk = talk_of(40)
    keep(talk, retention_recall_days=30)
    due_jobs(talk)
    (job,) = talk.jobs_of("expire")
    claim = jobs.claim(job_id=job.pk, tenant_id=talk.tenant.pk)
    assert claim is not None
    with scoped_transaction(talk.wide):
        Job.objects.in_scope(talk.wide).filter(pk=job.pk).update(epoch=claim.epoch + 1)
    with pytest.raises(jobs.LeaseLostError):
        expire(scope=tenant_scope(talk.tenant.pk), claim=claim)
    assert count(talk, RecallEntry) == 1


def test_the_command_counts_then_deletes() -> None:
    talk = talk_of(40, 5)
    keep(talk, retention_recall_days=30)
    due = count_due(scope=talk.wide, now=timezone.now())
    assert due.recall == 1

    def run(*words: str) -> dict[str, int]:
        out = StringIO()
        call_command("expire", "--json", "--tenant", talk.tenant.slug, *words, stdout=out)
        counts: dict[str, int] = loads(out.getvalue())
        return counts

    assert run("--dry-run")["recall"] == 1
    assert count(talk, RecallEntry) == 2
    assert run()["recall"] == 1
    assert run() == {"turns": 0, "items": 0, "recall": 0, "run_traces": 0, "context_traces": 0}


def test_removing_recall_takes_only_that_persons() -> None:
    talk, other = talk_of(1), talk_of(1)
    (theirs,) = other.recalled()
    with scoped_transaction(talk.wide):
        owner = store.Owner(end_user_id=talk.thread.end_user_id)
        gone = store.remove_recall(scope=scope_of(talk.tenant), owner=owner, recall_ids=[theirs.pk])
    assert gone == 0
    assert len(other.recalled()) == 1
