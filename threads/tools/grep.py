"""memory_grep: past messages that contain a text, newest first."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from typing import Any, Final

from django.db.models import BooleanField, F, Func, Value
from django.db.models.functions import Greatest, Length, Lower, StrIndex, Substr

from memory.querysets import ScopedQuerySet
from threads.models import Message
from threads.tools.arguments import Arguments
from threads.tools.reach import excerpt, searchable_messages, stamp
from threads.tools.records import ToolPlace, ToolRefusedError, ToolResult
from threads.tools.specs import MOST_WILDCARDS

_BEFORE: Final = 60
_WINDOW: Final = 400
_MOST_COUNTED: Final = 1000


@dataclass(frozen=True, slots=True, kw_only=True)
class _Hit:
    """One row of the answer."""

    id: str
    thread_id: str
    role: str
    created_at: datetime
    at: int
    length: int
    piece: str

    def line(self) -> str:
        first = max(self.at - _BEFORE, 1)
        shown = excerpt(
            self.piece,
            is_cut_before=first > 1,
            is_cut_after=first - 1 + len(self.piece) < self.length,
        )
        return f"- {self.id} {self.thread_id} {self.role} {stamp(self.created_at)}: {shown}"


def grep(place: ToolPlace, arguments: Arguments) -> ToolResult:
    """Return the newest messages with the text. Cost: two queries over the person's messages.

    Raises:
        ToolRefusedError: Too many wildcards or nothing else, or a time that ends before it begins.
    """
    query = arguments.text("query")
    rows = searchable_messages(scope=place.scope, role=place.role)
    rows = _between(rows, arguments.time("start_time"), arguments.time("end_time"))
    rows = rows.filter(_like(_pattern(query)))
    limit = arguments.count("limit")
    hits = _hits(rows, first_part=next(part for part in query.split("*") if part), limit=limit)
    found = len(hits)
    if found == limit:
        found = max(rows.order_by()[: _MOST_COUNTED + 1].count(), found)
    return _answer(hits, found)


def _pattern(query: str) -> str:
    """Return the LIKE pattern of a query in which only * is special."""
    if query.count("*") > MOST_WILDCARDS:
        raise ToolRefusedError(f"query has more than {MOST_WILDCARDS} wildcards.")
    if not query.replace("*", "").strip():
        raise ToolRefusedError("query has nothing but wildcards.")
    return "%" + "%".join(like_escaped(part) for part in query.split("*")) + "%"


def like_escaped(text: str) -> str:
    """Return `text` as a LIKE pattern that matches only itself."""
    return text.replace("\\", "\\\\").replace("%", "\\%").replace("_", "\\_")


def _like(pattern: str) -> Func:
    return Func(
        F("content"),
        Value(pattern),
        template="%(expressions)s",
        arg_joiner=" ILIKE ",
        output_field=BooleanField(),
    )


def _between(
    rows: ScopedQuerySet[Message], start: datetime | None, end: datetime | None
) -> ScopedQuerySet[Message]:
    if start and end and start > end:
        raise ToolRefusedError("start_time is after end_time.")
    if start:
        rows = rows.filter(created_at__gte=start)
    return rows.filter(created_at__lte=end) if end else rows


def _hits(rows: ScopedQuerySet[Message], *, first_part: str, limit: int) -> list[_Hit]:
    """Read the newest rows with the stretch around the hit; long texts stay in the database."""
    at: Any = StrIndex(Lower("content"), Lower(Value(first_part)))
    placed = rows.annotate(
        at=at,
        length=Length("content"),
        piece=Substr("content", Greatest(F("at") - _BEFORE, Value(1)), _WINDOW),
    )
    columns = ("id", "thread_id", "role", "created_at", "at", "length", "piece")
    newest = placed.order_by("-created_at", "-id").values(*columns)[:limit]
    return [_Hit(**row) for row in newest]


def _answer(hits: list[_Hit], found: int) -> ToolResult:
    if not hits:
        return ToolResult(text="No message contains that.", summary="no message")
    shown = f"{len(hits)} of {'over ' if found > _MOST_COUNTED else ''}{min(found, _MOST_COUNTED)}"
    lines = [f"{shown} messages, newest first.", *(hit.line() for hit in hits)]
    more = found - len(hits)
    if more > 0:
        lines.append(f"{more} more; narrow the time or the text, or raise the limit.")
    return ToolResult(
        text="\n".join(lines), summary=f"{shown} messages", candidates=found, kept=len(hits)
    )
