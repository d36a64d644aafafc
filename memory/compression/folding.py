"""Folding texts so that the same words compare equal, and finding one text inside another. Pure."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterator
from typing import Final

_MAX_ROUNDS: Final = 5
# Powers and indices would melt into the number before them, fractions into one number.
_KEPT_APART: Final = {
    **{ord(sign): f"^{digit}" for digit, sign in enumerate("⁰¹²³⁴⁵⁶⁷⁸⁹")},
    **{ord(sign): f"_{digit}" for digit, sign in enumerate("₀₁₂₃₄₅₆₇₈₉")},
    **{ord(sign): f" {sign}" for sign in "½⅓⅔¼¾⅕⅖⅗⅘⅙⅚⅛⅜⅝⅞"},
    **dict.fromkeys((0x200B, 0x200C, 0x200D, 0x2060, 0xFEFF, 0x00AD)),
}
_HAS_KEPT_APART: Final = re.compile(f"[{''.join(map(chr, _KEPT_APART))}]")
_HAN_KANA: Final = "\u3040-\u30ff\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff"
# Whether a blank stands between Chinese and other words, or after a comma, is taste, and models
# change it; only between two figures it says that they are two. (The blank first: it is fast.)
_BLANK_OF_TASTE: Final = re.compile(
    f" (?:(?=[{_HAN_KANA}])|(?<=[{_HAN_KANA}] )|(?<=[^0-9], )|(?<=, )(?=[^0-9]))"
)
# A needle that stands this often inside of longer words is not looked for any further.
_MAX_TRIES: Final = 64


def fold(text: str) -> str:
    """Return `text` with width, case, blanks and line breaks made alike; idempotent, linear.

    Blanks beside Chinese or Japanese characters and behind commas go, but for those between two
    figures; powers stay apart from their base.
    """
    for _ in range(_MAX_ROUNDS):
        once = _fold_once(text)
        if once == text:
            break
        text = once
    return text


def _fold_once(text: str) -> str:
    """Return `text` folded once; a second round sees what the first brought side by side."""
    if text.isascii():
        return _BLANK_OF_TASTE.sub("", " ".join(text.lower().split()))
    wide = text.replace("，", ", ")
    if _HAS_KEPT_APART.search(wide):
        wide = wide.translate(_KEPT_APART)
    wide = unicodedata.normalize("NFKC", unicodedata.normalize("NFKC", wide).casefold())
    return _BLANK_OF_TASTE.sub("", " ".join(wide.split()))


def holds(*, needle: str, text: str, is_word: bool) -> bool:
    """Say whether `text` holds `needle`, both folded, without cutting through a number.

    With `is_word` letters and digits may not touch its ends either. Empty needles are held.
    """
    return not needle or any(
        is_apart(text, start, start + len(needle), is_word=is_word)
        for start in _places(needle, text)
    )


def is_apart(text: str, start: int, end: int, *, is_word: bool) -> bool:
    """Say whether the span of `text` is not a piece of a longer number (or word)."""
    before, after = text[max(start - 2, 0) : start], text[end : end + 2]
    return not (
        _runs_on(text[start], before[::-1], is_word) or _runs_on(text[end - 1], after, is_word)
    )


def _runs_on(edge: str, beyond: str, is_word: bool) -> bool:  # noqa: FBT001
    """Say whether what begins with `beyond` (nearest first) belongs to the same number or word."""
    nearest = beyond[:1]
    if is_word and edge.isascii() and edge.isalnum() and nearest.isascii() and nearest.isalnum():
        return True
    if not edge.isdigit():
        return False
    return nearest.isdigit() or (nearest in {".", ","} and beyond[1:2].isdigit())


def _places(needle: str, text: str) -> Iterator[int]:
    """Yield where `needle` begins in `text`, the first few places."""
    start = text.find(needle)
    for _ in range(_MAX_TRIES):
        if start < 0:
            return
        yield start
        start = text.find(needle, start + 1)
