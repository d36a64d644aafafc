"""What was made of words that changed: it goes, and is asked for anew.

Inside the caller's transaction, in the person's scope.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection
from datetime import datetime

from django.db.models import F

from memory import jobs
from memory.models import Job, RecallEntry
from memory.models.job import JobStatus
from memory.rls import scoped_transaction
from memory.scope import Scope
from memory.store import Owner, removal
from threads.forest.jobs import find_nodes
from threads.models import Message, SummaryNode, ThreadSummary
from threads.recall.indexing import find_index
from threads.summaries import find_roll


def take_jobs_back(*, scope: Scope) -> None:
    """Let every unfinished job of the person start over: it may have read what is no longer said.

    Whoever works on one finds it lost and writes nothing. Cost: one statement.
    """
    rows = Job.objects.in_scope(scope).filter(end_user_id=scope.user_id, status=JobStatus.RUNNING)
    rows.update(epoch=F("epoch") + 1, status=JobStatus.READY, lease_until=None)


def drop_summaries(
    *, scope: Scope, thread_id: str, is_stale: Callable[[str, object], bool]
) -> Counter[str]:
    """Drop a thread's summary and its nodes if any of them is stale; return how many went.

    A node stands on others, so that all go with one. Cost: two queries, four statements more if
    something goes.

    Args:
        scope: The person's.
        thread_id: The thread.
        is_stale: Says of one text and its structured part whether it may not stay.
    """
    with scoped_transaction(scope.narrowed(thread_id=thread_id)):
        inside = scope.narrowed(thread_id=thread_id)
        summaries = ThreadSummary.objects.in_scope(inside).filter(thread_id=thread_id)
        nodes = SummaryNode.objects.in_scope(inside).filter(thread_id=thread_id)
        texts: list[tuple[str, object]] = [(one.rolling_summary, {}) for one in summaries]
        texts += [(one.summary, one.content) for one in nodes]
        if not any(is_stale(text, content) for text, content in texts):
            return Counter()
        messages = Message.objects.in_scope(inside).filter(thread_id=thread_id)
        messages.filter(summary_node__isnull=False).update(summary_node=None)
        nodes.update(parent=None)
        return Counter(nodes=nodes.delete()[0], summaries=summaries.delete()[0])


def forget_recall(*, scope: Scope, recall_ids: Collection[str]) -> int:
    """Take recall entries out with all that leads to them; return how many. Cost: four statements."""
    if not recall_ids:
        return 0
    owner = Owner(end_user_id=scope.user_id)
    return removal.remove_recall(scope=scope, owner=owner, recall_ids=sorted(recall_ids))


def recall_of_runs(*, scope: Scope, run_ids: Collection[str]) -> set[str]:
    """Return the recall entries of some runs. Cost: one query."""
    rows = RecallEntry.objects.in_scope(scope).filter(run_id__in=list(run_ids))
    return set(rows.values_list("pk", flat=True))


def ask_anew(*, scope: Scope, thread_id: str, now: datetime) -> None:
    """Ask for the jobs that a thread lacks now: recall, summary, nodes. Cost: about a dozen queries."""
    inside = scope.narrowed(thread_id=thread_id)
    with scoped_transaction(inside):
        for find in (find_index, find_roll, find_nodes):
            job = find(scope=inside, thread_id=thread_id)
            if job is not None:
                jobs.enqueue(scope=inside, job=job, now=now)
