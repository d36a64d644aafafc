"""The numbers, dates, amounts, identifiers and quoted words that a text can be pinned by. Pure.

What a request names and the past also holds must survive any shortening of that past; these are
the patterns by which it is recognised, in Chinese and English, in linear time.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Final

from memory.compression.anchor_patterns import AnchorKind, Place, places_of
from memory.compression.folding import fold, holds
from memory.language import Language
from memory.tokens import estimate

__all__ = ["MAX_ANCHORS", "Anchor", "AnchorKind", "anchor_lines", "anchors_of", "held_by", "is_in"]

MAX_ANCHORS: Final = 256
# How many characters an excerpt shows on either side, the first that lets all anchors have one.
_SIDES: Final = (20, 8, 0)
_MAX_TRIES: Final = 8
_COLON: Final[dict[Language, str]] = {"zh": "：", "en": ": "}
_CUT: Final = "…"


@dataclass(frozen=True, slots=True, kw_only=True)
class Anchor:
    """One telling piece of a text: `text` as it stands there, `folded` for comparing.

    The folded form of quoted words is without their quotation marks.
    """

    kind: AnchorKind
    text: str
    folded: str


def anchors_of(text: str) -> tuple[Anchor, ...]:
    """Return the anchors of `text` in the order they occur, each once, at most `MAX_ANCHORS`.

    Not anchors: bare numbers below 100, list numbers, ordinals, links, e-mail addresses. Linear;
    some 20 µs an anchor.
    """
    seen: dict[str, Anchor] = {}
    for place in sorted(places_of(text), key=lambda place: (place.start, -place.end)):
        anchor = _anchor_at(text, place)
        seen.setdefault(anchor.folded, anchor)
        if len(seen) == MAX_ANCHORS:
            break
    return tuple(seen.values())


def held_by(anchors: Sequence[Anchor], text: str) -> tuple[Anchor, ...]:
    """Return those of `anchors` that `text` holds, compared folded.

    A number inside of a longer number, or an identifier inside of a longer word, does not count.
    Linear in `text` for each anchor, of which `anchors_of` gives a bounded number.
    """
    folded = fold(text)
    missing = [anchor for anchor in anchors if not is_in(anchor, folded)]
    missed = {anchor.folded for anchor in missing}
    # What only folding joined to its neighbour is there all the same; a slow look, rarely needed.
    if any(anchor.folded in folded or anchor.text in text for anchor in missing):
        missed -= {fold(text[place.start : place.end]) for place in places_of(text)}
    return tuple(anchor for anchor in anchors if anchor.folded not in missed)


def is_in(anchor: Anchor, folded: str) -> bool:
    """Say whether text that is folded already holds an anchor; for many looks at one text."""
    return holds(needle=anchor.folded, text=folded, is_word=anchor.kind == "identifier")


def anchor_lines(
    *,
    anchors: Sequence[Anchor],
    texts: Sequence[tuple[str, str]],
    max_tokens: int,
    language: Language,
) -> str:
    """Return short excerpts of `texts`, a line each with its label, that hold `anchors`.

    As much around each anchor is shown as lets all of them fit into `max_tokens`; if not even bare
    ones all do, those that come first. An anchor that an earlier line holds gets no line of its
    own; one that no text holds gets none. Never cuts through a number or word. Deterministic.

    Args:
        anchors: What must be held, most important first.
        texts: (label, text) pairs, cleaned by the caller; the first that holds an anchor is quoted.
        max_tokens: By the heuristic estimate, never exceeded.
        language: Of the colon behind the label.
    """
    lines = [
        (label, line, fold(line))
        for label, text in texts
        for line in text.splitlines()
        if line.strip()
    ]
    for side in _SIDES:
        chosen, is_complete = _excerpts(anchors, lines, side, max_tokens, _COLON[language])
        if is_complete:
            break
    return "\n".join(chosen)


def _excerpts(
    anchors: Sequence[Anchor],
    lines: Sequence[tuple[str, str, str]],
    side: int,
    max_tokens: int,
    colon: str,
) -> tuple[list[str], bool]:
    """Return the lines that fit, and whether every anchor that some line holds has one."""
    chosen: list[str] = []
    shown, is_complete = "", True
    for anchor in anchors:
        if is_in(anchor, shown):
            continue
        excerpt = _excerpt(anchor, lines, side, colon)
        if excerpt is None:
            continue
        if estimate("\n".join([*chosen, excerpt])) > max_tokens:
            is_complete = False
            continue
        chosen.append(excerpt)
        shown = fold("\n".join(chosen))
    return chosen, is_complete


def _excerpt(
    anchor: Anchor, lines: Sequence[tuple[str, str, str]], side: int, colon: str
) -> str | None:
    """Return the labelled surroundings of an anchor in the first line that holds it."""
    for label, line, folded in lines:
        if not is_in(anchor, folded):
            continue
        for start, end in _spans(anchor, line):
            shown = _around(line, start, end, side)
            if is_in(anchor, fold(shown)):
                return f"- {label}{colon}{shown}"
    return None


def _spans(anchor: Anchor, line: str) -> Iterator[tuple[int, int]]:
    """Yield where `line`, which is not folded, holds the folded anchor, the first few places."""
    offset = 0
    for _ in range(_MAX_TRIES):
        rest = line[offset:]
        if anchor.folded not in fold(rest):
            return
        end = _least(len(rest), partial(_head_holds, anchor.folded, rest))
        back = _least(end, partial(_tail_holds, anchor.folded, rest[:end]))
        yield offset + end - back, offset + end
        offset += end


def _head_holds(needle: str, text: str, length: int) -> bool:
    """Say whether the first `length` characters of `text` hold `needle`, folded."""
    return needle in fold(text[:length])


def _tail_holds(needle: str, text: str, length: int) -> bool:
    """Say whether the last `length` characters of `text` hold `needle`, folded."""
    return needle in fold(text[len(text) - length :])


def _least(most: int, holds_at: Callable[[int], bool]) -> int:
    """Return the smallest number up to `most` at which a condition that stays true begins."""
    low, high = 0, most
    while low < high:
        middle = (low + high) // 2
        if holds_at(middle):
            high = middle
        else:
            low = middle + 1
    return low


def _around(line: str, start: int, end: int, side: int) -> str:
    """Return the span and `side` characters about it, no word or number cut, cuts marked."""
    first, last = max(start - side, 0), min(end + side, len(line))
    while 0 < first < start and _is_joined(line[first - 1], line[first]):
        first += 1
    while end < last < len(line) and _is_joined(line[last - 1], line[last]):
        last -= 1
    head = _CUT if line[:first].strip() else ""
    tail = _CUT if line[last:].strip() else ""
    return head + line[first:last].strip() + tail


def _is_joined(before: str, after: str) -> bool:
    """Say whether a cut between two characters would go through a word or a number."""
    return _is_of_word(before) and _is_of_word(after)


def _is_of_word(letter: str) -> bool:
    """Say whether a character belongs to a Latin word or a number, its signs included."""
    return (letter.isalnum() and not "\u3040" <= letter <= "\u9fff") or letter in "._-/,:"


def _anchor_at(text: str, place: Place) -> Anchor:
    """Return the anchor at a place of `text`."""
    piece = text[place.start : place.end]
    shown = text[place.start - 1 : place.end + 1] if place.kind == "quoted" else piece
    return Anchor(kind=place.kind, text=shown, folded=fold(piece))
