"""What a prompt and the worker see of a thread's summary forest: its parentless nodes, oldest first."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from typing import Final

from memory.scope import Scope
from threads.models import SummaryNode

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
