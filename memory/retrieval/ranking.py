"""Ranking the entries of one shelf for a question: a weighted sum of named parts. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from memory.retrieval.codes import Vector
from memory.retrieval.question import Question
from memory.retrieval.shelf_copy import ShelfCopy

Floats = NDArray[np.float32]


@dataclass(frozen=True)
class Ranked:
    """One number an entry, in the order of the shelf copy.

    Attributes:
        relevance: Calibrated, 0 to 1: comparable between questions and shelves.
        parts: What it is made of, by name.
        keyword_count: How many entries have one of the words.
        vector_count: How many entries have a vector that was compared.
    """

    relevance: Floats
    parts: Mapping[str, Floats]
    keyword_count: int
    vector_count: int


def rank(
    copy: ShelfCopy,
    question: Question,
    *,
    vector: Vector | None,
    cosines: Floats | None = None,
    has_keywords: bool = True,
) -> Ranked:
    """Return how relevant each entry is.

    Args:
        copy: The shelf.
        question: What is asked.
        vector: Its unit vector by the copy's model; None to rank by words alone.
        cosines: Used instead of comparing `vector` with the copy's codes (NaN where unknown).
        has_keywords: False to rank by meaning alone.
    """
    cosines = _cosines(copy, vector) if cosines is None else cosines
    count = len(copy)
    keyword = np.zeros(count, dtype=np.float32)
    if has_keywords:
        for word in question.words:
            rows = np.unique(copy.rows_of_words[copy.words == word])
            if len(rows):
                keyword[rows] += np.log(1 + count / len(rows))
    meaning = np.nan_to_num(cosines)
    most = keyword.max(initial=0)
    relevance = 0.5 * keyword / (most or 1) + 0.5 * np.clip(meaning, 0, 1)
    return Ranked(
        relevance=relevance.astype(np.float32),
        parts={"words": keyword, "meaning": meaning},
        keyword_count=int((keyword > 0).sum()),
        vector_count=int((~np.isnan(cosines)).sum()),
    )


def _cosines(copy: ShelfCopy, vector: Vector | None) -> Floats:
    if vector is None or copy.codes is None:
        return np.full(len(copy), np.nan, dtype=np.float32)
    steps = copy.codes["steps"].astype(np.float32)
    found: Floats = steps @ vector * copy.codes["scale"]
    found[copy.codes["scale"] == 0] = np.nan
    return found
