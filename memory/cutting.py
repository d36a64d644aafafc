"""Fitting one remembered text into its tokens: whole, cut with a mark, or not at all. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from memory.sanitize import sanitize
from memory.tokens import estimate, truncate_middle

BARE_MARK: Final = "…"
# Fewer tokens of a text than these beside its mark say nothing.
_LEAST_TEXT_TOKENS: Final = 4


@dataclass(frozen=True, slots=True, kw_only=True)
class FittedText:
    """A cleaned text as a prompt shows it; `left_out_tokens` is 0 only if it is whole."""

    text: str
    left_out_tokens: int = 0

    @property
    def is_cut(self) -> bool:
        """Whether some of it is missing."""
        return self.left_out_tokens > 0


def fit_text(text: str, *, most: int, marks: Sequence[str]) -> FittedText | None:
    """Return `text` cleaned and within `most` tokens, its middle replaced by a mark if need be.

    The first of `marks` that leaves room for some of the text is used: nothing is cut without one.
    What is left out is counted before cleaning, which can lengthen a text. Cost: one estimate of
    the whole text; only what remains of it is cleaned.

    Returns:
        None if no mark and a few characters fit, so that the text has no place at all.
    """
    cost = estimate(text)
    if cost <= most:
        text = sanitize(text).text
        cost = estimate(text)
        if cost <= most:
            return FittedText(text=text)
    for mark in marks:
        fitted = _shortened(text, cost, most, mark)
        if fitted:
            return fitted
    return None


def _shortened(text: str, cost: int, most: int, mark: str) -> FittedText | None:
    """Cut, clean, and cut the original shorter while cleaning made too much of it."""
    least = estimate(mark) + _LEAST_TEXT_TOKENS
    room = most
    while room >= least:
        cut = truncate_middle(text, max_tokens=room, mark=mark)
        if len(cut) <= len(mark):  # one inseparable character larger than the room
            return None
        piece = sanitize(cut).text
        if mark not in piece:  # it stood inside of what was neutralised
            piece += BARE_MARK
        tokens = estimate(piece)
        if tokens <= most:
            return FittedText(text=piece, left_out_tokens=max(cost - estimate(cut), 1))
        room = min(room - 1, room * most // tokens)
    return None
