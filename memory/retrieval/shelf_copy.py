"""A copy of one shelf in memory: numbers alone, no text. Pure."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from memory.retrieval.records import HEAD

ID_BYTES = 30  # idx_ and 26 characters


@dataclass(frozen=True)
class ShelfCopy:
    """All entries of a shelf in the order they came (by version, then id).

    Attributes:
        shelf_id: The shelf's id.
        version: The shelf's version that the copy holds.
        generation: The shelf's generation.
        model_id: Whose vectors `codes` are; None where it has none.
        ids: Index entries' ids, as bytes of 30.
        heads: One HEAD an entry.
        words: The entries' words, one after the other.
        ends: Where each entry's words end.
        codes: One code an entry (memory.retrieval.codes); scale 0 where a vector is missing.
    """

    shelf_id: str
    version: int
    generation: int
    model_id: str | None
    ids: NDArray[np.bytes_]
    heads: NDArray[np.void]
    words: NDArray[np.uint32]
    ends: NDArray[np.int64]
    codes: NDArray[np.void] | None

    def __len__(self) -> int:
        return len(self.ids)

    @property
    def nbytes(self) -> int:
        """What the copy takes in memory."""
        codes = 0 if self.codes is None else self.codes.nbytes
        return self.ids.nbytes + self.heads.nbytes + self.words.nbytes * 2 + codes

    @cached_property
    def rows_of_words(self) -> NDArray[np.int32]:
        """Which entry each of `words` belongs to."""
        lengths = np.diff(self.ends, prepend=0)
        return np.repeat(np.arange(len(self.ids), dtype=np.int32), lengths)

    @cached_property
    def order(self) -> NDArray[np.int64]:
        """Entries by session, then place: neighbours stand side by side."""
        return np.lexsort((self.heads["place"], self.heads["session"]))


def parse_records(records: bytes) -> tuple[NDArray[np.void], NDArray[np.uint32], NDArray[np.int64]]:
    """Return heads, words and word ends of records one after the other (memory.retrieval.records).

    Cost: a loop of numbers over the entries; about 1 µs each.
    """
    size, at, total = HEAD.itemsize, 0, len(records)
    view = np.frombuffer(records, dtype=np.uint8)
    starts = []
    counts = []
    while at < total:
        count = int.from_bytes(records[at : at + 4], "little")
        starts.append(at)
        counts.append(count)
        at += size + 4 * count
    begin = np.array(starts, dtype=np.int64)
    heads = (
        view[begin[:, None] + np.arange(size)].copy().view(HEAD).reshape(-1)
        if starts
        else (np.zeros(0, dtype=HEAD))
    )
    is_word = np.ones(total, dtype=bool)
    is_word[(begin[:, None] + np.arange(size)).reshape(-1)] = False
    words = view[is_word].view("<u4").astype(np.uint32, copy=False)
    return heads, words, np.cumsum(np.array(counts, dtype=np.int64))
