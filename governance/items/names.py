"""How close two names are by their letters alone: keys and titles, folded. Pure.

Words are compared one to one by what they begin with and by pairs of letters, so that standard_japan
meets standard_japanese; of names that count (chapter_3, chapter_4) other numbers are other things.
"""

from __future__ import annotations

from functools import lru_cache
from typing import Final

import re2

from memory.retrieval.words import folded

_WORD: Final = re2.compile(r"[a-z]+|[0-9]+|[^\x00-\x7f]+")
_NUMBER: Final = re2.compile(r"[0-9]+|[一二三四五六七八九十百]+")
_ASCII: Final = re2.compile(r"^[\x00-\x7f]*$")
# Words that say what kind of note it is, not of what.
_FILLERS: Final = frozenset("the an of for and to my our s".split())
_SAME_WORD: Final = 0.75
_MOST_KEPT: Final = 4_096
_STEM: Final = 4
_NUMERALS: Final = {sign: str(at) for at, sign in enumerate("一二三四五六七八九十", start=1)}
_LABELS: Final = frozenset("abcdefghijklmnopqrstuvwxyz甲乙丙丁")


def folded_name(text: str) -> str:
    """Return a key or title as it is compared: folded, words with one space between them."""
    words = _WORD.findall(folded(text.replace("_", " ")))
    return " ".join(word for word in words if word not in _FILLERS)


def count_otherwise(first: str, second: str) -> bool:
    """Say whether two folded names have other numbers, or other labels such as a and b."""
    labels, others = _labels_in(first), _labels_in(second)
    return _numbers_in(first) != _numbers_in(second) or bool(labels and others and labels != others)


@lru_cache(maxsize=_MOST_KEPT)
def _numbers_in(name: str) -> frozenset[str]:
    """Return the numbers of a name, Chinese ones up to ten as digits."""
    found = (_NUMERALS.get(one, one) for one in _NUMBER.findall(name))
    return frozenset(one.lstrip("0") for one in found)


@lru_cache(maxsize=_MOST_KEPT)
def _labels_in(name: str) -> frozenset[str]:
    single = {word for word in name.split() if word in _LABELS}
    return frozenset(single | (_LABELS & set("甲乙丙丁") & set(name)))


def is_latin(name: str) -> bool:
    """Say whether a folded name is written in ASCII letters alone."""
    return bool(_ASCII.match(name))


def name_likeness(first: str, second: str) -> float:
    """Return how close two folded names are, 0 to 1. Cost: microseconds for names of a few words."""
    if not first or not second:
        return 0.0
    if first == second:
        return 1.0
    if count_otherwise(first, second):
        return 0.0
    words, others = first.split(), second.split()
    by_words = _by_words(words, others)
    # As many words on both sides stand for each other; else the letters tell how they were joined.
    return by_words if len(words) == len(others) > 1 else max(by_words, _by_letters(first, second))


def _by_words(first: list[str], second: list[str]) -> float:
    """Return the share of letters whose words have a partner, the shorter name's words first."""
    shorter, longer = sorted((first, second), key=len)
    left, shared = list(longer), 0.0
    for word in shorter:
        best = max(left, key=lambda other: _word_likeness(word, other), default="")
        likeness = _word_likeness(word, best)
        if likeness >= _SAME_WORD:
            left.remove(best)
            shared += likeness * (len(word) + len(best))
    total = sum(map(len, first)) + sum(map(len, second))
    return shared / total


def _word_likeness(first: str, second: str) -> float:
    if first == second:
        return 1.0
    shorter, longer = sorted((first, second), key=len)
    is_stem = len(shorter) >= _STEM and longer.startswith(shorter) and shorter.isascii()
    if is_stem and len(longer) - len(shorter) <= _STEM:
        return 0.95
    return _by_letters(first, second)


def _by_letters(first: str, second: str) -> float:
    """Return Dice's coefficient of the pairs of letters.

    Source: Dice, "Measures of the Amount of Ecologic Association Between Species", 1945.
    """
    pairs, others = _pairs(first), _pairs(second)
    return 2 * len(pairs & others) / (len(pairs) + len(others))


@lru_cache(maxsize=_MOST_KEPT)
def _pairs(text: str) -> frozenset[str]:
    padded = f" {text.replace(' ', '')} "
    return frozenset(padded[at : at + 2] for at in range(len(padded) - 1))
