"""memory_grep: past messages that contain a text, newest first."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Final

from django.db.models import F, Func, Value
from django.db.models.functions import Greatest, Length, Lower, StrIndex, Substr

from memory.querysets import ScopedQuerySet
from memory.tokens import estimate
from threads.models import Message
from threads.recall.patterns import BadPatternError, content_like
from threads.recall.reach import searchable_messages
from threads.tools.arguments import Arguments
from threads.tools.reach import MOST_EXCERPT_CHARACTERS, Stretch, stamp
from threads.tools.records import ToolPlace, ToolRefusedError, ToolResult

_BEFORE: Final = 80
# Of many hits less is shown of each, so that all of them have a place in one result.
_WIDTHS: Final = (MOST_EXCERPT_CHARACTERS, 120, 60)
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

    def line(self, *, width: int) -> str:
        before = max(self.at - _BEFORE, 1) - 1
        hit = max(self.at - 1 - before, 0)
        found = Stretch(piece=self.piece, before=before, length=self.length, hit=hit)
        shown = found.excerpt(most=width)
        return f"- {self.id} {self.role} {stamp(self.created_at)}: {shown}"


def grep(place: ToolPlace, arguments: Arguments) -> ToolResult:
    """Return the newest messages with the text. Cost: two queries over the person's messages.

    Raises:
        ToolRefusedError: Too many wildcards or nothing else, or a time that ends before it begins.
    """
    query = arguments.text("query")
    rows = searchable_messages(scope=place.scope, role=place.role)
    rows = _between(rows, arguments.time("start_time"), arguments.time("end_time"))
    rows = rows.filter(_having(query))
    limit = arguments.count("limit")
    hits = _hits(rows, first_part=next(part for part in query.split("*") if part), limit=limit)
    found = len(hits)
    if found == limit:
        found = max(rows.order_by()[: _MOST_COUNTED + 1].count(), found)
    return _answer(hits, found, place.most_tokens)


def _having(query: str) -> Func:
    try:
        return content_like(query)
    except BadPatternError as error:
        raise ToolRefusedError(error.detail) from error


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


def _answer(hits: list[_Hit], found: int, most_tokens: int) -> ToolResult:
    if not hits:
        return ToolResult(text="No message contains that.", summary="no message")
    shown = f"{len(hits)} of {'over ' if found > _MOST_COUNTED else ''}{min(found, _MOST_COUNTED)}"
    head, tail = f"{shown} messages, newest first.", ""
    more = found - len(hits)
    if more > 0:
        tail = f"\n{more} more; narrow the time or the text, or raise the limit."
    text = ""
    for width in _WIDTHS:
        text = "\n".join([head, *_lines(hits, width)]) + tail
        if estimate(text) <= most_tokens:
            break
    return ToolResult(text=text, summary=f"{shown} messages", candidates=found, kept=len(hits))


def _lines(hits: list[_Hit], width: int) -> Iterator[str]:
    """Yield the hits, each stretch of one thread's under its id."""
    thread_id = ""
    for hit in hits:
        if hit.thread_id != thread_id:
            thread_id = hit.thread_id
            yield f"{thread_id}:"
        yield hit.line(width=width)
