"""A copy of one shelf in memory: numbers alone, no text. Pure."""

from __future__ import annotations

from dataclasses import dataclass, replace
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
        codes: One code an entry (memory.retrieval.codes); scale 0 where a vector is missing. None
            while the shelf has no vector of the model, and for a shelf with too many to compare.
        is_damaged: Some record is not as it was packed, so no entry has words here.
        is_big: It has more entries than are all compared.
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
    is_damaged: bool = False
    is_big: bool = False

    def __len__(self) -> int:
        return len(self.ids)

    @property
    def nbytes(self) -> int:
        """What the copy takes in memory, with what it works out on first use."""
        codes = 0 if self.codes is None else self.codes.nbytes
        return self.ids.nbytes + self.heads.nbytes * 2 + self.words.nbytes * 2 + codes

    @cached_property
    def rows_of_words(self) -> NDArray[np.int32]:
        """Which entry each of `words` belongs to."""
        lengths = np.diff(self.ends, prepend=0)
        return np.repeat(np.arange(len(self.ids), dtype=np.int32), lengths)

    @cached_property
    def order(self) -> NDArray[np.int64]:
        """Entries by session, then place: neighbours stand side by side."""
        return np.lexsort((self.heads["place"], self.heads["session"]))

    @cached_property
    def order_of_ids(self) -> NDArray[np.int64]:
        """Entries by id, for finding some by theirs."""
        return np.argsort(self.ids)

    def rows_of(self, ids: NDArray[np.bytes_]) -> NDArray[np.int64]:
        """Return the row of each id, -1 where the copy has none. Cost: a binary search each."""
        if not len(self.ids):
            return np.full(len(ids), -1, dtype=np.int64)
        at = np.searchsorted(self.ids, ids, sorter=self.order_of_ids)
        rows = self.order_of_ids[np.minimum(at, len(self.ids) - 1)]
        return np.where(self.ids[rows] == ids, rows, -1)

    @property
    def lacking(self) -> list[str]:
        """Ids of the entries without a vector."""
        if self.codes is None:
            return []
        return [found.decode() for found in self.ids[self.codes["scale"] == 0]]


@dataclass(frozen=True, kw_only=True)
class ShelfRows:
    """Entries of a shelf as they were read, in order, and vectors that came after theirs.

    Attributes:
        version: What a copy holds once it has these.
        codes: One an entry; None if not one of them has a vector.
        late_ids: Entries of the copy whose vectors are in `late_codes`.
    """

    version: int
    generation: int
    ids: NDArray[np.bytes_]
    heads: NDArray[np.void]
    words: NDArray[np.uint32]
    ends: NDArray[np.int64]
    codes: NDArray[np.void] | None
    is_damaged: bool
    late_ids: NDArray[np.bytes_]
    late_codes: NDArray[np.void] | None


def empty_copy(*, shelf_id: str, model_id: str | None) -> ShelfCopy:
    """Return the copy of a shelf of which nothing was read."""
    return ShelfCopy(
        shelf_id=shelf_id,
        version=-1,
        generation=-1,
        model_id=model_id,
        ids=np.zeros(0, dtype=f"S{ID_BYTES}"),
        heads=np.zeros(0, dtype=HEAD),
        words=np.zeros(0, dtype=np.uint32),
        ends=np.zeros(0, dtype=np.int64),
        codes=None,
    )


def extended(copy: ShelfCopy, rows: ShelfRows, *, most_codes: int) -> ShelfCopy:
    """Return a copy with more rows behind its own and late vectors in their places.

    Past `most_codes` entries it has no vectors. Cost: one pass over the memory it takes.
    """
    is_big = len(copy) + len(rows.ids) > most_codes
    is_damaged = copy.is_damaged or rows.is_damaged
    words = np.concatenate([copy.words, rows.words])
    last = copy.ends[-1] if len(copy) else 0
    ends = np.concatenate([copy.ends, rows.ends + last])
    return replace(
        copy,
        version=rows.version,
        generation=rows.generation,
        ids=np.concatenate([copy.ids, rows.ids]),
        heads=np.concatenate([copy.heads, rows.heads]),
        words=words[:0] if is_damaged else words,
        ends=np.zeros_like(ends) if is_damaged else ends,
        codes=None if is_big else _joined_codes(copy, rows),
        is_damaged=is_damaged,
        is_big=is_big,
    )


def _joined_codes(copy: ShelfCopy, rows: ShelfRows) -> NDArray[np.void] | None:
    kept = next((codes for codes in (copy.codes, rows.codes) if codes is not None), None)
    if kept is None:
        return None
    codes = np.zeros(len(copy) + len(rows.ids), dtype=kept.dtype)
    for part, at in ((copy.codes, 0), (rows.codes, len(copy))):
        # A code of another length is of no use beside the others: as good as missing.
        if part is not None and part.dtype == codes.dtype:
            codes[at : at + len(part)] = part
    if rows.late_codes is not None and rows.late_codes.dtype == codes.dtype:
        at_rows = copy.rows_of(rows.late_ids)
        codes[at_rows[at_rows >= 0]] = rows.late_codes[at_rows >= 0]
    return codes
