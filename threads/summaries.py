"""Rolling a thread's summary: read, write outside any transaction, store if nothing moved meanwhile.

The cursor moves only after success, by sequence number, and never past the lowest unfinished run:
no run is folded twice or missed, and a crash costs at most one model call.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from decimal import Decimal
from time import monotonic
from typing import Final

from django.db.models import Min
from django.utils import timezone

from governance.policy import policy_for
from governance.policy_rules import Policy
from memory import jobs
from memory.compression.turns import SummaryTurn
from memory.language import Language, dominant_language
from memory.models import MemoryOp
from memory.rls import scoped_transaction
from memory.sanitize import sanitize
from memory.scope import Scope
from memory.tokens import estimate
from threads.chat import memory_providers, price, provider_config
from threads.history import TurnHead, needs_roll, read_view
from threads.models import Agent, Provider, Run, RunStatus, Thread, ThreadSummary
from threads.summarizer import (
    SummaryCall,
    SummaryTask,
    WrittenSummary,
    shortened,
    write_summary,
)

_WORK_SECONDS: Final = 60.0
_MOST_SOURCE_TOKENS: Final = 12_000
_MOST_TURNS: Final = 60


@dataclass(frozen=True, slots=True, kw_only=True)
class _Reading:
    """What one pass read: the summary so far and the turns to fold in."""

    agent: Agent
    policy: Policy
    upto_seq: int
    covered_turns: int
    previous: str
    turns: tuple[SummaryTurn, ...]
    last_at: datetime


def roll_summary(*, scope: Scope, claim: jobs.Claim) -> None:
    """Handle a `roll_summary` job: fold turns in until the thread is within its limits again.

    A backlog is folded in several passes, each committed; what a long one leaves after a minute is
    taken up by the sweep. Cost: one model call a pass.

    Raises:
        LeaseLostError: The job was claimed again; that claim goes on instead.
    """
    until = monotonic() + _WORK_SECONDS
    while monotonic() < until:
        reading = _read(scope)
        if reading is None:
            return
        written = _write(reading)
        if not _store(scope, claim, reading, written):
            return


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
        heads = _foldable(scope, thread, view.heads, view.older_uncovered, policy)
        if not heads:
            return None
        row = ThreadSummary.objects.in_scope(scope).filter(thread_id=thread.pk).first()
        turns = _turns(scope, heads)
        return _Reading(
            agent=agent,
            policy=policy,
            upto_seq=view.upto_seq,
            covered_turns=row.covered_turns if row else 0,
            previous=view.summary,
            turns=turns,
            last_at=heads[-1].created_at,
        )


def _foldable(
    scope: Scope,
    thread: Thread,
    heads: Sequence[TurnHead],
    beyond: int,
    policy: Policy,
) -> list[TurnHead]:
    """Return the oldest turns one pass may fold: all but the last few, before any unfinished run.

    `beyond` counts finished turns newer than those listed.
    """
    unfinished = (
        Run.objects.in_scope(scope)
        .filter(thread_id=thread.pk, status__in=(RunStatus.QUEUED, RunStatus.RUNNING))
        .aggregate(lowest=Min("seq"))["lowest"]
    )
    keep = max(policy.count("recent_turns") - beyond, 0)
    eligible = heads[: len(heads) - keep]
    if unfinished is not None:
        eligible = [head for head in eligible if head.seq < unfinished]
    chosen: list[TurnHead] = []
    cost = 0
    for head in eligible[:_MOST_TURNS]:
        cost += min(head.tokens, _MOST_SOURCE_TOKENS // 2)
        if chosen and cost > _MOST_SOURCE_TOKENS:
            break
        chosen.append(head)
    return chosen


def _turns(scope: Scope, heads: Sequence[TurnHead]) -> tuple[SummaryTurn, ...]:
    """Return the texts of turns, cleaned, each bounded. Cost: one query."""
    rows = Run.objects.in_scope(scope).filter(pk__in=[head.run_id for head in heads])
    turns = [
        SummaryTurn(
            seq=run.seq,
            user_text=sanitize(run.input).text,
            assistant_text=sanitize(run.output).text,
            at=run.created_at,
            is_failed=run.status == RunStatus.FAILED,
        )
        for run in rows.order_by("seq")
    ]
    return tuple(shortened(turn, _MOST_SOURCE_TOKENS // 4) for turn in turns)


def _write(reading: _Reading) -> WrittenSummary:
    agent = reading.agent
    task = SummaryTask(
        previous=reading.previous,
        turns=reading.turns,
        language=_language(reading),
        max_tokens=reading.policy.count("summary_tokens"),
    )
    configs = [provider_config(provider) for provider in memory_providers(agent)]
    return write_summary(task=task, configs=configs, model=agent.model)


def _language(reading: _Reading) -> Language:
    """Return the language the conversation is in; the agent's own, where it has one."""
    if reading.agent.language == "zh":
        return "zh"
    if reading.agent.language == "en":
        return "en"
    said = " ".join(turn.user_text for turn in reading.turns)
    return "zh" if dominant_language(said) == "zh" else "en"


def _store(scope: Scope, claim: jobs.Claim, reading: _Reading, written: WrittenSummary) -> bool:
    """Store the summary and move the cursor, if it stands where it was read; book every call.

    Returns:
        False if the cursor had moved: the summary is thrown away, the calls are booked all the same.
    """
    now = timezone.now()
    with scoped_transaction(scope):
        jobs.hold(scope=scope, claim=claim)
        _book(scope, claim, reading.agent, written.calls, now)
        thread = Thread.objects.in_scope(scope).get(pk=scope.thread_id)
        ThreadSummary.objects.bulk_create(
            [
                ThreadSummary(
                    tenant_id=scope.tenant_id, thread=thread, end_user_id=thread.end_user_id
                )
            ],
            ignore_conflicts=True,
        )
        row = ThreadSummary.objects.in_scope(scope).select_for_update().get(thread_id=thread.pk)
        if row.summary_upto_seq != reading.upto_seq:
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


def _book(
    scope: Scope,
    claim: jobs.Claim,
    agent: Agent,
    calls: Sequence[SummaryCall],
    now: datetime,
) -> None:
    """Write one memory_ops row for each model call that was made, also for those that failed."""
    providers = {provider.pk: provider for provider in memory_providers(agent)}
    for call in calls:
        MemoryOp.objects.create(
            tenant_id=scope.tenant_id,
            end_user_id=scope.user_id,
            thread_id=scope.thread_id,
            agent_id=agent.pk,
            job_id=claim.job_id,
            kind=claim.kind,
            model=call.model,
            outcome=call.outcome,
            input_tokens=call.usage.input_tokens,
            output_tokens=call.usage.output_tokens,
            cost_usd=_cost(providers[call.provider_id], call, now),
            at=now,
        )


def _cost(provider: Provider, call: SummaryCall, now: datetime) -> Decimal:
    return price(provider=provider, model=call.model, usage=call.usage, now=now).usd
