"""Whether a thread's forest is whole: every original under exactly one chain of nodes, no gap."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise

from django.db.models import Q

from memory.scope import Scope
from threads.history import SHOWN
from threads.models import Message, Run, SummaryNode


@dataclass(frozen=True, slots=True)
class _Lineage:
    """What a check looks at: nodes, the numbers of finished runs, and where each message points."""

    nodes: Sequence[SummaryNode]
    seqs: Mapping[str, int]
    pointers: Sequence[tuple[str, str, str | None]]

    def seqs_within(self, start: int, end: int) -> list[int]:
        """Return the numbers of the finished runs from `start` to `end`."""
        return [seq for seq in self.seqs.values() if start <= seq <= end]


def check_forest(*, scope: Scope, thread_id: str) -> tuple[str, ...]:
    """Return what is wrong with a thread's forest, in words and ids; empty if it is whole.

    Whole means: for every node the messages below it are those of the finished runs in its range;
    ranges neither overlap nor leave a run out, on any level; counts add up. Inside the caller's
    transaction, in one snapshot only if that has one. Cost: three queries of ids and numbers.
    """
    nodes = SummaryNode.objects.in_scope(scope).filter(thread_id=thread_id)
    runs = Run.objects.in_scope(scope).filter(thread_id=thread_id, status__in=SHOWN)
    messages = Message.objects.in_scope(scope).filter(
        Q(thread_id=thread_id) | Q(summary_node__thread_id=thread_id)
    )
    lineage = _Lineage(
        nodes=list(nodes.defer("summary", "content").order_by("start_seq", "-level")),
        seqs=dict(runs.order_by("seq").values_list("id", "seq")),
        pointers=list(messages.values_list("id", "run_id", "summary_node_id")),
    )
    return (
        *_roots_wrong(lineage),
        *_parents_wrong(lineage),
        *_messages_wrong(lineage),
        *_counts_wrong(lineage),
    )


def _roots_wrong(lineage: _Lineage) -> Iterator[str]:
    roots = [node for node in lineage.nodes if node.parent_id is None]
    yield from _row_wrong(lineage, roots)
    for one, other in pairwise(roots):
        if other.level > one.level:
            yield f"root {other.pk} is of a higher level than {one.pk} before it"


def _row_wrong(lineage: _Lineage, row: Sequence[SummaryNode]) -> Iterator[str]:
    """Say where neighbours overlap or leave finished runs out between them."""
    for one, other in pairwise(row):
        if other.start_seq <= one.end_seq:
            yield f"nodes {one.pk} and {other.pk} overlap"
        elif missing := lineage.seqs_within(one.end_seq + 1, other.start_seq - 1):
            yield f"runs {missing} between nodes {one.pk} and {other.pk} are in neither"


def _parents_wrong(lineage: _Lineage) -> Iterator[str]:
    by_id = {node.pk: node for node in lineage.nodes}
    children: dict[str, list[SummaryNode]] = defaultdict(list)
    for node in lineage.nodes:
        if node.parent_id and node.parent_id not in by_id:
            yield f"node {node.pk} has a parent in another thread"
        elif node.parent_id:
            children[node.parent_id].append(node)
    for node in lineage.nodes:
        yield from _parent_wrong(lineage, node, children[node.pk])


def _parent_wrong(
    lineage: _Lineage, node: SummaryNode, below: Sequence[SummaryNode]
) -> Iterator[str]:
    yield from _row_wrong(lineage, below)
    if node.level == 0:
        if below:
            yield f"node {node.pk} of level 0 has children"
    elif not below:
        yield f"node {node.pk} of level {node.level} has no children"
    elif not _is_sum(node, below):
        yield f"node {node.pk} is not the sum of its children"


def _is_sum(node: SummaryNode, below: Sequence[SummaryNode]) -> bool:
    return (
        {child.level for child in below} == {node.level - 1}
        and (node.start_seq, node.end_seq) == (below[0].start_seq, below[-1].end_seq)
        and all(
            getattr(node, name) == sum(getattr(child, name) for child in below)
            for name in ("turn_count", "message_count", "source_token_count")
        )
    )


def _messages_wrong(lineage: _Lineage) -> Iterator[str]:
    """Say which messages point elsewhere than at the level-0 node that covers their run."""
    covering = {
        seq: node.pk
        for node in lineage.nodes
        if node.level == 0
        for seq in lineage.seqs_within(node.start_seq, node.end_seq)
    }
    for message_id, run_id, node_id in lineage.pointers:
        seq = lineage.seqs.get(run_id)
        right = covering.get(seq) if seq is not None else None
        if node_id != right:
            yield f"message {message_id} points at node {node_id}, not {right}"


def _counts_wrong(lineage: _Lineage) -> Iterator[str]:
    found: dict[str | None, int] = defaultdict(int)
    for _, _, node_id in lineage.pointers:
        found[node_id] += 1
    for node in lineage.nodes:
        turns = len(lineage.seqs_within(node.start_seq, node.end_seq))
        if turns != node.turn_count:
            yield f"node {node.pk} counts {node.turn_count} turns and holds {turns}"
        if node.level == 0 and found[node.pk] != node.message_count:
            yield f"node {node.pk} counts {node.message_count} messages and holds {found[node.pk]}"
