"""What an extraction reads and writes: runs with their person's own words, candidates, the looks."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Final

from governance.core.candidates import add_cleared
from governance.core.clearing import MOST_SUBJECT_CHARACTERS, StatedFact, clear_fact
from governance.gate import Blocked
from governance.models import Extraction
from governance.policy import policy_for
from governance.policy_rules import Policy
from memory import jobs
from memory.rls import scoped_transaction
from memory.scope import Scope
from memory.store.candidates import ClearedFact
from threads.learning.fact_answers import MOST_FACTS, ModelFact
from threads.learning.grounding import ground
from threads.learning.own_words import own_sentences
from threads.models import Agent, Run, RunOrigin, RunStatus, RunTrace, Thread
from threads.recall.left_behind import note_left

MOST_RUNS: Final = 10
# A longer text is no fact with a word too many, and is not looked at further.
MOST_RAW_CHARACTERS: Final = 400
_NONE: Final = "none"
_FOUND: Final = "found"
# What a prompt shows that is neither remembered nor told: its own words and the thread itself.
_NOT_MEMORY: Final = frozenset({"guideline", "turn"})


@dataclass(frozen=True, slots=True, kw_only=True)
class Batch:
    """Runs to look through: their person's own sentences by run, oldest run first."""

    thread: Thread
    agent: Agent
    policy: Policy
    runs: Mapping[str, Run]
    said: Mapping[str, list[str]]


@dataclass(frozen=True, slots=True, kw_only=True)
class Found:
    """A fact that a run's own words bear out, as the gate let it through."""

    run_id: str
    stated: StatedFact
    cleared: ClearedFact


@dataclass(frozen=True, slots=True, kw_only=True)
class Looked:
    """What came of looking: facts, how many were dropped, or what was wrong with the answer."""

    found: tuple[Found, ...] = ()
    dropped: int = 0
    fault: str = ""


def read_batch(
    *,
    scope: Scope,
    thread_id: str,
    origins_of: Callable[[Policy], Collection[RunOrigin]],
    most: int = MOST_RUNS,
    without: Collection[str] = (),
) -> Batch | None:
    """Return the oldest runs of a thread that were not looked through, None if there are none.

    At most `most`, and none of those in `without`. Cost: six queries.
    """
    with scoped_transaction(scope):
        rows = Thread.objects.in_scope(scope).select_related(
            "agent__provider", "agent__memory_fallback_provider"
        )
        thread = rows.filter(pk=thread_id).first()
        if thread is None:
            return None
        policy = policy_for(scope=scope, agent_overrides=thread.agent.policy)
        runs = _unlooked(scope, thread_id, origins_of(policy), most, without)
        if not runs:
            return None
        shown = _shown(scope, [run.pk for run in runs])
    said = {run.pk: own_sentences(text=run.input, shown=shown.get(run.pk, ())) for run in runs}
    return Batch(
        thread=thread,
        agent=thread.agent,
        policy=policy,
        runs={run.pk: run for run in runs},
        said=said,
    )


def _unlooked(
    scope: Scope,
    thread_id: str,
    origins: Collection[RunOrigin],
    most: int,
    without: Collection[str],
) -> list[Run]:
    if not origins:
        return []
    looked = Extraction.objects.in_scope(scope).filter(thread_id=thread_id)
    known = {*looked.values_list("run_id", flat=True), *without}
    rows = Run.objects.in_scope(scope).filter(
        thread_id=thread_id, status=RunStatus.SUCCEEDED, origin__in=origins
    )
    ids = [pk for pk in rows.order_by("seq").values_list("pk", flat=True) if pk not in known]
    named = Run.objects.in_scope(scope).filter(pk__in=ids[:most])
    return list(named.order_by("seq").only("id", "seq", "input", "origin", "end_user_id"))


def _shown(scope: Scope, run_ids: Sequence[str]) -> dict[str, list[str]]:
    """Return what the prompts of runs showed from memory, by run."""
    rows = RunTrace.objects.in_scope(scope).filter(run_id__in=run_ids)
    return {
        run_id: [
            str(item.get("content", "")) for item in items if item.get("kind") not in _NOT_MEMORY
        ]
        for run_id, items in rows.values_list("run_id", "items")
    }


