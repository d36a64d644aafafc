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
from threads.recall.items_with import items_having
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
_MOST_ITEMS: Final = 100


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


@dataclass(frozen=True, slots=True, kw_only=True)
class _ItemHit:
    """An item that has the text; short enough to be shown from its beginning."""

    id: str
    name: str
    at: datetime
    text: str

    def line(self, *, width: int) -> str:
        shown = Stretch(piece=self.text, before=0, length=len(self.text)).excerpt(most=width)
        return f"- {self.id} {self.name} {stamp(self.at)}: {shown}"


@dataclass(frozen=True, slots=True, kw_only=True)
class _Found:
    """What there is to be shown, and how many messages have the text."""

    messages: list[_Hit]
    matching: int
    items: list[_ItemHit]


def grep(place: ToolPlace, arguments: Arguments, *, now: datetime) -> ToolResult:
    """Return the newest messages and items with the text. Cost: three queries over the person's.

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
    items = _items(place, query, (arguments.time("start_time"), arguments.time("end_time")), now)
    return _answer(_Found(messages=hits, matching=found, items=items[:limit]), place.most_tokens)


def _items(
    place: ToolPlace, query: str, between: tuple[datetime | None, datetime | None], now: datetime
) -> list[_ItemHit]:
    """Return the items of the role with the text, the last written first."""
    start, end = between
    rows = items_having(scope=place.scope, query=query, role=place.role, now=now)
    rows = rows.filter(updated_at__gte=start) if start else rows
    rows = rows.filter(updated_at__lte=end) if end else rows
    return [
        _ItemHit(
            id=item.pk,
            name=f"{item.category}/{item.key} “{item.title}”",
            at=item.updated_at,
            text=item.content,
        )
        for item in rows.order_by("-updated_at", "-id")[:_MOST_ITEMS]
    ]


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


def _answer(found: _Found, most_tokens: int) -> ToolResult:
    hits, items = found.messages, found.items
    if not hits and not items:
        return ToolResult(text="No message contains that.", summary="no message")
    matching = (
        f"{'over ' if found.matching > _MOST_COUNTED else ''}{min(found.matching, _MOST_COUNTED)}"
    )
    shown = f"{len(hits)} of {matching} messages"
    head, tail = f"{shown}, newest first.", ""
    if items:
        shown = f"{shown}, {len(items)} memory items"
    more = found.matching - len(hits)
    if more > 0:
        tail = f"\n{more} more; narrow the time or the text, or raise the limit."
    text = ""
    for width in _WIDTHS:
        kept = ["Memory items:", *(item.line(width=width) for item in items)] if items else []
        text = "\n".join([*kept, head, *_lines(hits, width)]) + tail
        if estimate(text) <= most_tokens:
            break
    candidates, count = found.matching + len(items), len(hits) + len(items)
    return ToolResult(text=text, summary=shown, candidates=candidates, kept=count)


def _lines(hits: list[_Hit], width: int) -> Iterator[str]:
    """Yield the hits, each stretch of one thread's under its id."""
    thread_id = ""
    for hit in hits:
        if hit.thread_id != thread_id:
            thread_id = hit.thread_id
            yield f"{thread_id}:"
        yield hit.line(width=width)
