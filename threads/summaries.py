"""Rolling a thread's summary: read, write outside any transaction, store if nothing moved meanwhile.

The cursor moves only after success, by sequence number, and never past the lowest unfinished run:
no run is folded twice or missed, and a crash costs at most one model call.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from time import monotonic
from typing import Final

from django.db.models import Min
from django.utils import timezone

from governance.policy import policy_for
from governance.policy_rules import Policy
from memory import jobs
from memory.compression.turns import SummaryTurn
from memory.language import Language, dominant_language
from memory.models import JobKind
from memory.rls import scoped_transaction
from memory.sanitize import break_joined, sanitize
from memory.scope import Scope
from memory.tokens import estimate
from threads.chat import memory_providers, provider_config
from threads.history import SHOWN, ThreadView, TurnHead, needs_roll, read_view
from threads.memory_calls import book_calls
from threads.models import Agent, Run, RunStatus, Thread, ThreadSummary
from threads.summarizer import (
    SummaryTask,
    WrittenSummary,
    shortened,
    write_summary,
)

# A job may work for two minutes: a pass starts in the first, and its calls end before the second.
_WORK_SECONDS: Final = 60.0
_ALL_SECONDS: Final = 100.0
_MOST_SOURCE_TOKENS: Final = 12_000
_LEAST_SOURCE_TOKENS: Final = 400
_MOST_TURNS: Final = 60
_UNFINISHED: Final = (RunStatus.QUEUED, RunStatus.RUNNING)
_MOST_THROWN_AWAY: Final = 2


@dataclass(frozen=True, slots=True, kw_only=True)
class _Reading:
    """What one pass read: the summary so far and the turns to fold in."""

    agent: Agent
    policy: Policy
    upto_seq: int
    covered_turns: int
    previous: str
    turns: tuple[SummaryTurn, ...]
    run_ids: frozenset[str]
    last_at: datetime


def roll_summary(*, scope: Scope, claim: jobs.Claim) -> None:
    """Handle a `roll_summary` job: fold turns in until the thread is within its limits again.

    A backlog is folded in several passes, each committed; what is left after a minute is asked for
    again, so that other threads have their turn. Cost: one model call a pass.

    Raises:
        LeaseLostError: The job was claimed again; that claim goes on instead.
    """
    started, thrown_away = monotonic(), 0
    while thrown_away < _MOST_THROWN_AWAY and monotonic() - started < _WORK_SECONDS:
        reading = _read(scope)
        if reading is None:
            return
        written = _write(reading, within_seconds=_ALL_SECONDS - (monotonic() - started))
        book_calls(
            scope=scope,
            kind=claim.kind,
            job_id=claim.job_id,
            agent=reading.agent,
            calls=written.calls,
        )
        thrown_away += not _store(scope, claim, reading, written)
    jobs.ask_again(scope=scope, claim=claim, now=timezone.now())


def find_roll(*, scope: Scope, thread_id: str) -> jobs.NewJob | None:
    """Return the job that a thread lacks, if its summary is due; for the sweep. Cost: as a pass reads.

    Args:
        scope: Names the thread's person and session.
        thread_id: The thread.
    """
    reading = _read(scope)
    if reading is None or not reading.policy.is_on("writeback"):
        return None
    return jobs.NewJob(
        kind=JobKind.ROLL_SUMMARY,
        thread_id=thread_id,
        run_id=None,
        end_user_id=scope.user_id,
        dedupe_key=f"roll_summary:{thread_id}",
        cursor_to=reading.turns[-1].seq,
    )


def _read(scope: Scope) -> _Reading | None:
    """Return what to fold in next, or None if nothing is due. Cost: seven queries."""
    with scoped_transaction(scope):
        thread = Thread.objects.in_scope(scope).filter(pk=scope.thread_id).first()
        if thread is None:
            return None
        agents = Agent.objects.in_scope(scope)
        agent = agents.select_related("provider", "memory_fallback_provider").get(
            pk=thread.agent_id
        )
        policy = policy_for(scope=scope, agent_overrides=agent.policy)
        view = read_view(scope=scope, thread_id=thread.pk, is_oldest_first=True)
        is_due = needs_roll(
            policy=policy,
            uncovered_messages=view.uncovered_messages,
            uncovered_tokens=view.uncovered_tokens,
        )
        if not is_due:
            return None
        most = _most_source_tokens(agent, policy)
        heads = _foldable(scope, view, policy, most)
        turns = _turns(scope, heads, most)
        if not turns:
            return None
        row = ThreadSummary.objects.in_scope(scope).filter(thread_id=thread.pk).first()
        return _Reading(
            agent=agent,
            policy=policy,
            upto_seq=view.upto_seq,
            covered_turns=row.covered_turns if row else 0,
            previous=view.summary,
            turns=turns,
            run_ids=frozenset(head.run_id for head in heads),
            last_at=heads[-1].created_at,
        )


def _most_source_tokens(agent: Agent, policy: Policy) -> int:
    """Return how much one pass folds: what leaves a small window room for summary and answer."""
    room = (agent.context_window - 3 * policy.count("summary_tokens")) // 2
    return max(min(room, _MOST_SOURCE_TOKENS), _LEAST_SOURCE_TOKENS)


def _foldable(scope: Scope, view: ThreadView, policy: Policy, most: int) -> list[TurnHead]:
    """Return the oldest turns one pass may fold: all but the last few, before any unfinished run.

    `view` lists the oldest turns; those beyond are newer. A run that ends between this look and the
    one at `view` is caught by `_store`.
    """
    unfinished = (
        Run.objects.in_scope(scope)
        .filter(thread_id=scope.thread_id, status__in=_UNFINISHED)
        .aggregate(lowest=Min("seq"))["lowest"]
    )
    keep = max(policy.count("recent_turns") - view.older_uncovered, 0)
    eligible: Sequence[TurnHead] = view.heads[: max(len(view.heads) - keep, 0)]
    if unfinished is not None:
        eligible = [head for head in eligible if head.seq < unfinished]
    chosen: list[TurnHead] = []
    cost = 0
    for head in eligible[:_MOST_TURNS]:
        cost += min(head.tokens, most // 2)
        if chosen and cost > most:
            break
        chosen.append(head)
    return chosen


def _turns(scope: Scope, heads: Sequence[TurnHead], most: int) -> tuple[SummaryTurn, ...]:
    """Return the texts of turns, each bounded by its share of `most` and cleaned.

    Empty if one of them is gone since `heads` were read. Cost: one query.
    """
    rows = Run.objects.in_scope(scope).filter(pk__in=[head.run_id for head in heads])
    found = [
        SummaryTurn(
            seq=seq,
            user_text=question,
            assistant_text="" if status == RunStatus.FAILED else answer,
            at=at,
            is_failed=status == RunStatus.FAILED,
        )
        for seq, question, answer, at, status in rows.order_by("seq").values_list(
            "seq", "input", "output", "created_at", "status"
        )
    ]
    if len(found) != len(heads):
        return ()
    said = break_joined([turn.user_text for turn in found])
    return tuple(
        _cleaned(shortened(replace(turn, user_text=text), most // 4))
        for turn, text in zip(found, said, strict=True)
    )


def _cleaned(turn: SummaryTurn) -> SummaryTurn:
    return replace(
        turn,
        user_text=sanitize(turn.user_text).text,
        assistant_text=sanitize(turn.assistant_text).text,
    )


def _write(reading: _Reading, *, within_seconds: float) -> WrittenSummary:
    agent = reading.agent
    task = SummaryTask(
        previous=reading.previous,
        turns=reading.turns,
        language=_language(reading),
        max_tokens=reading.policy.count("summary_tokens"),
    )
    configs = [provider_config(provider) for provider in memory_providers(agent)]
    return write_summary(
        task=task, configs=configs, model=agent.model, within_seconds=within_seconds
    )


def _language(reading: _Reading) -> Language:
    """Return the language the conversation is in; the agent's own, where it has one."""
    if reading.agent.language == "zh":
        return "zh"
    if reading.agent.language == "en":
        return "en"
    said = " ".join(turn.user_text for turn in reading.turns)
    return "zh" if dominant_language(said) == "zh" else "en"