def find_in(*, batch: Batch, facts: Sequence[ModelFact]) -> tuple[tuple[Found, ...], int]:
    """Return the facts that a batch's own words bear out and the gate lets through; how many not.

    At most twenty a run; what carries markers is none. Cost: about a millisecond a fact.
    """
    found: list[Found] = []
    counts: Counter[str] = Counter()
    most = MOST_FACTS * len(batch.runs)
    for fact in facts[:most]:
        one = _found(batch, fact)
        if one is not None and counts[one.run_id] < MOST_FACTS:
            counts[one.run_id] += 1
            found.append(one)
    return tuple(found), len(facts) - len(found)


def _found(batch: Batch, fact: ModelFact) -> Found | None:
    if len(fact.fact) > MOST_RAW_CHARACTERS:
        return None
    said = {run_id: sentences for run_id, sentences in batch.said.items() if sentences}
    grounded = ground(fact=fact.fact, said=said)
    if grounded is None:
        return None
    is_import = batch.runs[grounded.run_id].origin == RunOrigin.IMPORT
    stated = StatedFact(
        fact=fact.fact,
        subject=fact.subject[:MOST_SUBJECT_CHARACTERS],
        origin="import" if is_import else "run",
        by="worker",
        run_id=grounded.run_id,
        confidence=fact.confidence,
        evidence=grounded.evidence,
    )
    cleared = clear_fact(stated=stated, policy=batch.policy)
    if isinstance(cleared, Blocked) or any(one.markers for one in cleared.texts):
        return None
    return Found(run_id=grounded.run_id, stated=stated, cleared=cleared)


def store_batch(
    *, scope: Scope, claim: jobs.Claim, batch: Batch, looked: Looked, now: datetime
) -> None:
    """Store the candidates of a batch, and that its runs were looked through, in one transaction.

    What was erased meanwhile leaves nothing; a run that another claim has looked through leaves
    nothing twice. Cost: five statements, and about four a candidate.

    Raises:
        LeaseLostError: The job was claimed again.
    """
    with scoped_transaction(scope):
        jobs.hold(scope=scope, claim=claim)
        there = _still_there(scope, batch)
        new = _note(scope, batch, there, looked, now)
        left: dict[str, dict[str, list[str]]] = {}
        for one in looked.found:
            if one.run_id not in new:
                continue
            added = add_cleared(
                scope=scope,
                end_user_id=batch.thread.end_user_id,
                stated=one.stated,
                cleared=one.cleared,
                now=now,
            )
            if added.is_new and added.candidate is not None:
                made = left.setdefault(one.run_id, {"core_candidates": []})
                made["core_candidates"].append(added.candidate.pk)
        note_left(scope=scope, left=left, now=now)


def _still_there(scope: Scope, batch: Batch) -> list[str]:
    """Return the runs that nobody erased since they were read; those stay until this commits."""
    rows = Run.objects.in_scope(scope).filter(pk__in=list(batch.runs), status=RunStatus.SUCCEEDED)
    locked = rows.order_by("pk").select_for_update(no_key=True, of=("self",))
    return list(locked.values_list("pk", flat=True))


def _note(
    scope: Scope, batch: Batch, there: Sequence[str], looked: Looked, now: datetime
) -> set[str]:
    """Note that runs were looked through, and return those that were not before."""
    counts = Counter(one.run_id for one in looked.found)
    rows = [
        Extraction(
            tenant_id=scope.tenant_id,
            end_user_id=batch.thread.end_user_id,
            thread_id=batch.thread.pk,
            run_id=run_id,
            outcome=_outcome(looked, counts[run_id], looked.dropped if run_id == there[-1] else 0),
            facts=counts[run_id],
            at=now,
        )
        for run_id in there
    ]
    made = Extraction.objects.get_queryset().unscoped(
        reason="insert in the scope's own tenant; its unique key and RLS decide"
    )
    made.bulk_create(rows, ignore_conflicts=True)
    stored = Extraction.objects.in_scope(scope).filter(pk__in=[row.pk for row in rows])
    return set(stored.values_list("run_id", flat=True))


def _outcome(looked: Looked, facts: int, dropped: int) -> str:
    """Return how it went, with what was dropped: none, found, found,dropped=3, malformed."""
    if looked.fault:
        return looked.fault
    outcome = _FOUND if facts else _NONE
    return f"{outcome},dropped={dropped}" if dropped else outcome
