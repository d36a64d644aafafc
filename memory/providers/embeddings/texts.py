"""What of a text a model reads: nothing it chokes on, and of a long one its beginning and end. Pure."""

from __future__ import annotations

import re
from typing import Final

_BETWEEN: Final = " … "
_HEAD_SHARE: Final = 2 / 3
_SENTENCE_END: Final = re.compile(r"(?<=[.!?。！？])\s*")
_LEAST_SENTENCE: Final = 2
_MOST_SENTENCES: Final = 8


def sentences_of(text: str) -> list[str]:
    """Return the sentences of a question, in order; one that has no end counts as one. Linear."""
    parts = (part.strip() for part in _SENTENCE_END.split(text))
    return [part for part in parts if len(part) >= _LEAST_SENTENCE]


def question_parts(text: str, *, most_characters: int) -> list[str]:
    """Return what of a question is embedded: all of it, and of several sentences the last eight.

    One vector of a whole passage is a blur; with its sentences beside it finds 3 to 5 points more
    of what was meant (docs/evaluation.md). Empty for a blank question.
    """
    whole = readable(text, most_characters=most_characters)
    sentences = sentences_of(whole)
    if len(sentences) < 2:
        return [whole] if whole else []
    return [whole, *sentences[-_MOST_SENTENCES:]]


def readable(text: str, *, most_characters: int) -> str:
    """Return a text without lone surrogates and NUL, cut in the middle if it is long.

    Cost: that of copying it.

    Args:
        text: Any text.
        most_characters: What may be left of it; two thirds of that are its beginning.
    """
    short = _cut(text, most_characters)
    return short.encode("utf-8", "replace").decode("utf-8").replace("\x00", " ").strip()


def _cut(text: str, most: int) -> str:
    if len(text) <= most:
        return text
    room = most - len(_BETWEEN)
    head = int(room * _HEAD_SHARE)
    return f"{text[:head]}{_BETWEEN}{text[len(text) - (room - head) :]}"
