"""A thread's whole forest, covered nodes too, as the API and the admin show it."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass
from datetime import datetime

from memory.scope import Scope
from threads.models import Message, SummaryNode, ThreadSummary


@dataclass(frozen=True, slots=True, kw_only=True)
class ListedNode:
    """A node with its lineage: `children` of a higher level, `message_ids` of level 0, in order.

    `message_ids` is None above level 0; `source_token_count` is what the turns it stands for cost.
    """

    id: str
    level: int
    summary: str
    start_seq: int
    end_seq: int
    start_at: datetime
    end_at: datetime
    turn_count: int
    token_count: int
    source_token_count: int
    children: tuple[str, ...]
    message_ids: tuple[str, ...] | None


def list_nodes(*, scope: Scope, thread_id: str) -> tuple[ListedNode, ...]:
    """Return every node of a thread by place, one that covers others before them.

    Inside the caller's transaction. Cost: two queries.

    Args:
        scope: Names the thread's session; nodes are private to it.
        thread_id: The thread.
    """
    rows = SummaryNode.objects.in_scope(scope).filter(thread_id=thread_id).defer("content")
    nodes = list(rows.order_by("start_seq", "-level"))
    if not nodes:
        return ()
    children: dict[str, list[str]] = defaultdict(list)
    for node in nodes:
        if node.parent_id:
            children[node.parent_id].append(node.pk)
    messages = _messages_by_node(scope, thread_id)
    return tuple(
        ListedNode(
            id=node.pk,
            level=node.level,
            summary=node.summary,
            start_seq=node.start_seq,
            end_seq=node.end_seq,
            start_at=node.start_at,
            end_at=node.end_at,
            turn_count=node.turn_count,
            token_count=node.token_count,
            source_token_count=node.source_token_count,
            children=tuple(children[node.pk]),
            message_ids=tuple(messages[node.pk]) if node.level == 0 else None,
        )
        for node in nodes
    )


def _messages_by_node(scope: Scope, thread_id: str) -> dict[str, list[str]]:
    found: dict[str, list[str]] = defaultdict(list)
    rows = Message.objects.in_scope(scope).filter(
        thread_id=thread_id, summary_node_id__isnull=False
    )
    ordered = rows.order_by("run__seq", "position")
    for message_id, node_id in ordered.values_list("id", "summary_node_id"):
        if node_id:
            found[node_id].append(message_id)
    return found


@dataclass(frozen=True, slots=True, kw_only=True)
class ShownSummary:
    """What stands for the older part of a thread, by its agent's strategy.

    `nodes` are all there are, also those left from a time under the other strategy.
    """

    rolling_summary: str
    summary_upto_seq: int
    summary_upto_at: datetime | None
    covered_turns: int
    nodes: tuple[ListedNode, ...]


def shown_summary(*, scope: Scope, thread_id: str, is_lossless: bool) -> ShownSummary:
    """Return a thread's summary and nodes, inside the caller's transaction. Cost: three queries.

    Args:
        scope: Names the thread's session.
        thread_id: The thread.
        is_lossless: Whether its agent's prompts are built from the nodes; else from the summary.
    """
    nodes = list_nodes(scope=scope, thread_id=thread_id)
    if is_lossless:
        leaves = [node for node in nodes if node.level == 0]
        last = max(leaves, key=lambda node: node.end_seq, default=None)
        return ShownSummary(
            rolling_summary="",
            summary_upto_seq=last.end_seq if last else 0,
            summary_upto_at=last.end_at if last else None,
            covered_turns=sum(node.turn_count for node in leaves),
            nodes=nodes,
        )
    row = ThreadSummary.objects.in_scope(scope).filter(thread_id=thread_id).first()
    return ShownSummary(
        rolling_summary=row.rolling_summary if row else "",
        summary_upto_seq=row.summary_upto_seq if row else 0,
        summary_upto_at=row.summary_upto_at if row else None,
        covered_turns=row.covered_turns if row else 0,
        nodes=nodes,
    )