def _store(scope: Scope, claim: jobs.Claim, reading: _Reading, written: WrittenSummary) -> bool:
    """Store the summary and move the cursor, if everything stands where it was read.

    Returns:
        False if the cursor had moved, or a turn was added to what it covers or erased from it: then
        the summary is thrown away.

    Raises:
        LeaseLostError: The job was claimed again, or its thread is gone.
    """
    now = timezone.now()
    with scoped_transaction(scope):
        jobs.hold(scope=scope, claim=claim)
        thread = Thread.objects.in_scope(scope).filter(pk=scope.thread_id).first()
        if thread is None:
            raise jobs.LeaseLostError
        ThreadSummary.objects.bulk_create(
            [
                ThreadSummary(
                    tenant_id=scope.tenant_id, thread=thread, end_user_id=thread.end_user_id
                )
            ],
            ignore_conflicts=True,
        )
        row = ThreadSummary.objects.in_scope(scope).select_for_update().get(thread_id=thread.pk)
        if row.summary_upto_seq != reading.upto_seq or not _is_as_read(scope, reading):
            return False
        row.rolling_summary = written.text or reading.previous
        row.summary_upto_seq = reading.turns[-1].seq
        row.summary_upto_at = reading.last_at
        row.covered_turns = reading.covered_turns + len(reading.turns)
        row.token_count = estimate(row.rolling_summary)
        row.method, row.model = written.method, written.model
        row.version += 1
        row.updated_at = now
        row.save()
    return True


def _is_as_read(scope: Scope, reading: _Reading) -> bool:
    """Say whether the turns up to the new cursor are those that were summarised, all finished.

    Holds their rows against an erasure until this is committed. Cost: one query.
    """
    rows = (
        Run.objects.in_scope(scope)
        .select_for_update(no_key=True)
        .filter(
            thread_id=scope.thread_id,
            seq__gt=reading.upto_seq,
            seq__lte=reading.turns[-1].seq,
            status__in=(*_UNFINISHED, *SHOWN),
        )
    )
    return frozenset(rows.values_list("id", flat=True)) == reading.run_ids
