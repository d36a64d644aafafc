"""Putting a prompt together: sections in their order, before the request, inside one message. Pure.

The system prompt holds only the agent's own words; everything remembered or handed in stands before
the user's request, each section inside the untrusted boundary (DESIGN 6).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Final

from memory.boundary import Wording, compose_request, wrap_section
from memory.ledger import CUT, Dropped, SectionRow
from memory.providers.base import ChatMessage
from memory.sanitize import sanitize
from memory.tokens import count_messages, estimate, truncate_middle

_HEADINGS: Final = {
    ("facts", "zh"): "已知事实",
    ("facts", "en"): "Facts",
    ("reference", "zh"): "参考资料",
    ("reference", "en"): "Reference material",
}
_LEAST_PIECE_TOKENS: Final = 24
_CUT: Final = " … "


@dataclass(frozen=True, slots=True, kw_only=True)
class HandedItem:
    """One fact or material handed in with a request.

    Attributes:
        kind: `fact` or `material`.
        id: Its place among those handed in, such as `fact-1`.
        label: A fact's label or a material's title.
        text: A fact's value or a material's content.
        source: Where the caller says it comes from.
        as_of: When it was true, if said.
        is_stale: Whether that is longer ago than its kind stays fresh.
    """

    kind: str
    id: str
    label: str
    text: str
    source: str
    as_of: datetime | None
    is_stale: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class PackedSection:
    """A section's text within its cap, its ledger row, and the items that made it in."""

    text: str
    row: SectionRow
    shown: tuple[tuple[HandedItem, int], ...]


def pack_handed(
    *, name: str, items: Sequence[HandedItem], wording: Wording, tag: str, cap: int
) -> PackedSection:
    """Return one section of handed-in items within `cap` tokens, boundary included.

    Items go in whole and in order while they fit; the first that does not fit is cut in the middle
    if it is a material and enough room is left, all others are dropped. Both are named.
    """
    lines = [_line(item, wording) for item in items]
    costs = [estimate(line) for line in lines]
    kept, dropped = _fill(items, lines, costs, cap - _boundary_cost(name, wording, tag))
    text = _wrap(name, wording, tag, [line for _, line in kept])
    while kept and estimate(text) > cap:  # cleaned together, lines can cost more than one by one
        item, line = kept.pop()
        dropped = [gone for gone in dropped if gone.id != item.id]
        gone = Dropped(kind=item.kind, id=item.id, tokens=estimate(line), reason="section_cap")
        dropped.append(gone)
        text = _wrap(name, wording, tag, [line for _, line in kept])
    return PackedSection(
        text=text,
        shown=tuple((item, estimate(line)) for item, line in kept),
        row=SectionRow(
            name=name,
            cap=cap,
            wanted=sum(costs) + (_boundary_cost(name, wording, tag) if items else 0),
            granted=estimate(text),
            items=len(kept),
            dropped=tuple(dropped),
        ),
    )


def _fill(
    items: Sequence[HandedItem], lines: Sequence[str], costs: Sequence[int], room: int
) -> tuple[list[tuple[HandedItem, str]], list[Dropped]]:
    """Choose the lines that fit into `room` tokens, cleaned, and name the items that do not."""
    kept: list[tuple[HandedItem, str]] = []
    dropped: list[Dropped] = []
    for item, line, cost in zip(items, lines, costs, strict=True):
        may_cut = item.kind == "material" and not dropped and room >= _LEAST_PIECE_TOKENS
        piece, is_cut = _piece(line, room, cost, may_cut=may_cut)
        if not piece:
            dropped.append(Dropped(kind=item.kind, id=item.id, tokens=cost, reason="section_cap"))
            continue
        tokens = estimate(piece)
        if is_cut:
            missing = max(cost - tokens, 0)
            dropped.append(Dropped(kind=item.kind, id=item.id, tokens=missing, reason=CUT))
        room -= tokens + 1
        kept.append((item, piece))
    return kept, dropped


def _piece(line: str, room: int, cost: int, *, may_cut: bool) -> tuple[str, bool]:
    """Return a line as it goes in, cleaned, and whether it was cut; empty if it has no place."""
    if cost > room and not may_cut:
        return "", False
    # Cut first: cleaning is for what remains. Then again, since its marks can make it longer.
    short = truncate_middle(line, max_tokens=room, mark=_CUT) if cost > room else line
    piece = sanitize(short).text
    if estimate(piece) <= room:
        return piece, short is not line
    return (truncate_middle(piece, max_tokens=room, mark=_CUT), True) if may_cut else ("", False)


def _wrap(name: str, wording: Wording, tag: str, lines: Sequence[str]) -> str:
    if not lines:
        return ""
    heading = _HEADINGS[name, wording.language]
    return wrap_section(wording=wording, tag=tag, section=heading, body="\n".join(lines))


def _boundary_cost(name: str, wording: Wording, tag: str) -> int:
    return estimate(_wrap(name, wording, tag, [""])) + 2


def _line(item: HandedItem, wording: Wording) -> str:
    is_zh = wording.language == "zh"
    notes = [item.source] if item.source else []
    if item.as_of is not None:
        notes.append(("截至 " if is_zh else "as of ") + item.as_of.strftime("%Y-%m-%d %H:%M UTC"))
    if item.is_stale:
        notes.append("可能已过期" if is_zh else "may be out of date")
    if notes and is_zh:
        note = f"（{'，'.join(notes)}）"
    else:
        note = f" ({', '.join(notes)})" if notes else ""
    joint = "：" if is_zh else ": "
    return f"- {item.label}{note}{joint}{item.text}" if item.label else f"- {item.text}{note}"


def build_messages(
    *, system_prompt: str, wording: Wording, tag: str, sections: Sequence[str], request: str
) -> tuple[ChatMessage, ...]:
    """Return the prompt: the agent's system prompt if it has one, and the user's message.

    The message ends with the request, byte for byte.
    """
    content = compose_request(wording=wording, tag=tag, sections=sections, request=request)
    user = ChatMessage(role="user", content=content)
    if not system_prompt:
        return (user,)
    return (ChatMessage(role="system", content=system_prompt), user)


def prompt_tokens(messages: Sequence[ChatMessage]) -> int:
    """Estimate what a prompt costs, framing included."""
    return count_messages([(message.role, message.content) for message in messages])
