"""Growing a thread's forest: a level-0 node for each chunk of turns, higher ones for what piles up.

As with the rolling summary: read in one transaction, call the model outside any, store if nothing
moved. Building gives way as soon as nodes are due to merge, and consolidation hands back to it, so
the skeleton stays within its room however long the backlog is.
"""

from __future__ import annotations

from time import monotonic
from typing import Final

from django.utils import timezone

from memory import jobs
from memory.models import JobKind
from memory.rls import scoped_transaction
from memory.scope import Scope
from threads.chat import memory_providers, provider_config
from threads.forest.passes import StoredNode, ask_for, mend, node_job, store_node
from threads.forest.reading import next_chunk, read_forest, roots_to_merge
from threads.forest.sources import Keeper, NodeDraft, read_chunk, read_keeper, read_merge
from threads.memory_calls import book_calls
from threads.models import Run
from threads.node_writer import NodeTask, write_node

# A job may work for two minutes: a pass starts in the first, and its calls end before the second.
_WORK_SECONDS: Final = 60.0
_ALL_SECONDS: Final = 100.0
_MOST_THROWN_AWAY: Final = 2


def build_nodes(*, scope: Scope, claim: jobs.Claim) -> None:
    """Handle a `build_nodes` job: cover the middle with level-0 nodes until nodes are due to merge.

    Each node is committed by itself; what is left after a minute is asked for again. Cost: one
    model call a node; every text is read once.

    Raises:
        LeaseLostError: The job was claimed again; that claim goes on instead.
    """
    started, thrown_away = monotonic(), 0
    while thrown_away < _MOST_THROWN_AWAY and monotonic() - started < _WORK_SECONDS:
        draft = read_chunk(scope=scope)
        if draft is None:
            return
        stored = _write_and_store(scope, claim, draft, started)
        thrown_away += stored is None
        if stored is not None and stored.is_merge_due:
            return
    jobs.ask_again(scope=scope, claim=claim, now=timezone.now())


def consolidate_nodes(*, scope: Scope, claim: jobs.Claim) -> None:
    """Handle a `consolidate_nodes` job: merge the oldest nodes while any level holds too many.

    Reads nodes only. Then asks for building to go on, if it is due. Cost: one model call a node.

    Raises:
        LeaseLostError: The job was claimed again; that claim goes on instead.
    """
    started, thrown_away = monotonic(), 0
    while thrown_away < _MOST_THROWN_AWAY and monotonic() - started < _WORK_SECONDS:
        draft = read_merge(scope=scope)
        if draft is None:
            _build_on(scope, claim)
            return
        if _write_and_store(scope, claim, draft, started) is None:
            if mend(scope=scope, claim=claim):
                return
            thrown_away += 1
    jobs.ask_again(scope=scope, claim=claim, now=timezone.now())


def find_nodes(*, scope: Scope, thread_id: str) -> jobs.NewJob | None:
    """Return the job that a lossless thread lacks, if nodes are due; for the sweep.

    Inside the caller's transaction. Cost: up to six queries, none of texts.

    Args:
        scope: Names the thread's person and session.
        thread_id: The thread.
    """
    keeper = read_keeper(scope=scope)
    if keeper is None or not keeper.policy.is_on("writeback"):
        return None
    kind = _due_kind(scope, keeper, thread_id)
    if kind is None:
        return None
    return node_job(kind=kind, thread_id=thread_id, end_user_id=scope.user_id or "", run_id=None)


def build_job(run: Run) -> jobs.NewJob:
    """Return the job that builds the nodes of a run's thread; one unfinished one a thread."""
    return node_job(
        kind=JobKind.BUILD_NODES,
        thread_id=run.thread_id,
        end_user_id=run.end_user_id,
        run_id=run.pk,
    )


def _write_and_store(
    scope: Scope, claim: jobs.Claim, draft: NodeDraft, started: float
) -> StoredNode | None:
    """Have a node written, book the calls, store it; None if it was thrown away."""
    agent = draft.agent
    task = NodeTask(
        source=draft.source, language=draft.language, max_tokens=draft.shape.node_tokens
    )
    written = write_node(
        task=task,
        configs=[provider_config(provider) for provider in memory_providers(agent)],
        model=agent.model,
        within_seconds=_ALL_SECONDS - (monotonic() - started),
    )
    book_calls(scope=scope, kind=claim.kind, job_id=claim.job_id, agent=agent, calls=written.calls)
    return store_node(scope=scope, claim=claim, draft=draft, written=written)


def _build_on(scope: Scope, claim: jobs.Claim) -> None:
    """Ask for building to go on, if a node is due."""
    with scoped_transaction(scope):
        jobs.hold(scope=scope, claim=claim)
        keeper = read_keeper(scope=scope)
        if keeper and _due_kind(scope, keeper, scope.thread_id or "") == JobKind.BUILD_NODES:
            ask_for(scope=scope, claim=claim, kind=JobKind.BUILD_NODES)


def _due_kind(scope: Scope, keeper: Keeper, thread_id: str) -> JobKind | None:
    if next_chunk(scope=scope, thread_id=thread_id, shape=keeper.shape):
        return JobKind.BUILD_NODES
    view = read_forest(scope=scope, thread_id=thread_id)
    return JobKind.CONSOLIDATE_NODES if roots_to_merge(view=view, shape=keeper.shape) else None
