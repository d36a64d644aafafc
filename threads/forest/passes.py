"""Storing a node of the forest, if everything stands where it was read; and taking nodes away.

Row, pointers of the messages and parents of the children are one transaction: at no moment, and
after no crash, does a node stand for anything but the messages that point at it.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from dataclasses import dataclass

from django.db.models import Count
from django.utils import timezone

from memory import jobs
from memory.models import JobKind
from memory.rls import scoped_transaction
from memory.scope import Scope
from threads.forest.reading import UNFINISHED, covered_upto, read_forest, roots_to_merge
from threads.forest.sources import NodeDraft, digests_of
from threads.history import SHOWN
from threads.models import Message, Run, SummaryNode, Thread
from threads.node_writer import WrittenNode


@dataclass(frozen=True, slots=True, kw_only=True)
class StoredNode:
    """A node that was stored, and whether roots are due to merge now."""

    node_id: str
    is_merge_due: bool


def node_job(*, kind: JobKind, thread_id: str, end_user_id: str, run_id: str | None) -> jobs.NewJob:
    """Return the job that builds or consolidates a thread's nodes; one unfinished one of each."""
    return jobs.NewJob(
        kind=kind,
        thread_id=thread_id,
        run_id=run_id,
        end_user_id=end_user_id,
        dedupe_key=f"{kind}:{thread_id}",
    )


def store_node(
    *, scope: Scope, claim: jobs.Claim, draft: NodeDraft, written: WrittenNode
) -> StoredNode | None:
    """Store a node with its lineage and ask for the consolidation it makes due; one transaction.

    Returns:
        None if a turn, a message or a node moved since the draft was read: then the text is thrown
        away, since it may say what was erased meanwhile.

    Raises:
        LeaseLostError: The job was claimed again, or its thread is gone.
    """
    with scoped_transaction(scope):
        jobs.hold(scope=scope, claim=claim)
        thread = Thread.objects.in_scope(scope).filter(pk=scope.thread_id).first()
        if thread is None:
            raise jobs.LeaseLostError
        is_as_read = _is_chunk_as_read if draft.level == 0 else _are_children_as_read
        if not is_as_read(scope, draft):
            return None
        node = SummaryNode(
            tenant_id=scope.tenant_id,
            thread=thread,
            end_user_id=thread.end_user_id,
            level=draft.level,
            start_seq=draft.start_seq,
            end_seq=draft.end_seq,
            start_at=draft.start_at,
            end_at=draft.end_at,
            turn_count=draft.turn_count,
            message_count=draft.message_count,
            summary=written.text,
            content=written.content.as_json(),
            token_count=written.token_count,
            source_token_count=draft.source_token_count,
            method=written.method,
            model=written.model,
            created_at=timezone.now(),
        )
        node.save(force_insert=True)
        if draft.level == 0:
            Message.objects.in_scope(scope).filter(pk__in=draft.message_ids).update(
                summary_node=node
            )
        else:
            SummaryNode.objects.in_scope(scope).filter(pk__in=draft.child_ids).update(parent=node)
        is_merge_due = _is_merge_due(scope, draft)
        if is_merge_due and draft.level == 0:
            ask_for(scope=scope, claim=claim, kind=JobKind.CONSOLIDATE_NODES)
    return StoredNode(node_id=node.pk, is_merge_due=is_merge_due)


def _is_chunk_as_read(scope: Scope, draft: NodeDraft) -> bool:
    """Say whether the forest ends where it did and the chunk's runs, texts and messages are those read.

    Holds the rows against an erasure until this is committed. Cost: three queries.
    """
    if covered_upto(scope=scope, thread_id=scope.thread_id or "") != draft.upto_seq:
        return False
    rows = Run.objects.in_scope(scope).select_for_update(no_key=True)
    rows = rows.filter(
        thread_id=scope.thread_id,
        seq__gte=draft.start_seq,
        seq__lte=draft.end_seq,
        status__in=(*UNFINISHED, *SHOWN),
    )
    if digests_of(rows=rows) != draft.digests:
        return False
    run_ids = [run_id for run_id, _ in draft.digests]
    messages = Message.objects.in_scope(scope).select_for_update(no_key=True)
    messages = messages.filter(run_id__in=run_ids)
    found = list(messages.values_list("id", "summary_node_id"))
    is_free = all(node_id is None for _, node_id in found)
    return is_free and frozenset(message_id for message_id, _ in found) == draft.message_ids


