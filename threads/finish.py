"""How an accepted run ends: one transaction for each of the four ways, and only one of them learns.

Status, messages, trace, files and job rows are written together; whoever comes second changes
nothing.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from datetime import datetime
from typing import Any

from memory import jobs
from memory.rls import scoped_transaction
from threads import runs
from threads.follow_up import follow_up_job
from threads.models import Run, RunStatus, ThreadStrategy
from threads.pipeline import ContextOverBudgetError, PreparedRun
from threads.runs import Answered, Written
from threads.token_fits import learn


def succeed(*, prepared: PreparedRun, answered: Answered, now: datetime) -> Run | None:
    """Store the answer and the work that follows from it, in one transaction.

    Returns:
        The run as it is stored now; None if it had been cancelled, swept or erased meanwhile: then
        nothing is written.
    """
    scope = prepared.scope
    # Of a lossless thread only the stored turns say what is due: it is asked afterwards.
    is_asked_later = prepared.agent.thread_strategy == ThreadStrategy.LOSSLESS
    stored = runs.written(answered)
    with scoped_transaction(scope):
        job = None if is_asked_later else _job_after(prepared, prepared.run, answered, stored)
        told = () if is_asked_later else (_writeback(answered, job, now),)
        answered = replace(answered, steps=(*answered.steps, *told))
        ended = runs.succeed(
            scope=scope, run_id=prepared.run_id, answered=answered, stored=stored, now=now
        )
        if ended is None:
            return None
        if is_asked_later:
            job = _job_after(prepared, ended, answered, stored)
            last = _writeback(answered, job, now)
            runs.add_steps(scope=scope, run_id=prepared.run_id, steps=(last,))
        if job is not None:
            jobs.enqueue(scope=scope, job=job, now=now)
        learn(scope=scope, agent=prepared.agent, observations=answered.observations, now=now)
    return _whole(prepared.run, ended)


def _job_after(
    prepared: PreparedRun, last: Run, answered: Answered, stored: Written
) -> jobs.NewJob | None:
    """Return the job that follows from a run, if it is stored as succeeded."""
    run, view = prepared.run, prepared.view
    return follow_up_job(
        scope=prepared.scope,
        agent=prepared.agent,
        policy=prepared.policy,
        last=last,
        uncovered=lambda: (
            view.uncovered_messages + run.message_count + answered.messages_added,
            view.uncovered_tokens + run.turn_tokens + stored.tokens_added,
        ),
    )


def _writeback(answered: Answered, job: jobs.NewJob | None, now: datetime) -> dict[str, Any]:
    """Return the last step of a run that succeeded: what it leaves behind."""
    data = {
        "messages": answered.messages_added,
        "artifacts": len(answered.artifacts),
        "jobs": [str(job.kind)] if job else [],
        "status": str(RunStatus.SUCCEEDED),
    }
    return {"kind": "writeback", "started_at": now.isoformat(), "ms": 0.0, "data": data}


def _whole(accepted: Run, ended: Run) -> Run:
    """Return the run with what was known when it was accepted, so that nobody reads it back."""
    ended.agent_id = accepted.agent_id
    ended.end_user = accepted.end_user
    ended.origin = accepted.origin
    ended.input, ended.metadata = accepted.input, accepted.metadata
    ended.bootstrap, ended.context = accepted.bootstrap, accepted.context
    ended.key_id, ended.created_at = accepted.key_id, accepted.created_at
    ended.continues_id = accepted.continues_id
    return ended


def fail(
    *,
    prepared: PreparedRun,
    code: str,
    detail: str,
    now: datetime,
    steps: Sequence[Mapping[str, Any]] = (),
) -> bool:
    """End the run as failed; nothing is learned from it. False if it had ended already."""
    with scoped_transaction(prepared.scope):
        return runs.end(
            scope=prepared.scope,
            run_id=prepared.run_id,
            status=RunStatus.FAILED,
            now=now,
            steps=steps,
            error_code=code,
            error_detail=detail[:500],
        )


def reject(
    *,
    prepared: PreparedRun,
    context: Mapping[str, Any],
    now: datetime,
    steps: Sequence[Mapping[str, Any]] = (),
) -> bool:
    """End the run as refused over budget, with the account at that time; nothing is learned.

    False if it had ended already.
    """
    with scoped_transaction(prepared.scope):
        return runs.end(
            scope=prepared.scope,
            run_id=prepared.run_id,
            status=RunStatus.REJECTED,
            now=now,
            steps=steps,
            error_code=ContextOverBudgetError.code,
            context=dict(context),
        )


def cancel(
    *, prepared: PreparedRun, now: datetime, steps: Sequence[Mapping[str, Any]] = ()
) -> bool:
    """End the run as cancelled; nothing is learned from it. False if it had ended already."""
    with scoped_transaction(prepared.scope):
        return runs.end(
            scope=prepared.scope,
            run_id=prepared.run_id,
            status=RunStatus.CANCELLED,
            now=now,
            steps=steps,
        )


def read_ended(*, prepared: PreparedRun) -> Run:
    """Return the stored run, for saying how it ended. Cost: one query."""
    with scoped_transaction(prepared.scope):
        return runs.read_run(scope=prepared.scope, run_id=prepared.run_id)
