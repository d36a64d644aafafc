"""Indexing a thread: every succeeded turn goes through the gate and becomes an entry to be found.

A job looks at all of its thread's turns that have no recall entry, so whatever commits late, out of
order or after a crash is taken by the next one, and a unique key keeps each turn to one entry. The
job names no thread in its row: jobs of a thread wait for each other, and one that waits for a model
must not keep turns from being found.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from datetime import datetime
from time import monotonic
from typing import Final

from django.utils import timezone

from governance import audit, gate
from governance.policy import policy_for
from governance.policy_rules import Policy
from governance.retention.limits import recall_limit
from memory import jobs, store
from memory.models import JobKind, RecallEntry
from memory.rls import narrow_open_scope, scoped_transaction
from memory.scope import Scope
from threads.models import Run, RunStatus, Thread
from threads.recall.learning import KIND, LearnedTurn, learn_turns
from threads.recall.left_behind import note_left
from threads.recall.named import count_named
from threads.recall.usage import count_uses, shown_by
from threads.recall.used_facts import use_facts

BATCH_TURNS: Final = 200
_WORK_SECONDS: Final = 60.0
_KEY: Final = f"{JobKind.INDEX_RECALL}:"


def index_job(*, thread_id: str, end_user_id: str, run_id: str | None) -> jobs.NewJob:
    """Return the job that indexes a thread; one unfinished one a thread."""
    return jobs.NewJob(
        kind=JobKind.INDEX_RECALL,
        thread_id=None,
        run_id=run_id,
        end_user_id=end_user_id,
        dedupe_key=f"{_KEY}{thread_id}",
    )


def index_recall(*, scope: Scope, claim: jobs.Claim) -> None:
    """Handle an `index_recall` job: index what its thread has that is not indexed yet.

    Each batch is read in one transaction, gated outside any, and stored in another. What is left
    after a minute is asked for again. Cost: about fifteen statements for each 200 turns.

    Raises:
        LeaseLostError: The job was claimed again; that claim goes on instead.
    """
    started = monotonic()
    thread_id = claim.dedupe_key.removeprefix(_KEY)
    with scoped_transaction(scope):
        missing = unindexed_runs(scope=scope, thread_id=thread_id, now=timezone.now())
    for start in range(0, len(missing), BATCH_TURNS):
        batch = missing[start : start + BATCH_TURNS]
        thread, turns = _read(scope, thread_id, batch)
        if thread is None:
            return
        is_late = monotonic() - started > _WORK_SECONDS
        goes_on = is_late and start + BATCH_TURNS < len(missing)
        _store(scope=scope, claim=claim, thread=thread, turns=turns, goes_on=goes_on)
        if is_late:
            return


def unindexed_runs(*, scope: Scope, thread_id: str, now: datetime) -> list[str]:
    """Return the ids of a thread's succeeded runs that left no recall entry yet, in order.

    Those that policy recalls no longer left none: their entries have expired.

    Inside the caller's transaction. Cost: three queries, two over ids: told apart here, since a
    planner without statistics would look through all entries for each run.
    """
    entries = RecallEntry.objects.in_scope(scope).filter(thread_id=thread_id)
    known = set(entries.values_list("run_id", flat=True))
    rows = Run.objects.in_scope(scope).filter(thread_id=thread_id, status=RunStatus.SUCCEEDED)
    since = recall_limit(scope=scope, now=now)
    rows = rows.filter(created_at__gte=since) if since else rows
    return [pk for pk in rows.order_by("seq").values_list("pk", flat=True) if pk not in known]


def find_index(*, scope: Scope, thread_id: str) -> jobs.NewJob | None:
    """Return the job that a thread lacks, if turns of it are not indexed; for the sweep.

    Inside the caller's transaction. Cost: four queries.
    """
    thread = Thread.objects.in_scope(scope).select_related("agent").filter(pk=thread_id).first()
    if thread is None or not _may_write(scope, thread):
        return None
    if not unindexed_runs(scope=scope, thread_id=thread_id, now=timezone.now()):
        return None
    return index_job(thread_id=thread_id, end_user_id=thread.end_user_id, run_id=None)


def _may_write(scope: Scope, thread: Thread) -> bool:
    return _policy(scope, thread).is_on("writeback")


def _policy(scope: Scope, thread: Thread) -> Policy:
    return policy_for(scope=scope, agent_overrides=thread.agent.policy)


def _read(
    scope: Scope, thread_id: str, run_ids: Sequence[str]
) -> tuple[Thread | None, Sequence[LearnedTurn]]:
    """Return the thread, and what the gate lets through of some of its runs."""
    with scoped_transaction(scope):
        rows = Thread.objects.in_scope(scope).select_related("agent")
        thread = rows.filter(pk=thread_id).first()
        if thread is None:
            return None, ()
        policy = _policy(scope, thread)
        if not policy.is_on("writeback"):
            return None, ()
        wanted = ("id", "seq", "status", "input", "output", "external_id", "created_at")
        named = Run.objects.in_scope(scope).filter(pk__in=run_ids)
        runs = list(named.order_by("seq").only(*wanted))
        if not runs:
            return thread, ()
        learn = learn_turns(scope=scope, thread=thread, runs=runs, policy=policy)
        shown = shown_by(scope=scope, run_ids=run_ids)
    return thread, [replace(turn, shown=shown.get(turn.recall.run_id, ())) for turn in learn()]


def _store(
    *,
    scope: Scope,
    claim: jobs.Claim,
    thread: Thread,
    turns: Sequence[LearnedTurn],
    goes_on: bool,
) -> None:
    """Store a batch in one transaction, its jobs before its shelf."""
    now = timezone.now()
    owner = store.Owner(end_user_id=thread.end_user_id)
    with scoped_transaction(scope):
        jobs.hold(scope=scope, claim=claim)
        turns = _still_there(scope, turns)
        if turns:
            shelf_id = store.ensure_shelf(scope=scope, owner=owner)
            follow = jobs.embed_job(shelf_id=shelf_id, end_user_id=thread.end_user_id)
            jobs.enqueue(scope=scope, job=follow, now=now)
            _add(scope, thread, turns, now)
        if goes_on:
            again = index_job(
                thread_id=thread.pk, end_user_id=thread.end_user_id, run_id=claim.run_id
            )
            jobs.enqueue(scope=scope, job=again, now=now)


def _audit(
    scope: Scope, new: Mapping[str, str], recalls: Sequence[store.NewRecall], now: datetime
) -> None:
    """Write the audit rows of what was remembered, one an entry."""
    details = {
        new[recall.run_id]: gate.written_detail(
            kind=KIND, cleared=recall.texts, run_id=recall.run_id, origin="run"
        )
        for recall in recalls
        if recall.run_id in new
    }
    audit.record_all(scope=scope, action=gate.WRITTEN, target_kind=KIND, details=details, now=now)


def _still_there(scope: Scope, turns: Sequence[LearnedTurn]) -> list[LearnedTurn]:
    """Return the turns that nobody erased since they were read; those stay until this commits."""
    rows = Run.objects.in_scope(scope).filter(pk__in=[turn.recall.run_id for turn in turns])
    there = set(rows.select_for_update(no_key=True, of=("self",)).values_list("pk", flat=True))
    return [turn for turn in turns if turn.recall.run_id in there]


def _add(scope: Scope, thread: Thread, turns: Sequence[LearnedTurn], now: datetime) -> None:
    """Write recall entries, the index entries that lead to them, and what their prompts used."""
    origin = store.Origin(
        end_user_id=thread.end_user_id,
        thread_id=thread.pk,
        agent_id=thread.agent_id,
        role=thread.agent.role,
    )
    recalls = [turn.recall for turn in turns]
    new = store.add_recall(scope=scope, origin=origin, turns=recalls, now=now)
    _audit(scope, new, recalls, now)
    left = {run_id: {"recall": [recall_id]} for run_id, recall_id in new.items()}
    note_left(scope=scope, left=left, now=now)
    entries = [
        turn.entry(recall_id=new[turn.recall.run_id], role=origin.role)
        for turn in turns
        if turn.packed and turn.recall.run_id in new
    ]
    owner = store.Owner(end_user_id=thread.end_user_id)
    store.add_entries(scope=scope, owner=owner, entries=entries, now=now)
    # It may be a team's or the tenant's, which a person's scope can not write.
    wide = Scope(tenant_ids=scope.tenant_ids, principal_id=scope.principal_id)
    narrow_open_scope(wide)
    _count(wide, thread, [turn for turn in turns if turn.recall.run_id in new], now)
    narrow_open_scope(scope)


def _count(wide: Scope, thread: Thread, turns: Sequence[LearnedTurn], now: datetime) -> None:
    """Count what the prompts of new turns showed, and which facts and entities they name."""
    shown = use_facts(scope=wide, end_user_id=thread.end_user_id, turns=turns)
    if shown:
        count_uses(scope=wide, shown=shown, now=now)
    count_named(
        scope=wide,
        end_user_id=thread.end_user_id,
        turns=[turn.recall for turn in turns],
        takes_all=_policy(wide, thread).is_on("learn_from_turns"),
        now=now,
    )
