"""Distinctive phrases of a text: what to search for to see whether the text is still somewhere. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

import re2

from governance.erasure.decoding import fold
from memory import ids

_LATIN_CHARS: Final = 40
_LATIN_LEAST: Final = 20
_HAN_CHARS: Final = 14
_HAN_LEAST: Final = 8
_LEAST_DIFFERENT: Final = 7
_LONGEST_TEXT: Final = 20_000
# Our own ids and times tell nothing of a person, and stay on record.
_OURS = re2.compile(
    ids.SHAPE + r"|[0-9]{4}-[0-9]{2}-[0-9]{2}T[0-9]{2}:[0-9]{2}(:[0-9]{2}(\.[0-9]+)?)?"
    r"(Z|[+-][0-9]{2}:?[0-9]{2})?"
)
_HAN = re2.compile(r"[\p{Han}\p{Hiragana}\p{Katakana}\p{Hangul}，、：；“”‘’0-9]{8,}")
_LATIN = re2.compile(r"[\p{Latin}\p{Cyrillic}\p{Greek}0-9 ,;:'’@./()+-]{20,}")


def phrases_of(text: str) -> tuple[str, ...]:
    """Return at most one phrase in letters with words and one without, from the middle; folded.

    A text with nothing distinctive ("ok, thanks") gives none. Linear; looks at 20,000 characters.
    """
    middle = max(0, (len(text) - _LONGEST_TEXT) // 2)
    text = _OURS.sub("\n", text[middle : middle + _LONGEST_TEXT])
    found = (_from(_LATIN.findall(text), _latin), _from(_HAN.findall(text), _han))
    return tuple(phrase for phrase in found if phrase)


def strings_in(value: Any) -> Iterator[str]:
    """Yield every string inside a value of JSON; its keys are ours, not a person's."""
    if isinstance(value, str):
        yield value
    elif isinstance(value, Mapping):
        for inner in value.values():
            yield from strings_in(inner)
    elif isinstance(value, Sequence) and not isinstance(value, bytes):
        for inner in value:
            yield from strings_in(inner)


def _from(stretches: list[str], cut: Any) -> str:
    """Cut from the longest stretch; if that is not distinctive, from the next ones."""
    for stretch in sorted(stretches, key=len, reverse=True)[:4]:
        phrase: str = fold(cut(stretch.strip()))
        if len(set(phrase)) >= _LEAST_DIFFERENT and not phrase.replace(" ", "").isdigit():
            return phrase
    return ""


def _latin(stretch: str) -> str:
    """Cut about 40 characters from the middle, whole words only."""
    if len(stretch) > _LATIN_CHARS:
        start = (len(stretch) - _LATIN_CHARS) // 2
        piece = stretch[start : start + _LATIN_CHARS]
        words = piece.split(" ")
        stretch = " ".join(words[1:-1]) if len(words) > 3 else piece
    return stretch if len(stretch.strip()) >= _LATIN_LEAST else ""


def _han(stretch: str) -> str:
    start = max(0, (len(stretch) - _HAN_CHARS) // 2)
    piece = stretch[start : start + _HAN_CHARS]
    return piece if len(piece) >= _HAN_LEAST else ""
