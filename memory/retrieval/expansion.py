"""Other names of what a question names: what is called otherwise in a text is found all the same. Pure.

An entry that has all words of another name counts as if it had those of the name in the question;
entries that speak of an entity at all gain besides, the more the more its weight is.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from math import log2
from typing import Final

import numpy as np
from numpy.typing import NDArray

from memory.retrieval.neighbourhood import Floats, Neighbourhood
from memory.retrieval.shelf_copy import ShelfCopy
from memory.retrieval.signals import WordCounts, count_words, weight_of
from memory.retrieval.words import hashed, words_of

MOST_ENTITIES: Final = 8
MOST_NAMES: Final = 12
# What weight counts for at most, and what a weight of one is worth, in x of ranking.
_MOST_WEIGHT: Final = 8.0
_WORTH: Final = np.float32(0.5)
# How much more a short name may count for, since a longer one says the same.
_MOST_TIMES: Final = 6.0


@dataclass(frozen=True, slots=True, kw_only=True)
class NamedEntity:
    """An entity that a question names.

    Attributes:
        said: Its names that stand in the question.
        others: Its other names.
    """

    id: str
    weight: float
    said: tuple[str, ...]
    others: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Expansion:
    """The entities that a question names, the weightiest first."""

    entities: tuple[NamedEntity, ...] = ()

    def __bool__(self) -> bool:
        """Say whether it names any."""
        return bool(self.entities)


NOBODY: Final = Expansion()


@dataclass(frozen=True)
class Meant:
    """What entries say once other names are taken for those asked for.

    Attributes:
        found: The counts of the question's words.
        gain: What each entry, by place, gains by speaking of an entity.
        by_other: How far each entry, by place, names one otherwise than the question, 0 to 1.
    """

    found: WordCounts
    gain: Floats
    by_other: Floats


def with_names(
    found: WordCounts, copy: ShelfCopy, places: Neighbourhood, expansion: Expansion
) -> Meant:
    """Return the counts as they are with other names taken for those asked for.

    A short name stands for as much of the question as the longest one that the shelf knows. Cost:
    one more pass over the shelf's words for each entity.
    """
    gain = np.zeros(len(copy), dtype=np.float32)
    by_other = np.zeros(len(copy), dtype=np.float32)
    for entity in expansion.entities:
        names = [*entity.said, *entity.others][:MOST_NAMES]
        counted = count_words(copy, places, _words_of_all(names))
        others, mass = _names_in(counted, entity.others)
        said, _ = _names_in(counted, entity.said)
        worth = _WORTH * np.float32(log2(1 + min(entity.weight, _MOST_WEIGHT)))
        gain = np.maximum(gain, worth * np.maximum(said, others))
        if others.any():
            strength = others * np.float32(min(entity.weight, 1.0))
            by_other = np.maximum(by_other, strength * (1 - said))
            found = _counted(found, _words_of_all(entity.said), strength, mass)
    return Meant(found, gain, by_other)


def _words_of_all(names: Sequence[str]) -> NDArray[np.uint32]:
    words = [word for name in names for word in words_of(name)]
    return np.unique(hashed(words))


def _names_in(counted: WordCounts, names: Sequence[str]) -> tuple[Floats, float]:
    """Return 1 for each entry, by place, that has all words of one of the names, else 0.

    And how telling the longest of the names is that the shelf knows, 0 where it knows none.
    """
    has = np.zeros(counted.counts.shape[1], dtype=bool)
    most = 0.0
    for name in names:
        words = _words_of_all((name,))
        rows = np.flatnonzero(np.isin(counted.words, words))
        if not len(words) or len(rows) < len(words):
            continue
        whole = (counted.counts[rows] > 0).all(axis=0)
        if whole.any():
            has |= whole
            most = max(most, float(counted.weights[rows].sum()))
    return has.astype(np.float32), most


def _counted(
    found: WordCounts, words: NDArray[np.uint32], strength: Floats, mass: float
) -> WordCounts:
    """Return the counts with some words in the entries where `strength` says they are meant.

    Together they weigh as much as `mass`, where that is more, up to six times what they do alone.
    """
    known = np.isin(words, found.words)
    asked = np.fromiter(found.unknown, dtype=np.uint32, count=len(found.unknown))
    new = words[~known & np.isin(words, asked)]
    rows = np.flatnonzero(np.isin(found.words, words))
    size = found.counts.shape[1]
    counts = np.concatenate([found.counts, np.zeros((len(new), size), dtype=np.float32)])
    changed = np.concatenate([rows, np.arange(len(found.words), len(counts))]).astype(np.intp)
    if not len(changed):
        return found
    counts[changed] = np.maximum(counts[changed], strength)
    having = (counts[changed] > 0).sum(axis=1)
    weights = np.concatenate([found.weights, np.zeros(len(new), dtype=np.float32)])
    before = float(weights[rows].sum()) + len(new) * float(weight_of(np.zeros(1), size)[0])
    alone = weight_of(having, size)
    factor = min(max(mass / float(alone.sum()), 1.0), _MOST_TIMES)
    weights[changed] = (alone * factor).astype(np.float32)
    return replace(
        found,
        counts=counts,
        weights=weights,
        words=np.concatenate([found.words, new]),
        whole_weight=found.whole_weight - before + float(weights[changed].sum()),
        unknown=found.unknown - frozenset(new.tolist()),
    )
