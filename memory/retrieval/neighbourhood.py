"""A shelf by sessions: which entries stand side by side. Pure; computed once a copy."""

from __future__ import annotations

from functools import cached_property
from typing import Final

import numpy as np
from numpy.typing import NDArray

from memory.retrieval.records import KINDS

Floats = NDArray[np.float32]
_DOCUMENT: Final = KINDS.index("knowledge")
_SESSION_GAP_SECONDS: Final = 8 * 3600
_SECOND_NEIGHBOUR: Final = 0.4
_FIRST_NEIGHBOUR: Final = 0.7


class Neighbourhood:
    """The entries of a shelf in their order, and what stands beside each.

    `place` below is an entry's number in that order.
    """

    def __init__(self, *, heads: NDArray[np.void], order: NDArray[np.int64]) -> None:
        """Cut the shelf where the thread or document changes, or hours pass.

        Args:
            heads: One HEAD an entry.
            order: The entries by session, then place.
        """
        self.order = order
        heads = heads[order]
        session, said_at = heads["session"], heads["said_at"]
        is_first = np.ones(len(heads), dtype=bool)
        if len(heads) > 1:
            gap = np.abs(np.diff(said_at)) > _SESSION_GAP_SECONDS
            is_first[1:] = (np.diff(session) != 0) | gap
        self.starts = np.flatnonzero(is_first)
        self.segment = np.cumsum(is_first) - 1
        # A stretch of a document says itself what it says; its headings are part of it.
        is_beside = ~is_first & (heads["kind"] != _DOCUMENT)
        self.has_previous = is_beside
        self.has_next = np.append(is_beside[1:], False) if len(heads) else is_beside
        self.place_of_row = np.empty(len(heads), dtype=np.int64)
        self.place_of_row[self.order] = np.arange(len(heads))
        self.heads = heads
        self.lengths = heads["words"].astype(np.float32)

    def previous(self, values: Floats, *, steps: int = 1) -> Floats:
        """Return what stands `steps` before each entry in its session, 0 where nothing does."""
        for _ in range(steps):
            moved = np.zeros_like(values)
            moved[..., 1:] = values[..., :-1]
            values = moved * self.has_previous
        return values

    def following(self, values: Floats, *, steps: int = 1) -> Floats:
        """Return what stands `steps` after each entry in its session, 0 where nothing does."""
        for _ in range(steps):
            moved = np.zeros_like(values)
            moved[..., :-1] = values[..., 1:]
            values = moved * self.has_next
        return values

    @cached_property
    def far_lengths(self) -> Floats:
        """Words of each entry with two neighbours on each side, the farther the less."""
        return self.spread_out(self.lengths)

    @cached_property
    def session_lengths(self) -> Floats:
        """Words of each session."""
        found: Floats = np.add.reduceat(self.lengths, self.starts)
        return found

    def spread_out(self, values: Floats) -> Floats:
        """Return values with two neighbours' on each side, the farther the less."""
        near = self.previous(values) + self.following(values)
        far = self.previous(values, steps=2) + self.following(values, steps=2)
        out: Floats = values + _FIRST_NEIGHBOUR * near + _SECOND_NEIGHBOUR * far
        return out
