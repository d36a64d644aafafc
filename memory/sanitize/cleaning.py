"""One text's cleaning: hits of the book become edits of the original, until none is left."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from memory.sanitize.folding import Shadow, fold
from memory.sanitize.invisible import strip_invisible
from memory.sanitize.patterns import Hit
from memory.sanitize.rules import BOOK

MARK_EN = "(neutralised)"
MARK_ZH = "（已中和）"

# Every round takes the shape from at least one marker; markers woven into each other need a few.
_MAX_ROUNDS = 32


@dataclass(frozen=True, slots=True, kw_only=True)
class Sanitized:
    """A cleaned text and the sorted names of the rules that changed it."""

    text: str
    neutralised: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class _Edit:
    """A span of the original text and what takes its place."""

    start: int
    end: int
    replacement: str
    rule: str


def sanitize(text: str) -> Sanitized:
    """Return `text` with invisible characters removed and orders and markers neutralised.

    Idempotent. Markers keep their word in parentheses ("[System]" becomes "(System)"), orders and
    forged boundary lines become a mark. Linear in the length of the text.
    """
    text, fired = strip_invisible(text)
    names = set(fired)
    for _ in range(_MAX_ROUNDS):
        edits = _edits(text)
        if not edits:
            break
        names.update(edit.rule for edit in edits)
        text, fired = strip_invisible(_apply(text, edits))
        names.update(fired)
    return Sanitized(text=text, neutralised=tuple(sorted(names)))


def hits_in(text: str) -> list[tuple[str, int, int]]:
    """Return what would be neutralised in `text`, in order: the rule and its span, overlaps too."""
    found = sorted(_found(text, fold(text)), key=lambda edit: (edit.start, -edit.end))
    return [(edit.rule, edit.start, edit.end) for edit in found]


def mark_for(words: str) -> str:
    """Return what stands in place of `words`, in their language."""
    return MARK_ZH if _is_chinese(words) else MARK_EN


def _edits(text: str) -> list[_Edit]:
    """Return non-overlapping edits in order; of two that overlap the earlier, then the longer."""
    shadow = fold(text)
    found = sorted(_found(text, shadow), key=lambda edit: (edit.start, -edit.end))
    chosen: list[_Edit] = []
    for edit in found:
        if not chosen or edit.start >= chosen[-1].end:
            chosen.append(edit)
    return chosen


def _found(text: str, shadow: Shadow) -> Iterator[_Edit]:
    """Yield an edit for every hit that is not harmless."""
    for hit in BOOK.hits(shadow.text):
        if "spare" in hit.groups or "spare_after" in hit.groups:
            continue
        start, end = shadow.span(start=hit.start, end=hit.end)
        if hit.name in {"role_bracket", "role_tag"} and _is_code(text, start, end):
            continue
        yield _edit(text, shadow, hit)


def _edit(text: str, shadow: Shadow, hit: Hit) -> _Edit:
    """Return what to do about one hit."""
    first, last = hit.groups.get("cut", (hit.start, hit.end))
    start, end = shadow.span(start=first, end=last)
    for name in ("keep", "keep2", "keep3"):
        if name in hit.groups:
            at, to = hit.groups[name]
            kept_from, kept_to = shadow.span(start=at, end=to)
            return _Edit(start, end, _in_parentheses(text[kept_from:kept_to].strip()), hit.name)
    return _Edit(start, end, mark_for(shadow.text[first:last]), hit.name)


def _in_parentheses(word: str) -> str:
    """Return `word` in the parentheses of its language."""
    return f"（{word}）" if _is_chinese(word) else f"({word})"


def _is_chinese(words: str) -> bool:
    """Say whether a CJK ideograph is among `words`."""
    return any("\u4e00" <= letter <= "\u9fff" for letter in words)


def _is_code(text: str, start: int, end: int) -> bool:
    """Say whether brackets belong to a name before them: `labels[important]`, `List<System>`."""
    before = text[start - 1 : start]
    is_glued = before.isascii() and (before.isalnum() or before == "_")
    marker = text[start:end]
    if not is_glued or not marker.isascii():
        return False
    return (marker[0] == "<" or marker == marker.lower()) and marker[1] != "/"


def _apply(text: str, edits: list[_Edit]) -> str:
    """Return `text` with `edits` made, which are in order and do not overlap."""
    pieces: list[str] = []
    position = 0
    for edit in edits:
        pieces += (text[position : edit.start], edit.replacement)
        position = edit.end
    pieces.append(text[position:])
    return "".join(pieces)
