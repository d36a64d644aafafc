"""Packing items into one section of a prompt, within its cap, each with what it says of itself. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Final

from memory.boundary import Wording, wrap_section
from memory.cutting import FittedText, fit_text
from memory.ledger import CUT, Dropped, SectionRow
from memory.sanitize import sanitize
from memory.tokens import estimate
from memory.trust import ContextItem

_FACTS: Final = {"zh": "已知事实", "en": "Facts"}
_REFERENCE: Final = {"zh": "参考资料", "en": "Reference material"}
_LEAST_PIECE_TOKENS: Final = 24
_LEAST_PIECE_CHARS: Final = 40
_CUT: Final = " … "
# Their own ids, in their labels or in the account, lead to where they come from.
_SELF_EXPLAINED: Final = frozenset({"artifact", "recall", "knowledge", "core", "item"})


@dataclass(frozen=True, slots=True, kw_only=True)
class Candidate:
    """An item that wants into a section, and the words its line is made from.

    Attributes:
        item: What it says of itself; tokens are filled in when it is packed.
        label: A fact's label, a material's title, a file's name.
        text: What it says, as it is stored.
        may_cut: Whether its middle may be left out; a fact is there whole or not at all.
    """

    item: ContextItem
    label: str
    text: str
    may_cut: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class PackedSection:
    """A section's text within its cap, its ledger row, and the items that made it in."""

    text: str
    row: SectionRow
    shown: tuple[ContextItem, ...]


def section_heading(*, name: str, wording: Wording) -> str:
    """Return the words that name a section to the model."""
    headings = {
        "facts": _FACTS[wording.language],
        "reference": _REFERENCE[wording.language],
        "preferences": wording.preferences,
        "core": wording.core,
        "related": wording.related,
        "continue": wording.continuable,
    }
    return headings[name]