def _are_children_as_read(scope: Scope, draft: NodeDraft) -> bool:
    """Say whether the children are still roots, and nothing they stand for was erased.

    Holds their runs against an erasure until this is committed. Cost: three queries.
    """
    roots = SummaryNode.objects.in_scope(scope).select_for_update(no_key=True)
    roots = roots.filter(pk__in=draft.child_ids, parent__isnull=True)
    if frozenset(roots.values_list("id", flat=True)) != draft.child_ids:
        return False
    runs = Run.objects.in_scope(scope).select_for_update(no_key=True)
    runs = runs.filter(
        thread_id=scope.thread_id,
        seq__gte=draft.start_seq,
        seq__lte=draft.end_seq,
        status__in=SHOWN,
    )
    run_ids = list(runs.values_list("id", flat=True))
    messages = Message.objects.in_scope(scope).filter(run_id__in=run_ids)
    return (len(run_ids), messages.count()) == (draft.turn_count, draft.message_count)


def _is_merge_due(scope: Scope, draft: NodeDraft) -> bool:
    view = read_forest(scope=scope, thread_id=scope.thread_id or "")
    return bool(roots_to_merge(view=view, shape=draft.shape))


def ask_for(*, scope: Scope, claim: jobs.Claim, kind: JobKind) -> None:
    """Ask for the other kind of work on the claimed job's thread, in the caller's transaction."""
    job = node_job(
        kind=kind,
        thread_id=scope.thread_id or "",
        end_user_id=scope.user_id or "",
        run_id=claim.run_id,
    )
    jobs.enqueue(scope=scope, job=job, now=timezone.now())


def drop_nodes(*, scope: Scope, thread_id: str, seq: int) -> int:
    """Remove every node that stands for run `seq` or for a later one, if any stands for it.

    For whoever erases a run, a message or a text, in that transaction and after it: what a node
    says of it goes with it. The later turns are uncompressed again and the next build covers what
    is left; nodes wholly before stay. Returns how many went. Cost: a few statements.
    """
    rows = SummaryNode.objects.in_scope(scope).filter(thread_id=thread_id, end_seq__gte=seq)
    if not rows.filter(start_seq__lte=seq).exists():
        return 0
    return rows.delete()[1].get(SummaryNode._meta.label, 0)


def mend(*, scope: Scope, claim: jobs.Claim) -> bool:
    """Take away the nodes of which an original is gone, with all that follow, and ask to build again.

    Returns whether there were any. Cost: three queries if there were none.

    Raises:
        LeaseLostError: The job was claimed again.
    """
    with scoped_transaction(scope):
        jobs.hold(scope=scope, claim=claim)
        torn = _first_torn(scope)
        if torn is None:
            return False
        drop_nodes(scope=scope, thread_id=scope.thread_id or "", seq=torn)
        ask_for(scope=scope, claim=claim, kind=JobKind.BUILD_NODES)
    return True


def _first_torn(scope: Scope) -> int | None:
    """Return where the oldest level-0 node starts that lacks a run or a message."""
    runs = Run.objects.in_scope(scope).filter(thread_id=scope.thread_id, status__in=SHOWN)
    seqs = list(runs.order_by("seq").values_list("seq", flat=True))
    nodes = SummaryNode.objects.in_scope(scope).filter(thread_id=scope.thread_id, level=0)
    counted = nodes.annotate(found=Count("messages")).order_by("start_seq")
    columns = ("start_seq", "end_seq", "turn_count", "message_count", "found")
    for start, end, turns, messages, found in counted.values_list(*columns):
        if (bisect_right(seqs, end) - bisect_left(seqs, start), found) != (turns, messages):
            return int(start)
    return None
