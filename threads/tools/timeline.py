"""view_chat_history_summary: a timeline of the person's threads in the agent's role.

The present thread's own summary is in it; what others have of that kind stays private to them.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Final

from django.db.models import F, Window
from django.db.models.functions import Left, RowNumber

from memory.tokens import estimate, truncate_end
from threads.models import Run, RunStatus, SummaryNode, Thread, ThreadStatus, ThreadSummary
from threads.tools.arguments import Arguments
from threads.tools.reach import stamp
from threads.tools.records import ToolPlace, ToolResult

_TURNS_EACH: Final = 2
_LINE_CHARACTERS: Final = 120
_READ_CHARACTERS: Final = 600
_MOST_NODES: Final = 8
_NODE_TOKENS: Final = 60
# Cleaning can lengthen a text a little.
_USED_SHARE: Final = 0.9


@dataclass(frozen=True, slots=True, kw_only=True)
class _Turn:
    """A finished turn, by the first lines of both sides."""

    at: datetime
    said: str
    answered: str

    def line(self) -> str:
        return f"  {stamp(self.at)} {self.said} → {self.answered}"


def timeline(place: ToolPlace, arguments: Arguments) -> ToolResult:
    """Return the newest threads, and the present one's summary, within the tokens of a result.

    Cost: five queries.
    """
    rows = Thread.objects.in_scope(place.scope).filter(agent__role=place.role)
    total = rows.count()
    limit = arguments.count("limit")
    threads = list(rows.order_by("-updated_at", "-id")[:limit])
    turns = _last_turns(place, [thread.pk for thread in threads])
    blocks = [
        "\n".join([_thread_line(thread, place), *(turn.line() for turn in turns[thread.pk])])
        for thread in threads
    ]
    room = int(place.most_tokens * _USED_SHARE) - 40
    own = truncate_end(_own_summary(place), max_tokens=room // 3)
    shown = _fitting(blocks, room - estimate(own))
    said = f"{len(shown)} of {total} conversations"
    lines = [f"{said}, newest first.", *shown]
    if own:
        lines += ["Earlier in this conversation:", own]
    text = "\n".join(lines)
    return ToolResult(text=text, summary=said, candidates=total, kept=len(shown))


def _fitting(blocks: Sequence[str], room: int) -> list[str]:
    """Return the first blocks that fit, at least a cut one where there is any."""
    shown: list[str] = []
    for block in blocks:
        cost = estimate(block) + 1
        if cost > room:
            break
        room -= cost
        shown.append(block)
    if blocks and not shown:
        shown.append(truncate_end(blocks[0], max_tokens=max(room, 1)))
    return shown


def _thread_line(thread: Thread, place: ToolPlace) -> str:
    marks = [
        "this conversation" if thread.pk == place.scope.thread_id else "",
        "archived" if thread.status == ThreadStatus.ARCHIVED else "",
    ]
    noted = "".join(f", {mark}" for mark in marks if mark)
    span = f"{stamp(thread.created_at)} to {stamp(thread.updated_at)}"
    title = _first_line(thread.title) or "(untitled)"
    return f"- {thread.pk} “{title}” {span}, {thread.run_count} turns{noted}"


def _last_turns(place: ToolPlace, thread_ids: Sequence[str]) -> dict[str, list[_Turn]]:
    """Return the last finished turns of each thread, oldest first. Cost: one query."""
    found: dict[str, list[_Turn]] = {thread_id: [] for thread_id in thread_ids}
    rows = Run.objects.in_scope(place.scope).filter(
        thread_id__in=thread_ids, status__in=(RunStatus.SUCCEEDED, RunStatus.FAILED)
    )
    newest = Window(RowNumber(), partition_by=F("thread_id"), order_by=F("seq").desc())
    last = rows.annotate(place=newest).filter(place__lte=_TURNS_EACH).order_by("thread_id", "seq")
    heads = {"said": Left("input", _READ_CHARACTERS), "answered": Left("output", _READ_CHARACTERS)}
    for row in last.values("thread_id", "created_at", "status", **heads):
        found[row["thread_id"]].append(_turn(row))
    return found


def _turn(row: Mapping[str, Any]) -> _Turn:
    """Return a turn without what a failed one put out."""
    is_failed = row["status"] == RunStatus.FAILED
    answered = "(failed)" if is_failed else _first_line(row["answered"]) or "(empty)"
    return _Turn(at=row["created_at"], said=_first_line(row["said"]), answered=answered)


def _first_line(text: str) -> str:
    lines = (" ".join(line.split()) for line in text.splitlines())
    line = next((line for line in lines if line), "")
    return line if len(line) <= _LINE_CHARACTERS else f"{line[:_LINE_CHARACTERS]}…"


def _own_summary(place: ToolPlace) -> str:
    """Return the present thread's summary, or its newest root nodes by their beginnings."""
    row = ThreadSummary.objects.in_scope(place.scope).first()
    if row and row.rolling_summary:
        return row.rolling_summary
    roots = SummaryNode.objects.in_scope(place.scope).filter(parent__isnull=True)
    nodes = list(roots.order_by("-start_seq")[:_MOST_NODES])
    return "\n".join(_node_line(node) for node in reversed(nodes))


def _node_line(node: SummaryNode) -> str:
    summary = truncate_end(" ".join(node.summary.split()), max_tokens=_NODE_TOKENS)
    return f"- {node.pk} {node.start_at:%Y-%m-%d} to {node.end_at:%Y-%m-%d}: {summary}"
