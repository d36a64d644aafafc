"""Forests for tests: growing one as the worker does, and looking at all of it."""

from __future__ import annotations

import json
from collections.abc import Sequence
from datetime import timedelta
from typing import Any

from django.utils import timezone

from memory import jobs
from memory.models import Job, JobKind
from memory.rls import scoped_transaction
from tests.fakes.openai_replies import Json, Reply, text
from tests.talking import session_of, tell
from threads.forest.check import check_forest
from threads.forest.jobs import build_nodes, consolidate_nodes
from threads.forest.passes import node_job
from threads.models import Message, Run, SummaryNode, Thread

KINDS = (JobKind.BUILD_NODES, JobKind.CONSOLIDATE_NODES)
HANDLERS = {JobKind.BUILD_NODES: build_nodes, JobKind.CONSOLIDATE_NODES: consolidate_nodes}
UNFINISHED = ("ready", "running")


def node_reply(body: Json) -> Reply:
    """A node as a good model writes one, in the language it was asked in."""
    said = json.dumps(body["messages"], ensure_ascii=False)
    if "摘要节点" in said:
        entry, item = "讨论试卷并修改题目", "补上答案"
    else:
        entry, item = "Went over the paper and changed questions", "add the answers"
    node = {
        "open_items": [],
        "decisions": [item],
        "pitfalls": [],
        "files": [],
        "timeline": [{"date": "2026-06-12", "text": entry}],
    }
    return text(json.dumps(node, ensure_ascii=False))


def ask_nodes(thread: Thread, kind: JobKind = JobKind.BUILD_NODES) -> None:
    """Ask for work on a thread's nodes, as a finished turn does."""
    scope = session_of(thread)
    job = node_job(kind=kind, thread_id=thread.pk, end_user_id=thread.end_user_id, run_id=None)
    with scoped_transaction(scope):
        jobs.enqueue(scope=scope, job=job, now=timezone.now())


def claim_nodes(thread: Thread, kind: JobKind = JobKind.BUILD_NODES) -> jobs.Claim:
    """Ask for work on a thread's nodes and claim it."""
    ask_nodes(thread, kind)
    scope = session_of(thread)
    with scoped_transaction(scope):
        rows = Job.objects.in_scope(scope).filter(thread_id=thread.pk, kind=kind, status="ready")
        job_id = rows.get().pk
    claim = jobs.claim(job_id=job_id, tenant_id=thread.tenant_id)
    assert claim is not None
    return claim


def waiting(thread: Thread) -> list[str]:
    """The kinds of a thread's unfinished jobs, oldest first."""
    scope = session_of(thread)
    with scoped_transaction(scope):
        rows = Job.objects.in_scope(scope).filter(thread_id=thread.pk, status__in=UNFINISHED)
        return list(rows.order_by("id").values_list("kind", flat=True))


def work_off(thread: Thread, *, most: int = 2000) -> int:
    """Work on a thread's jobs on nodes as a lane does until none is left; how many there were."""
    scope = session_of(thread)
    for done in range(most):
        with scoped_transaction(scope):
            rows = Job.objects.in_scope(scope).filter(thread_id=thread.pk, kind__in=KINDS)
            first = rows.filter(status="ready").order_by("id").first()
        if first is None:
            return done
        claim = jobs.claim(job_id=first.pk, tenant_id=thread.tenant_id)
        assert claim is not None
        HANDLERS[JobKind(claim.kind)](scope=scope, claim=claim)
        with scoped_transaction(scope):
            jobs.complete(scope=scope, claim=claim, now=timezone.now())
    raise AssertionError(f"a thread's jobs go on after {most}")


def grow(thread: Thread) -> int:
    """Grow a thread's forest as far as it is due; returns how many jobs it took."""
    ask_nodes(thread)
    return work_off(thread)


def nodes_of(thread: Thread) -> list[SummaryNode]:
    """All nodes of a thread, by place and the highest level first."""
    scope = session_of(thread)
    with scoped_transaction(scope):
        rows = SummaryNode.objects.in_scope(scope).filter(thread_id=thread.pk)
        return list(rows.order_by("start_seq", "-level"))


