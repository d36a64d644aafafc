"""Before a run's first call: a model's summary for what had to leave its prompt.

The prompt already holds a summary made without a model, so nothing here can make a run fail: where
no provider answers in time, or what it writes does not fit or loses something, that one stays.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from dataclasses import replace
from typing import Any, Final

from django.utils import timezone

from memory.compression.chain import LevelStep
from memory.db_threads import in_database_thread
from memory.rls import scoped_transaction
from threads.chat import memory_providers, provider_config
from threads.disclosing import note_prompt
from threads.memory_calls import book_calls
from threads.models import Provider, Run, RunTrace
from threads.pipeline import PreparedRun
from threads.prompt.assembly import Assembled
from threads.prompt.squeezing import PendingSummary
from threads.summarizer import SummaryTask, WrittenSummary, write_summary

WITHIN_SECONDS: Final = 20.0
KIND: Final = "compress"


def is_summary_pending(prepared: PreparedRun) -> bool:
    """Say whether turns left the prompt that a model could summarise."""
    return prepared.prompt.pending_summary is not None


async def write_stand_in(prepared: PreparedRun) -> PreparedRun:
    """Return the run with a better prompt, if a model wrote one; its trace and ledger follow.

    Cost: at most one model call a provider and a second try, 20 seconds in all; two short
    transactions. No thread of the database is held meanwhile.
    """
    prompt = prepared.prompt
    pending = prompt.pending_summary
    if pending is None:
        return prepared
    await in_database_thread(lambda: _load_fallback(prepared))
    written = await asyncio.to_thread(_write, prepared, pending)
    told = prompt.told_by(written.text) if written.method == "model" else None
    return await in_database_thread(lambda: _store(prepared, prompt, told, written))


def _load_fallback(prepared: PreparedRun) -> None:
    """Give the run's agent its fallback provider; its own stays the one the run began with."""
    agent, scope = prepared.agent, prepared.scope
    if agent.memory_fallback_provider_id is not None:
        with scoped_transaction(scope):
            rows = Provider.objects.in_scope(scope).filter(pk=agent.memory_fallback_provider_id)
            agent.memory_fallback_provider = rows.first()


def _write(prepared: PreparedRun, pending: PendingSummary) -> WrittenSummary:
    agent = prepared.agent
    task = SummaryTask(
        previous="",
        turns=pending.turns,
        language=pending.language,
        max_tokens=pending.max_tokens,
    )
    configs = [provider_config(provider) for provider in memory_providers(agent)]
    return write_summary(
        task=task, configs=configs, model=agent.model, within_seconds=WITHIN_SECONDS
    )


def _store(
    prepared: PreparedRun, prompt: Assembled, told: Assembled | None, written: WrittenSummary
) -> PreparedRun:
    """Book the calls; keep the better prompt with the run, as long as the run goes on."""
    scope, agent = prepared.scope, prepared.agent
    book_calls(scope=scope, kind=KIND, job_id=None, agent=agent, calls=written.calls)
    step = _step(prompt, told, written)
    if told is None:
        return replace(prepared, prompt=prompt.settled(), steps=(step,))
    context: Mapping[str, Any] = told.ledger.as_json()
    with scoped_transaction(scope):
        Run.objects.in_scope(scope).filter(pk=prepared.run_id).update(context=context)
        RunTrace.objects.in_scope(scope).filter(run_id=prepared.run_id).update(
            messages=told.messages_as_json(), items=told.items
        )
        note_prompt(
            scope=scope, run=prepared.run, agent=agent, items=told.items, now=timezone.now()
        )
    prepared.run.context = dict(context)
    return replace(
        prepared,
        prompt=told,
        context=context,
        request=replace(prepared.request, messages=told.messages),
        steps=(step,),
    )


def _step(prompt: Assembled, told: Assembled | None, written: WrittenSummary) -> dict[str, Any]:
    """Return the trace's step: by which model, from how many tokens to how many."""
    last = prompt.compressions[-1]
    level = LevelStep(
        level="summary",
        summary_id=last.summary_id,
        tokens_before=prompt.ledger.prompt_tokens,
        tokens_after=(told or prompt).ledger.prompt_tokens,
        model=written.model,
        veto="ok" if told else "not_used",
        outcome="kept" if told else "undone",
    )
    return {
        "kind": KIND,
        "started_at": timezone.now().isoformat(),
        "ms": 0.0,
        "data": level.as_json(),
    }
