"""How the tools show a piece of a longer text, and a time."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from typing import Final

MOST_EXCERPT_CHARACTERS: Final = 200
_SHARE_BEFORE_HIT: Final = 0.3


@dataclass(frozen=True, slots=True, kw_only=True)
class Stretch:
    """A piece of a longer text around a hit.

    `before` characters of the text stand before the piece, `length` is that of the whole text, and
    `hit` is where the hit begins in the piece.
    """

    piece: str
    before: int
    length: int
    hit: int = 0

    def excerpt(self, *, most: int = MOST_EXCERPT_CHARACTERS) -> str:
        """Return up to `most` characters on one line, with … where something is left out."""
        start = max(self.hit - int(most * _SHARE_BEFORE_HIT), 0)
        part = self.piece[start : start + most - 2]
        line = " ".join(part.split())
        is_cut_after = self.before + start + len(part) < self.length
        head, tail = ("…" if self.before + start else ""), ("…" if is_cut_after else "")
        return f"{head}{line}{tail}"


def stamp(at: datetime) -> str:
    """Return a time as results show it, to the second, in UTC."""
    return f"{at:%Y-%m-%dT%H:%M:%SZ}"
