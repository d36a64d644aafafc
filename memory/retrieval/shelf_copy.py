"""A copy of one shelf in memory: numbers alone, no text. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from memory.retrieval.neighbourhood import Neighbourhood
from memory.retrieval.records import HEAD

ID_BYTES = 30  # idx_ and 26 characters


@dataclass(frozen=True)
class ShelfCopy:
    """All entries of a shelf; those of a later reading stand behind those of an earlier one.

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
    def places(self) -> Neighbourhood:
        """The entries by sessions."""
        return Neighbourhood(heads=self.heads, order=self.order)

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
    """Entries of a shelf as they were read; a copy that has them holds `version`.

    `ends` is None if a record is damaged.
    """

    version: int
    generation: int
    ids: NDArray[np.bytes_]
    heads: NDArray[np.void]
    words: NDArray[np.uint32]
    ends: NDArray[np.int64] | None


def empty_copy(*, shelf_id: str, model_id: str | None) -> ShelfCopy:
    """Return the copy of a shelf of which nothing was read."""
    return ShelfCopy(
        shelf_id=shelf_id,
        version=-1,
        generation=-1,
        model_id=model_id,
        ids=as_ids(()),
        heads=np.zeros(0, dtype=HEAD),
        words=np.zeros(0, dtype=np.uint32),
        ends=np.zeros(0, dtype=np.int64),
        codes=None,
    )


def as_ids(ids: Sequence[str]) -> NDArray[np.bytes_]:
    """Return index entries' ids as a copy holds them."""
    return np.array(ids, dtype=f"S{ID_BYTES}")


def parse_records(
    records: Sequence[bytes],
) -> tuple[NDArray[np.void], NDArray[np.uint32], NDArray[np.int64] | None]:
    """Return heads, words and word ends of records (memory.retrieval.records).

    Cost: under 1 µs each.

    Returns:
        No words and no ends if one record is not as it was packed.
    """
    size = HEAD.itemsize
    heads = np.frombuffer(b"".join([record[:size].ljust(size, b"\0") for record in records]), HEAD)
    counts = heads["words"].astype(np.int64)
    lengths = np.fromiter(map(len, records), dtype=np.int64, count=len(records))
    if (lengths != size + 4 * counts).any():
        return heads, np.zeros(0, np.uint32), None
    words = np.frombuffer(b"".join([record[size:] for record in records]), dtype="<u4")
    return heads, words.astype(np.uint32, copy=False), np.cumsum(counts)


def extended(copy: ShelfCopy, rows: ShelfRows) -> ShelfCopy:
    """Return a copy with more rows behind its own, still without vectors.

    Cost: one pass over the memory it takes.
    """
    is_damaged = copy.is_damaged or rows.ends is None
    count = len(copy) + len(rows.ids)
    words, ends = np.zeros(0, np.uint32), np.zeros(count, np.int64)
    if not is_damaged and rows.ends is not None:
        words = np.concatenate([copy.words, rows.words])
        ends = np.concatenate([copy.ends, rows.ends + len(copy.words)])
    return replace(
        copy,
        version=rows.version,
        generation=rows.generation,
        ids=np.concatenate([copy.ids, rows.ids]),
        heads=np.concatenate([copy.heads, rows.heads]),
        words=words,
        ends=ends,
        codes=None if copy.codes is None else _padded(copy.codes, count),
        is_damaged=is_damaged,
    )


def with_codes(
    copy: ShelfCopy, ids: NDArray[np.bytes_], codes: NDArray[np.void] | None
) -> ShelfCopy:
    """Return a copy with the vectors of some entries in their places.

    A code of another length than those it has is of no use beside them: as good as missing.
    """
    if codes is None or (copy.codes is not None and copy.codes.dtype != codes.dtype):
        return copy
    placed = _padded(codes[:0] if copy.codes is None else copy.codes, len(copy))
    rows = copy.rows_of(ids)
    placed[rows[rows >= 0]] = codes[rows >= 0]
    return replace(copy, codes=placed)


def without_codes(copy: ShelfCopy) -> ShelfCopy:
    """Return the copy of a shelf that has too many entries to compare."""
    return replace(copy, codes=None, is_big=True)


def _padded(codes: NDArray[np.void], count: int) -> NDArray[np.void]:
    longer = np.zeros(count, dtype=codes.dtype)
    longer[: len(codes)] = codes
    return longer
