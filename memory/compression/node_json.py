"""Finding JSON objects in what a model wrote, and mending those that are only slightly bent."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any, Final

import re2

_TOKEN = re2.compile(r'"(?:[^"\\]|\\(?s:.))*"|[{}\[\],:]|[^\s{}\[\],:"]+|"')
_CLOSERS: Final = {"{": "}", "[": "]"}
_BROKEN_OFF: Final = '"'
_MOST_STARTS: Final = 8
_MOST_DEEP: Final = 12
_MUST_BE_WHOLE: Final = "open_items"
_DECODER = json.JSONDecoder(strict=False)


def objects_in(text: str) -> Iterator[dict[str, Any]]:
    """Yield the JSON objects in `text`, mended where that is safe; never raises.

    Commas before a closing bracket are dropped. One that breaks off is closed after its last whole
    element, but only if it names its open items and does not break off in them. At most eight
    places are tried, each in linear time.
    """
    at = 0
    for _ in range(_MOST_STARTS):
        at = text.find("{", at)
        if at < 0:
            return
        value, end = _whole(text, at)
        if value is None:
            value, end = _mended(text, at), at + 1
        if value is not None:
            yield value
        at = end


def _whole(text: str, at: int) -> tuple[dict[str, Any] | None, int]:
    """Return the object that begins at `at` and where it ends, or None."""
    try:
        value, end = _DECODER.raw_decode(text, at)
    except (ValueError, RecursionError):
        return None, at + 1
    return value, end


def _mended(text: str, at: int) -> dict[str, Any] | None:
    """Return the object that begins at `at`, mended, or None if it cannot be or should not be."""
    pieces, open_brackets = _pieces(text[at:])
    if not pieces:
        return None
    closing = "".join(_CLOSERS[bracket] for bracket in reversed(open_brackets))
    try:
        value = json.loads("".join(pieces) + closing, strict=False)
    except (ValueError, RecursionError):
        return None
    if not isinstance(value, dict) or (open_brackets and not _is_safe(value)):
        return None
    return value


def _is_safe(value: dict[str, Any]) -> bool:
    """Say whether an object that broke off had all its open items: another key came after them."""
    return _MUST_BE_WHOLE in list(value)[:-1]


def _pieces(text: str) -> tuple[list[str], list[str]]:
    """Return the tokens of the first object up to its end or its last whole element.

    With them the brackets still open there; no tokens if brackets do not match or nest too deep.
    """
    reading = _Reading()
    for found in _TOKEN.finditer(text):
        piece = found.group()
        if piece == _BROKEN_OFF:
            break
        if not reading.take(piece):
            return [], []
        if not reading.stack:
            return reading.pieces, []
    return reading.pieces[: reading.whole_pieces], reading.whole_stack


@dataclass(slots=True)
class _Reading:
    """The tokens read so far, the brackets open, and both as they were after a whole element."""

    pieces: list[str] = field(default_factory=list)
    stack: list[str] = field(default_factory=list)
    whole_pieces: int = 0
    whole_stack: list[str] = field(default_factory=list)

    def take(self, piece: str) -> bool:
        """Take the next token; False if it cannot stand here."""
        if piece in _CLOSERS.values():
            return self._close(piece)
        if piece == ",":
            self._mark()
        elif piece in _CLOSERS:
            self.stack.append(piece)
        self.pieces.append(piece)
        return len(self.stack) <= _MOST_DEEP

    def _close(self, piece: str) -> bool:
        """Close a bracket, without the comma before it."""
        if not self.stack or _CLOSERS[self.stack.pop()] != piece:
            return False
        if self.pieces[-1] == ",":
            self.pieces.pop()
        self.pieces.append(piece)
        self._mark()
        return True

    def _mark(self) -> None:
        self.whole_pieces, self.whole_stack = len(self.pieces), self.stack.copy()
