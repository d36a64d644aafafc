"""How an accepted run ends: one transaction for each of the four ways, and only one of them learns.

Status, messages, trace, files and job rows are written together; whoever comes second changes
nothing.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from datetime import datetime
from typing import Any, Final

from memory import jobs
from memory.rls import scoped_transaction
from memory.scope import Scope
from threads import runs
from threads.follow_up import follow_up_jobs
from threads.learning.artifacts import archive_job
from threads.models import Run, RunStatus, RunTrace, ThreadStrategy
from threads.pipeline import ContextOverBudgetError, PreparedRun
from threads.runs import Answered, Spent, Written
from threads.token_fits import learn
from threads.tools.storing import RunsItems, lock_for, store_items

_NOTHING: Final = Spent()
_UNSUCCESSFUL: Final = (RunStatus.FAILED, RunStatus.CANCELLED, RunStatus.REJECTED)


def succeed(*, prepared: PreparedRun, answered: Answered, now: datetime) -> Run | None:
    """Store the answer and the work that follows from it, in one transaction.

    Returns:
        The run as it is stored now; None if it had been cancelled, swept or erased meanwhile: then
        nothing is written.
    """
    scope = prepared.scope
    # Of a lossless thread only the stored turns say what is due: it is asked afterwards.
    is_asked_later = prepared.agent.thread_strategy == ThreadStrategy.LOSSLESS
    # What was remembered has its ids only once it is written.
    is_told_later = is_asked_later or bool(answered.items)
    stored = runs.written(answered)
    with scoped_transaction(scope):
        wanted = () if is_asked_later else _jobs_after(prepared, prepared.run, answered, stored)
        told = () if is_told_later else (_writeback(answered, wanted, now),)
        answered = replace(answered, steps=(*answered.steps, *told))
        ended = runs.succeed(
            scope=scope, run_id=prepared.run_id, answered=answered, stored=stored, now=now
        )
        if ended is None:
            return None
        if is_asked_later:
            wanted = _jobs_after(prepared, ended, answered, stored)
        kept = _kept(prepared, ended, answered)
        lock_for(scope=scope, kept=kept)
        jobs.enqueue_all(scope=scope, wanted=wanted, now=now)
        items = store_items(scope=scope, kept=kept, now=now)
        if is_told_later:
            last = _writeback(answered, wanted, now, items=items)
            runs.add_steps(scope=scope, run_id=prepared.run_id, steps=(last,))
        learn(scope=scope, agent=prepared.agent, observations=answered.observations, now=now)
    return _whole(prepared.run, ended)


def _kept(prepared: PreparedRun, ended: Run, answered: Answered) -> RunsItems:
    """Return what a run that succeeded is to remember."""
    return RunsItems(
        run=ended, role=prepared.agent.role, policy=prepared.policy, items=answered.items
    )


def _jobs_after(
    prepared: PreparedRun, last: Run, answered: Answered, stored: Written
) -> tuple[jobs.NewJob, ...]:
    """Return the jobs that follow from a run, if it is stored as succeeded."""
    run, view = prepared.run, prepared.view
    wanted = follow_up_jobs(
        scope=prepared.scope,
        agent=prepared.agent,
        policy=prepared.policy,
        last=last,
        uncovered=lambda: (
            view.uncovered_messages + run.message_count + answered.messages_added,
            view.uncovered_tokens + run.turn_tokens + stored.tokens_added,
        ),
    )
    archive = archive_job(policy=prepared.policy, run=last, has_files=bool(answered.artifacts))
    return wanted if archive is None else (*wanted, archive)


def _writeback(
    answered: Answered,
    wanted: Sequence[jobs.NewJob],
    now: datetime,
    *,
    items: Sequence[Mapping[str, Any]] = (),
) -> dict[str, Any]:
    """Return the last step of a run that succeeded: what it leaves behind."""
    data = {
        "messages": answered.messages_added,
        "artifacts": len(answered.artifacts),
        "items": [dict(item) for item in items],
        "jobs": [str(job.kind) for job in wanted],
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
    spent: Spent = _NOTHING,
) -> bool:
    """End the run as failed; nothing is learned from it. False if it had ended already.

    `spent` is booked, as for every other end.
    """
    with scoped_transaction(prepared.scope):
        return runs.end(
            scope=prepared.scope,
            run_id=prepared.run_id,
            status=RunStatus.FAILED,
            now=now,
            steps=steps,
            error_code=code,
            error_detail=detail[:500],
            **spent.columns(),
        )


def reject(
    *,
    prepared: PreparedRun,
    context: Mapping[str, Any],
    detail: str,
    now: datetime,
    steps: Sequence[Mapping[str, Any]] = (),
    spent: Spent = _NOTHING,
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
            error_detail=detail[:500],
            context=dict(context),
            **spent.columns(),
        )


def cancel(
    *,
    prepared: PreparedRun,
    now: datetime,
    steps: Sequence[Mapping[str, Any]] = (),
    spent: Spent = _NOTHING,
) -> bool:
    """End the run as cancelled; nothing is learned from it. False if it had ended already."""
    with scoped_transaction(prepared.scope):
        return runs.end(
            scope=prepared.scope,
            run_id=prepared.run_id,
            status=RunStatus.CANCELLED,
            now=now,
            steps=steps,
            **spent.columns(),
        )


def add_to_ended(*, prepared: PreparedRun, steps: Sequence[Mapping[str, Any]], spent: Spent) -> Run:
    """Give a run that somebody else ended the steps it took and what they cost; return it.

    Its end stands: nothing but trace and usage is added, nothing to a run that succeeded, and
    nothing twice. Cost: the queries of reading it; up to four more where there are steps.

    Raises:
        NotFoundError: The run is gone.
    """
    with scoped_transaction(prepared.scope):
        if steps:
            _add_to_ended(prepared.scope, prepared.run_id, steps, spent)
        return runs.read_run(scope=prepared.scope, run_id=prepared.run_id)


def _add_to_ended(
    scope: Scope, run_id: str, steps: Sequence[Mapping[str, Any]], spent: Spent
) -> None:
    ended = Run.objects.in_scope(scope).filter(pk=run_id, status__in=_UNSUCCESSFUL)
    # Locked, so that a repeat waits for a first try whose acknowledgement was lost.
    if not list(ended.select_for_update().values_list("pk", flat=True)):
        return
    trace = RunTrace.objects.in_scope(scope).filter(run_id=run_id)
    if trace.exclude(steps__contains=list(steps)).exists():
        runs.add_steps(scope=scope, run_id=run_id, steps=steps)
        ended.update(**spent.columns())


def read_ended(*, prepared: PreparedRun) -> Run:
    """Return the stored run, for saying how it ended. Cost: one query."""
    with scoped_transaction(prepared.scope):
        return runs.read_run(scope=prepared.scope, run_id=prepared.run_id)
