"""What the worker made of a run is told in the run's trace, by ids alone."""

from __future__ import annotations

from typing import Any

import pytest
from django.utils import timezone

from governance.models import AuditEntry
from memory.rls import scoped_transaction
from tests.factories import make_run
from tests.recalling import Talk, make_talk
from threads.models import Run, RunTrace
from threads.recall.indexing import index_recall
from threads.recall.left_behind import note_left

pytestmark = [pytest.mark.usefixtures("committed_db"), pytest.mark.req("B16")]


def traced(talk: Talk, said: str) -> Run:
    run = make_run(talk.thread, input=said)
    with scoped_transaction(talk.wide):
        RunTrace.objects.create(
            run=run,
            tenant=talk.tenant,
            end_user_id=talk.thread.end_user_id,
            steps=[{"seq": 1, "kind": "scope"}],
        )
    return run


def steps_of(talk: Talk, run: Run) -> list[dict[str, Any]]:
    with scoped_transaction(talk.wide):
        steps: list[dict[str, Any]] = RunTrace.objects.in_scope(talk.wide).get(run=run).steps
    return steps


def test_indexing_tells_each_run_its_entry_and_audits_it() -> None:
    talk = make_talk()
    runs = [traced(talk, "红黑树怎么讲？"), traced(talk, "What about B-trees?")]
    make_run(talk.thread, input="a turn without a trace")
    index_recall(scope=talk.scope, claim=talk.claim())
    entries = {entry.run_id: entry.pk for entry in talk.recalled()}
    assert len(entries) == 3
    for run in runs:
        first, last = steps_of(talk, run)
        assert (first["seq"], last["seq"], last["kind"]) == (1, 2, "writeback")
        assert last["data"] == {"recall": [entries[run.pk]]}
        assert run.input not in str(last)
    with scoped_transaction(talk.wide):
        rows = AuditEntry.objects.in_scope(talk.wide).filter(action="memory_written")
        told = {row.target_id: row.detail for row in rows}
    assert told.keys() == set(entries.values())
    assert {detail["source_run_id"] for detail in told.values()} == entries.keys()
    assert all(detail["characters"] > 0 for detail in told.values())


def test_nothing_left_and_no_trace_are_no_error() -> None:
    talk, other = make_talk(), make_talk()
    run = traced(talk, "x")
    with scoped_transaction(talk.scope):
        note_left(scope=talk.scope, left={}, now=timezone.now())
    with scoped_transaction(other.scope):
        note_left(scope=other.scope, left={run.pk: {"recall": ["rec_1"]}}, now=timezone.now())
    assert len(steps_of(talk, run)) == 1
