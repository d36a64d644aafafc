"""What a prompt and the worker see of a thread's forest: its roots, and the turns between it and now."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from typing import Final

from governance.policy_rules import Policy
from memory.scope import Scope
from threads.forest.planning import (
    MOST_CHUNK_TURNS,
    ForestShape,
    RootSize,
    chunk_length,
    forest_shape,
    next_merge,
)
from threads.history import SHOWN
from threads.models import Agent, Run, RunStatus, SummaryNode

UNFINISHED: Final = (RunStatus.QUEUED, RunStatus.RUNNING)

_COLUMNS: Final = (
    "id",
    "level",
    "start_seq",
    "end_seq",
    "start_at",
    "end_at",
    "turn_count",
    "summary",
    "content__open_items",
    "token_count",
)

# What two messages of a turn cost in a prompt beside their texts: the lines around each.
_FRAME_TOKENS: Final = 50


@dataclass(frozen=True, slots=True, kw_only=True)
class RootNode:
    """A node that no other covers; it stands for the finished runs from start_seq to end_seq.

    Attributes:
        level: 0 for one made from turns, one more than its children's for any other.
        turn_count: How many turns it stands for.
        summary: Its text as rendered when it was written.
        open_items: What it says is still to be done.
        token_count: The estimate of `summary`.
    """

    id: str
    level: int
    start_seq: int
    end_seq: int
    start_at: datetime
    end_at: datetime
    turn_count: int
    summary: str
    open_items: tuple[str, ...]
    token_count: int


@dataclass(frozen=True, slots=True, kw_only=True)
class ForestView:
    """The skeleton of a thread: `roots` oldest first, without gap, their levels never rising.

    The turns before `first_seq` are the protected head, whatever policy says today: how many turns
    the head keeps is settled when the first node is written. The turns after `upto_seq` are the
    uncompressed middle and the tail.

    Attributes:
        first_seq: Where the oldest node starts; None if there is none.
        upto_seq: The highest run number a node covers; 0 if there is none.
    """

    roots: tuple[RootNode, ...] = ()

    @property
    def first_seq(self) -> int | None:
        """Return where the oldest node starts, None if there is none."""
        return self.roots[0].start_seq if self.roots else None

    @property
    def upto_seq(self) -> int:
        """Return the highest run number covered, 0 if there is none."""
        return self.roots[-1].end_seq if self.roots else 0

    @property
    def token_count(self) -> int:
        """Return what the texts of all roots cost."""
        return sum(root.token_count for root in self.roots)


def read_forest(*, scope: Scope, thread_id: str) -> ForestView:
    """Return a thread's parentless nodes, inside the caller's transaction. Cost: one query.

    Args:
        scope: Names the thread's session; nodes are private to it.
        thread_id: The thread.
    """
    rows = SummaryNode.objects.in_scope(scope).filter(thread_id=thread_id, parent__isnull=True)
    return ForestView(
        roots=tuple(
            RootNode(
                id=node_id,
                level=level,
                start_seq=start_seq,
                end_seq=end_seq,
                start_at=start_at,
                end_at=end_at,
                turn_count=turn_count,
                summary=summary,
                open_items=tuple(str(item) for item in open_items or ()),
                token_count=token_count,
            )
            for (
                node_id,
                level,
                start_seq,
                end_seq,
                start_at,
                end_at,
                turn_count,
                summary,
                open_items,
                token_count,
            ) in rows.order_by("start_seq").values_list(*_COLUMNS)
        )
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class MiddleTurn:
    """A finished turn that no node covers, without its texts; tokens as history shows it."""

    run_id: str
    seq: int
    tokens: int
    created_at: datetime


@dataclass(frozen=True, slots=True, kw_only=True)
class Middle:
    """Turns that may become nodes, oldest first: outside head and tail, before any unfinished run.

    Attributes:
        upto_seq: Where the forest ends; the oldest turn is the first finished one after it (and
            after the head, where there is no forest yet).
    """

    upto_seq: int
    turns: tuple[MiddleTurn, ...]


def read_middle(*, scope: Scope, thread_id: str, shape: ForestShape) -> Middle:
    """Return the turns that may become nodes; of a long backlog the oldest.

    At least as many as one node can stand for. Inside the caller's transaction. Cost: two queries
    of numbers, none of texts.
    """
    upto = covered_upto(scope=scope, thread_id=thread_id)
    most = shape.head_turns + MOST_CHUNK_TURNS + shape.tail_turns + 1
    rows = (
        Run.objects.in_scope(scope)
        .filter(thread_id=thread_id, seq__gt=upto, status__in=(*SHOWN, *UNFINISHED))
        .order_by("seq")
        .values_list("id", "seq", "turn_tokens", "created_at", "status")[:most]
    )
    listed = list(rows)
    unfinished = [seq for _, seq, _, _, status in listed if status in UNFINISHED]
    shown = [
        MiddleTurn(run_id=run_id, seq=seq, tokens=tokens, created_at=created_at)
        for run_id, seq, tokens, created_at, status in listed
        if status in SHOWN
    ]
    head = 0 if upto else shape.head_turns
    middle = shown[head : max(len(shown) - shape.tail_turns, head)]
    return Middle(
        upto_seq=upto,
        turns=tuple(turn for turn in middle if not unfinished or turn.seq < unfinished[0]),
    )


def covered_upto(*, scope: Scope, thread_id: str) -> int:
    """Return the highest run number that a node covers, 0 if there is none. Cost: one query."""
    rows = SummaryNode.objects.in_scope(scope).filter(thread_id=thread_id, parent__isnull=True)
    return rows.order_by("-start_seq").values_list("end_seq", flat=True).first() or 0


def next_chunk(*, scope: Scope, thread_id: str, shape: ForestShape) -> Middle | None:
    """Return the turns that the next level-0 node stands for, None if it is not due yet.

    Cost: as `read_middle`.
    """
    middle = read_middle(scope=scope, thread_id=thread_id, shape=shape)
    costs = [turn.tokens + _FRAME_TOKENS for turn in middle.turns]
    length = chunk_length(turn_tokens=costs, shape=shape)
    return Middle(upto_seq=middle.upto_seq, turns=middle.turns[:length]) if length else None


def roots_to_merge(*, view: ForestView, shape: ForestShape) -> tuple[RootNode, ...]:
    """Return the roots that are due to become one node, none if none are; pure."""
    sizes = [RootSize(level=root.level, token_count=root.token_count) for root in view.roots]
    place = next_merge(roots=sizes, shape=shape)
    return view.roots[place[0] : place[1]] if place else ()


def shape_of(*, agent: Agent, policy: Policy) -> ForestShape:
    """Return the numbers by which the forests of an agent's threads grow."""
    return forest_shape(
        policy=policy,
        context_window=agent.context_window,
        max_output_tokens=agent.max_output_tokens,
    )
