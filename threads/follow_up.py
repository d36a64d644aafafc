"""Which jobs follow a finished turn: to index it, to learn from it, to shorten its thread's past."""

from __future__ import annotations

from collections.abc import Callable

from governance.policy_rules import Policy
from memory import jobs
from memory.models import JobKind
from memory.scope import Scope
from threads.forest.jobs import build_job
from threads.forest.reading import next_chunk, shape_of
from threads.history import needs_roll
from threads.learning.extraction import extract_job
from threads.models import Agent, Run, ThreadStrategy
from threads.recall.indexing import index_job


def follow_up_jobs(
    *,
    scope: Scope,
    agent: Agent,
    policy: Policy,
    last: Run,
    uncovered: Callable[[], tuple[int, int]],
) -> tuple[jobs.NewJob, ...]:
    """Return the jobs that a thread needs after its newest turn: to index it, to learn from it, what is due.

    Inside the transaction that wrote the turn. Cost: what `uncovered` costs, or for a lossless
    agent two queries of numbers.

    Args:
        scope: Names the thread's person and session.
        agent: The thread's agent.
        policy: Its policy; without write-back nothing follows.
        last: The newest turn.
        uncovered: Gives messages and tokens that the rolling summary does not cover.
    """
    if not policy.is_on("writeback"):
        return ()
    index = index_job(thread_id=last.thread_id, end_user_id=last.end_user_id, run_id=last.pk)
    past = _past_job(scope=scope, agent=agent, policy=policy, last=last, uncovered=uncovered)
    learn = extract_job(policy=policy, last=last)
    return tuple(job for job in (index, past, learn) if job is not None)


def _past_job(
    *,
    scope: Scope,
    agent: Agent,
    policy: Policy,
    last: Run,
    uncovered: Callable[[], tuple[int, int]],
) -> jobs.NewJob | None:
    """Return the job that shortens a thread's past, None if none is due."""
    if agent.thread_strategy == ThreadStrategy.LOSSLESS:
        shape = shape_of(agent=agent, policy=policy)
        is_due = next_chunk(scope=scope, thread_id=last.thread_id, shape=shape) is not None
        return build_job(last) if is_due else None
    messages, tokens = uncovered()
    if needs_roll(policy=policy, uncovered_messages=messages, uncovered_tokens=tokens):
        return roll_job(last)
    return None


def roll_job(run: Run) -> jobs.NewJob:
    """Return the job that rolls the summary of a run's thread; one unfinished one a thread."""
    return jobs.NewJob(
        kind=JobKind.ROLL_SUMMARY,
        thread_id=run.thread_id,
        run_id=run.pk,
        end_user_id=run.end_user_id,
        dedupe_key=f"roll_summary:{run.thread_id}",
        cursor_to=run.seq,
    )
