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
from memory.cutting import FittedText, fit_text
from memory.ledger import CUT, Dropped, SectionRow
from memory.providers.base import ChatMessage
from memory.sanitize import sanitize
from memory.tokens import count_messages, estimate

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
    kept, dropped = _fill(items, lines, cap - _boundary_cost(name, wording, tag))
    text = _wrap(name, wording, tag, kept)
    while kept and estimate(text) > cap:  # cleaned together, lines can cost more than one by one
        last = kept.pop()
        dropped = [gone for gone in dropped if gone.id != last.item.id]
        dropped.append(_without_room(last.item, last.tokens + last.line.left_out_tokens))
        text = _wrap(name, wording, tag, kept)
    granted = estimate(text)
    return PackedSection(
        text=text,
        shown=tuple((one.item, one.tokens) for one in kept),
        row=SectionRow(
            name=name,
            cap=cap,
            # As cleaned: what is there and what is not, so that an uncut section got all it wanted.
            wanted=granted + sum(gone.tokens for gone in dropped),
            granted=granted,
            items=len(kept),
            dropped=tuple(dropped),
        ),
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class _Kept:
    """An item that is in, and its line as it stands there."""

    item: HandedItem
    line: FittedText

    @property
    def tokens(self) -> int:
        return estimate(self.line.text)


def _fill(
    items: Sequence[HandedItem], lines: Sequence[str], room: int
) -> tuple[list[_Kept], list[Dropped]]:
    """Choose the lines that fit into `room` tokens, cleaned, and name the items that do not."""
    kept: list[_Kept] = []
    dropped: list[Dropped] = []
    for item, line in zip(items, lines, strict=True):
        may_cut = item.kind == "material" and not dropped and room >= _LEAST_PIECE_TOKENS
        fitted = fit_text(line, most=room, marks=(_CUT,) if may_cut else ())
        if fitted is None:
            dropped.append(_without_room(item, _cost(line, room)))
            continue
        if fitted.is_cut:
            missing = fitted.left_out_tokens
            dropped.append(Dropped(kind=item.kind, id=item.id, tokens=missing, reason=CUT))
        one = _Kept(item=item, line=fitted)
        room -= one.tokens + 1
        kept.append(one)
    return kept, dropped


def _cost(line: str, room: int) -> int:
    """Estimate a line as cleaned, where that decides; cleaning what never had room is in vain."""
    cost = estimate(line)
    return cost if cost > room else estimate(sanitize(line).text)


def _without_room(item: HandedItem, tokens: int) -> Dropped:
    return Dropped(kind=item.kind, id=item.id, tokens=tokens, reason="section_cap")


def _wrap(name: str, wording: Wording, tag: str, kept: Sequence[_Kept]) -> str:
    if not kept:
        return ""
    heading = _HEADINGS[name, wording.language]
    body = "\n".join(one.line.text for one in kept)
    return wrap_section(wording=wording, tag=tag, section=heading, body=body)


def _boundary_cost(name: str, wording: Wording, tag: str) -> int:
    heading = _HEADINGS[name, wording.language]
    return estimate(wrap_section(wording=wording, tag=tag, section=heading, body="")) + 2


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
