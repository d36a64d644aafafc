"""view_message: the original behind an id, page by page.

Whatever is not there and whatever is somebody else's answers alike.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Final

from governance.items.items import active_items
from memory.ids import is_id
from memory.models import CoreFact, DocumentStatus, KnowledgeChunk, RecallEntry
from memory.sanitize import sanitize
from memory.tokens import estimate, truncate_end
from threads.models import Message, RunStatus, SummaryNode
from threads.recall.reach import messages_in_reach
from threads.tools.arguments import Arguments
from threads.tools.reach import stamp
from threads.tools.records import (
    NewArtifact,
    ToolPlace,
    ToolRefusedError,
    ToolResult,
    WorkspaceFile,
)

_NOT_FOUND: Final = "There is no such message."
_SPARE_TOKENS: Final = 4
# Few characters are more tokens than this; for text that can not be cut at the room's end.
_TOKENS_PER_CHARACTER: Final = 3


@dataclass(frozen=True, slots=True, kw_only=True)
class OnHand:
    """What a run's tools have that is not stored: results by reference id, files by id."""

    results: Mapping[str, str] = field(default_factory=dict)
    files: Sequence[NewArtifact | WorkspaceFile] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class _Opened:
    """An original; `label` says what it is."""

    label: str
    text: str


def view(place: ToolPlace, arguments: Arguments, on_hand: OnHand, *, now: datetime) -> ToolResult:
    """Return a page of the original, as it is stored. Cost: at most two queries.

    Raises:
        ToolRefusedError: There is none in reach, or it ends before the offset.
    """
    wanted = arguments.text("message_id").strip()
    opened = _open(place, wanted, on_hand, now)
    if opened is None:
        raise ToolRefusedError(_NOT_FOUND)
    offset, length = arguments.count("offset"), len(opened.text)
    if offset and offset >= length:
        raise ToolRefusedError(f"That has {length} characters; the offset is beyond its end.")
    text = _page(opened, offset=offset, most_tokens=place.most_tokens)
    end = offset + len(text)
    said = f"{wanted}, characters {offset} to {end} of {length}"
    head = _head(opened.label, offset, end, length)
    return ToolResult(text=f"{head}\n{text}", summary=said, candidates=1, kept=1)


def _head(label: str, offset: int, end: int, length: int) -> str:
    if offset == 0 and end == length:
        return f"{label}, whole:"
    rest = f"; next offset {end}" if end < length else ""
    return f"{label}, characters {offset} to {end} of {length}{rest}:"


def _page(opened: _Opened, *, offset: int, most_tokens: int) -> str:
    """Return the longest stretch from `offset` on that fits once it is cleaned; never nothing."""
    length = len(opened.text)
    head = sanitize(_head(opened.label, length, length, length * 10)).text
    most = max(most_tokens - estimate(head) - _SPARE_TOKENS, _SPARE_TOKENS)
    room = most
    while room >= _SPARE_TOKENS:
        page = truncate_end(opened.text[offset:], max_tokens=room, mark="")
        tokens = estimate(sanitize(page).text)
        if page and tokens <= most:
            return page
        room = min(room - 1, room * most // max(tokens, 1)) if page else 0
    return opened.text[offset : offset + max(most // _TOKENS_PER_CHARACTER, 1)]


def _open(place: ToolPlace, wanted: str, on_hand: OnHand, now: datetime) -> _Opened | None:
    if wanted in on_hand.results:
        return _Opened(label=f"{wanted} tool result", text=on_hand.results[wanted])
    if is_id(wanted, prefix="art"):
        return _file(wanted, on_hand)
    if is_id(wanted, prefix="mem"):
        return _item(place, wanted, now)
    for prefix, opener in _OPENERS.items():
        if is_id(wanted, prefix=prefix):
            return opener(place, wanted)
    return _node(place, wanted) if is_id(wanted, prefix="node") else None


def _file(wanted: str, on_hand: OnHand) -> _Opened | None:
    for file in on_hand.files:
        if file.id == wanted:
            label = f"{wanted} {file.name} {file.bytes} bytes"
            return _Opened(label=label, text=file.content)
    return None


def _message(place: ToolPlace, wanted: str) -> _Opened | None:
    rows = messages_in_reach(scope=place.scope, role=place.role).select_related("run")
    message = rows.filter(pk=wanted).first()
    if message is None:
        return None
    failed = " of a turn that failed" if message.run.status == RunStatus.FAILED else ""
    label = f"{wanted} {message.role} {stamp(message.created_at)}{failed}"
    return _Opened(label=label, text=message.content)


def _recall(place: ToolPlace, wanted: str) -> _Opened | None:
    rows = RecallEntry.objects.in_scope(place.scope).filter(role__in=("", place.role))
    entry = rows.filter(pk=wanted).first()
    if entry is None:
        return None
    label = f"{wanted} recalled turn {stamp(entry.said_at)} {entry.tier}"
    return _Opened(label=label, text=f"{entry.said}\n\n{entry.answered}".strip())


def _item(place: ToolPlace, wanted: str, now: datetime) -> _Opened | None:
    """Open an item of this role that is in effect."""
    item = active_items(scope=place.scope, now=now).filter(pk=wanted, role=place.role).first()
    if item is None:
        return None
    label = (
        f"{wanted} {item.category}/{item.key} “{item.title}” {stamp(item.updated_at)} {item.tier}"
    )
    return _Opened(label=label, text=item.content)


def _fact(place: ToolPlace, wanted: str) -> _Opened | None:
    """Open a fact that still holds."""
    rows = CoreFact.objects.in_scope(place.scope).filter(pk=wanted, valid_to__isnull=True)
    fact = rows.first()
    if fact is None:
        return None
    label = f"{wanted} confirmed fact {stamp(fact.valid_from)} {fact.tier}"
    return _Opened(label=label, text=fact.fact)


def _chunk(place: ToolPlace, wanted: str) -> _Opened | None:
    """Open a passage of a document that is admitted still."""
    rows = KnowledgeChunk.objects.in_scope(place.scope).select_related("document")
    chunk = rows.filter(pk=wanted, document__status=DocumentStatus.ADMITTED).first()
    if chunk is None:
        return None
    document = chunk.document
    dated = stamp(document.as_of or document.created_at)
    label = f"{wanted} “{document.title}” {dated} {document.tier}"
    return _Opened(label=label, text=chunk.content)


def _node(place: ToolPlace, wanted: str) -> _Opened | None:
    """Open a summary node of this very thread: row-level security shows no other's."""
    node = SummaryNode.objects.in_scope(place.scope).filter(pk=wanted).first()
    if node is None:
        return None
    if node.level:
        kind, below = "nodes", SummaryNode.objects.in_scope(place.scope).filter(parent=node)
        ids = list(below.order_by("start_seq").values_list("id", flat=True))
    else:
        kind, rows = "messages", Message.objects.in_scope(place.scope).filter(summary_node=node)
        ids = list(rows.order_by("run__seq", "position").values_list("id", flat=True))
    span = f"{stamp(node.start_at)} to {stamp(node.end_at)}"
    text = f"{node.summary}\n\n{kind}: {', '.join(ids)}"
    return _Opened(label=f"{wanted} summary of level {node.level}, {span}", text=text)


_OPENERS: Final = {
    "msg": _message,
    "rec": _recall,
    "chunk": _chunk,
    "fact": _fact,
}
