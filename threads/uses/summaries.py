"""The summary and the nodes that stand on some turns of one thread: only that thread may read them.

Inside the caller's transaction, which is narrowed to the thread for the time of reading.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Final

from django.db.models import Q

from memory.rls import scoped_transaction
from memory.scope import Scope
from threads.models import Message, SummaryNode, Thread, ThreadSummary
from threads.uses.records import Linked

MOST_NODES: Final = 500


@contextmanager
def _inside(scope: Scope, thread: Thread) -> Iterator[Scope]:
    inside = scope.narrowed(user_id=thread.end_user_id, thread_id=thread.pk)
    with scoped_transaction(inside):
        yield inside


def standing_on(*, scope: Scope, thread: Thread, seqs: Sequence[int] | None) -> list[Linked]:
    """Return the summary and the nodes that cover any of some turns; None stands for all of them.

    Cost: two queries.
    """
    with _inside(scope, thread) as inside:
        summaries = ThreadSummary.objects.in_scope(inside).filter(
            thread_id=thread.pk, summary_upto_seq__gte=min(seqs) if seqs else 1
        )
        nodes = SummaryNode.objects.in_scope(inside).filter(thread_id=thread.pk)
        if seqs is not None:
            covers = Q(pk__in=[])
            for seq in seqs:
                covers |= Q(start_seq__lte=seq, end_seq__gte=seq)
            nodes = nodes.filter(covers)
        rows = nodes.order_by("level", "start_seq").values_list("pk", "created_at")[:MOST_NODES]
        found = [
            Linked(kind="summary", id=thread.pk, at=at)
            for at in summaries.values_list("updated_at", flat=True)
        ]
        return found + [Linked(kind="node", id=pk, at=at) for pk, at in rows]


def around_node(
    *, scope: Scope, thread: Thread, node_id: str
) -> tuple[SummaryNode, list[Linked], list[Linked]] | None:
    """Return a node, what it was made of and the nodes above it; None if it is gone.

    Cost: two queries, and one for each level above.
    """
    with _inside(scope, thread) as inside:
        rows = SummaryNode.objects.in_scope(inside).filter(thread_id=thread.pk)
        rows = rows.defer("summary", "content")
        node = rows.filter(pk=node_id).first()
        if node is None:
            return None
        children = rows.filter(parent_id=node.pk).order_by("start_seq")[:MOST_NODES]
        below = [Linked(kind="node", id=one.pk, at=one.created_at) for one in children]
        messages = Message.objects.in_scope(inside).filter(summary_node_id=node.pk)
        said = messages.order_by("created_at", "id").values_list("pk", "created_at")
        below += [Linked(kind="message", id=pk, at=at) for pk, at in said[:MOST_NODES]]
        above: list[Linked] = []
        at: SummaryNode | None = node
        while at is not None and at.parent_id is not None:
            at = rows.filter(pk=at.parent_id).first()
            if at is not None:
                above.append(Linked(kind="node", id=at.pk, at=at.created_at))
        return node, below, above