def roots_of(thread: Thread) -> list[tuple[int, int, int]]:
    """(level, first run, last run) of the nodes that no other covers, oldest first."""
    return [
        (node.level, node.start_seq, node.end_seq)
        for node in nodes_of(thread)
        if node.parent_id is None
    ]


def wrong_with(thread: Thread) -> tuple[str, ...]:
    """What is wrong with a thread's forest."""
    scope = session_of(thread)
    with scoped_transaction(scope):
        return check_forest(scope=scope, thread_id=thread.pk)


def originals(thread: Thread) -> dict[int, list[tuple[Any, ...]]]:
    """Every stored message by its run's number: id, place, role, content, and its node."""
    scope = session_of(thread)
    found: dict[int, list[tuple[Any, ...]]] = {}
    with scoped_transaction(scope):
        rows = Message.objects.in_scope(scope).filter(thread_id=thread.pk)
        columns = ("run__seq", "id", "position", "role", "content", "summary_node_id")
        for seq, *message in rows.order_by("run__seq", "position").values_list(*columns):
            found.setdefault(seq, []).append(tuple(message))
    return found


def leaves_below(nodes: Sequence[SummaryNode], node: SummaryNode) -> list[str]:
    """The ids of the level-0 nodes below a node, found by walking from children to parents."""
    if node.level == 0:
        return [node.pk]
    children = sorted(
        (one for one in nodes if one.parent_id == node.pk), key=lambda one: one.start_seq
    )
    return [leaf for child in children for leaf in leaves_below(nodes, child)]


def set_strategy(thread: Thread, strategy: str) -> None:
    """Switch the thread's agent to another strategy."""
    scope = session_of(thread)
    with scoped_transaction(scope):
        agent = Thread.objects.in_scope(scope).select_related("agent").get(pk=thread.pk).agent
        agent.thread_strategy = strategy
        agent.save(update_fields=["thread_strategy"])


def erase_run(thread: Thread, seq: int) -> None:
    """Delete a run with its messages."""
    scope = session_of(thread)
    with scoped_transaction(scope):
        Run.objects.in_scope(scope).filter(thread_id=thread.pk, seq=seq).delete()


def pairs(count: int, start: int = 1) -> list[tuple[str, str]]:
    """Turns in Chinese of some hundred tokens, each with its number."""
    return [
        (f"CNRY-{number} 第{number}个问题，" + "请修改。" * 12, f"第{number}个回答。" * 12)
        for number in range(start, start + count)
    ]


def due(thread: Thread, kind: JobKind) -> None:
    """Bring a thread to where a job of this kind has something to do: one call to build."""
    if kind == JobKind.BUILD_NODES:
        tell(thread, pairs(8))
        return
    tell(thread, pairs(20))
    for _ in range(9):
        if waiting(thread) == [JobKind.CONSOLIDATE_NODES]:
            return
        work_one(thread)
    raise AssertionError("no consolidation became due")


def work_one(thread: Thread) -> None:
    """Work on the thread's oldest job."""
    scope = session_of(thread)
    with scoped_transaction(scope):
        rows = Job.objects.in_scope(scope).filter(thread_id=thread.pk, status="ready")
        first = rows.order_by("id").first()
    assert first is not None
    claim = jobs.claim(job_id=first.pk, tenant_id=thread.tenant_id)
    assert claim is not None
    HANDLERS[JobKind(claim.kind)](scope=scope, claim=claim)
    with scoped_transaction(scope):
        jobs.complete(scope=scope, claim=claim, now=timezone.now())


def expire(claim: jobs.Claim, thread: Thread) -> jobs.Claim | None:
    """Let a claim's lease run out and claim its job again, as a second worker does."""
    scope = session_of(thread)
    with scoped_transaction(scope):
        rows = Job.objects.in_scope(scope).filter(pk=claim.job_id)
        rows.update(lease_until=timezone.now() - timedelta(minutes=9), attempts=1)
    return jobs.claim(job_id=claim.job_id, tenant_id=claim.tenant_id)