def pack_section(
    *,
    name: str,
    candidates: Sequence[Candidate],
    wording: Wording,
    tag: str,
    cap: int,
    most_chars: int | None = None,
) -> PackedSection:
    """Return one section within `cap` tokens, boundary included.

    Items go in whole and in order while they fit; the first that does not fit is cut in the middle
    if it may be and enough room is left, all others are dropped. Both are named.

    Args:
        name: The section, as the ledger calls it.
        candidates: What wants in, the most wanted first.
        wording: The fixed phrases of the prompt's language.
        tag: The boundary's tag.
        cap: Tokens.
        most_chars: Characters of the items' own labels and texts together, cleaned; None for any.
    """
    heading = section_heading(name=name, wording=wording)
    lines = [_line(candidate, wording) for candidate in candidates]
    around = estimate(wrap_section(wording=wording, tag=tag, section=heading, body="")) + 2
    kept, dropped = _fill(_within_chars(candidates, most_chars), lines, cap - around, wording)
    text = _wrap(heading, wording, tag, kept)
    while kept and estimate(text) > cap:  # cleaned together, lines can cost more than one by one
        last = kept.pop()
        dropped = [gone for gone in dropped if gone.id != last.item.id]
        dropped.append(_without_room(last.item, last.tokens + last.line.left_out_tokens))
        text = _wrap(heading, wording, tag, kept)
    granted = estimate(text)
    return PackedSection(
        text=text,
        shown=tuple(one.shown for one in kept),
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


def pack_fixed(*, name: str, text: str, item: ContextItem, cap: int) -> PackedSection:
    """Return a section of one text of our own, whole or not at all; nothing for an empty text."""
    cost = estimate(text)
    fits = bool(text) and cost <= cap
    left_out = () if fits or not text else (_without_room(item, cost),)
    return PackedSection(
        text=text if fits else "",
        shown=(replace(item, tokens=cost),) if fits else (),
        row=SectionRow(
            name=name,
            cap=cap,
            wanted=cost,
            granted=cost if fits else 0,
            items=int(fits),
            dropped=left_out,
        ),
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class _Kept:
    """An item that is in, and its line as it stands there."""

    item: ContextItem
    line: FittedText

    @property
    def tokens(self) -> int:
        return estimate(self.line.text)

    @property
    def shown(self) -> ContextItem:
        """The item as it is shown: cleaned, and of one that was cut what is left of its line."""
        is_cut = self.line.is_cut
        content = self.line.text.removeprefix("- ") if is_cut else sanitize(self.item.content).text
        return replace(self.item, tokens=self.tokens, content=content)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Offer:
    """A candidate as far as the section's characters go: None where it has no place in them."""

    candidate: Candidate
    within: Candidate | None

    @property
    def is_clipped(self) -> bool:
        return self.within is not self.candidate


def _within_chars(candidates: Sequence[Candidate], most_chars: int | None) -> list[_Offer]:
    """Go through the candidates in order, giving each the characters it wants while there are any.

    The first that wants more than are left is cut in the middle if it may be.
    """
    if most_chars is None:
        return [_Offer(candidate=one, within=one) for one in candidates]
    left, is_full = most_chars, False
    offers = []
    for one in candidates:
        within: Candidate | None = one
        if _characters(one) > left:
            within = None if is_full or not one.may_cut else _clipped(one, left)
            is_full = True
        left -= _characters(within) if within else 0
        offers.append(_Offer(candidate=one, within=within))
    return offers


def _characters(candidate: Candidate) -> int:
    return len(sanitize(candidate.label).text) + len(sanitize(candidate.text).text)


def _clipped(candidate: Candidate, most_chars: int) -> Candidate | None:
    """Return the candidate with the middle of its text left out; None where too little stays."""
    label, text = sanitize(candidate.label).text, sanitize(candidate.text).text
    room = most_chars - len(label) - len(_CUT)
    while room >= _LEAST_PIECE_CHARS:
        head = (room + 1) // 2
        clipped = replace(candidate, text=text[:head] + _CUT + text[len(text) - room + head :])
        over = _characters(clipped) - most_chars  # what is cut can read as another marker
        if over <= 0:
            return clipped
        room -= over
    return None


def _fill(
    offers: Sequence[_Offer], lines: Sequence[str], room: int, wording: Wording
) -> tuple[list[_Kept], list[Dropped]]:
    """Choose the lines that fit into `room` tokens, cleaned, and name the items that do not."""
    kept: list[_Kept] = []
    dropped: list[Dropped] = []
    for offer, line in zip(offers, lines, strict=True):
        item = offer.candidate.item
        may_cut = offer.candidate.may_cut and not dropped and room >= _LEAST_PIECE_TOKENS
        fitted = _fitted(offer, line, room, wording, marks=(_CUT,) if may_cut else ())
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


def _fitted(
    offer: _Offer, line: str, room: int, wording: Wording, *, marks: Sequence[str]
) -> FittedText | None:
    """Return an offer's line within `room` tokens, with all it lacks counted as left out."""
    if offer.within is None:
        return None
    if not offer.is_clipped:
        return fit_text(line, most=room, marks=marks)
    short = _line(offer.within, wording)
    fitted = fit_text(short, most=room, marks=marks)
    if fitted is None:
        return None
    missing = max(estimate(line) - estimate(short), 1)
    return replace(fitted, left_out_tokens=fitted.left_out_tokens + missing)


def _cost(line: str, room: int) -> int:
    """Estimate a line as cleaned, where that decides; cleaning what never had room is in vain."""
    cost = estimate(line)
    return cost if cost > room else estimate(sanitize(line).text)


def _without_room(item: ContextItem, tokens: int) -> Dropped:
    return Dropped(kind=item.kind, id=item.id, tokens=tokens, reason="section_cap")


def _wrap(heading: str, wording: Wording, tag: str, kept: Sequence[_Kept]) -> str:
    if not kept:
        return ""
    body = "\n".join(one.line.text for one in kept)
    return wrap_section(wording=wording, tag=tag, section=heading, body=body)


def _line(candidate: Candidate, wording: Wording) -> str:
    """Return an item's line: its label, where it comes from, when it was true, what it says."""
    is_zh = wording.language == "zh"
    notes = _notes(candidate.item, is_zh=is_zh)
    if notes and is_zh:
        note = f"（{'，'.join(notes)}）"
    else:
        note = f" ({', '.join(notes)})" if notes else ""
    joint = "：" if is_zh else ": "
    label, text = candidate.label, candidate.text
    if not label:
        return f"- {text}{note}"
    return f"- {label}{note}{joint}{text}" if text else f"- {label}{note}"


def _is_handed_in(item: ContextItem) -> bool:
    """Say whether it came with the request, so that only its sender knows how old it is."""
    return item.source is not None and item.source.kind == "request"


def _notes(item: ContextItem, *, is_zh: bool) -> list[str]:
    origin = item.source.id if item.source else None
    notes = [origin] if origin and item.kind not in _SELF_EXPLAINED else []
    if item.as_of is not None:
        notes.append(("截至 " if is_zh else "as of ") + f"{item.as_of:%Y-%m-%d %H:%M} UTC")
    elif item.approved_at is not None:
        notes.append(("确认于 " if is_zh else "confirmed ") + f"{item.approved_at:%Y-%m-%d}")
    elif item.created_at is not None and not _is_handed_in(item):
        notes.append(("记于 " if is_zh else "noted ") + f"{item.created_at:%Y-%m-%d}")
    if item.stale:
        notes.append("可能已过期" if is_zh else "may be out of date")
    return notes
