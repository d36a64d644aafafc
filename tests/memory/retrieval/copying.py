"""Copies of shelves made from texts alone, for tests of what is computed on them."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime, timedelta

import numpy as np

from memory.retrieval.codes import Vector, code_dtype, code_of, missing_code
from memory.retrieval.records import HEAD, Described, pack
from memory.retrieval.shelf_copy import ID_BYTES, ShelfCopy
from tests.factories import NOW

DIMENSIONS = 8


def copy_of(
    texts: Sequence[str],
    *,
    sessions: Sequence[str] | None = None,
    days_ago: Sequence[float] | None = None,
    speakers: Sequence[str | None] | None = None,
    vectors: Sequence[Vector | None] | None = None,
) -> ShelfCopy:
    """Return a copy whose entries stand in the order of `texts`, a minute apart."""
    records = [
        pack(
            Described(
                kind="recall",
                text=text,
                session=sessions[place] if sessions else "one",
                place=place,
                said_at=_said_at(place, days_ago),
                speaker=speakers[place] if speakers else None,
            )
        )
        for place, text in enumerate(texts)
    ]
    size = HEAD.itemsize
    heads = np.frombuffer(b"".join(record[:size] for record in records), dtype=HEAD)
    return ShelfCopy(
        shelf_id="shelf",
        version=1,
        generation=0,
        model_id="model" if vectors else None,
        ids=np.array([f"{place:0{ID_BYTES}d}".encode() for place in range(len(texts))]),
        heads=heads,
        words=np.frombuffer(b"".join(record[size:] for record in records), dtype="<u4"),
        ends=np.cumsum(heads["words"].astype(np.int64)),
        codes=_codes(vectors),
    )


def _said_at(place: int, days_ago: Sequence[float] | None) -> datetime:
    ago = timedelta(days=days_ago[place]) if days_ago else timedelta(days=1)
    return NOW - ago + timedelta(minutes=place)


def _codes(vectors: Sequence[Vector | None] | None) -> np.ndarray | None:
    if vectors is None:
        return None
    made = [missing_code(DIMENSIONS) if one is None else code_of(one) for one in vectors]
    return np.frombuffer(b"".join(made), dtype=code_dtype(DIMENSIONS))


def axis(number: int, *, toward: int | None = None, share: float = 0.0) -> Vector:
    """Return a unit vector along one axis, turned by a share toward another."""
    vector = np.zeros(DIMENSIONS, dtype=np.float32)
    vector[number] = 1.0
    if toward is not None:
        vector[number], vector[toward] = 1 - share, share
    return (vector / np.linalg.norm(vector)).astype(np.float32)
