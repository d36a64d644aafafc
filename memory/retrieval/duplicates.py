"""Near-duplicates: texts that say the same, so that one of them is enough. Pure.

Equal after folding (case, width, punctuation, spacing, contractions), with the same numbers, the
same negations, both asking or neither. Order and small words stay: "from Paris to Rome" is not
"from Rome to Paris", 我会去 is not 我去过. What names a time relative to itself ("today", 昨天) is the
same only on the same day.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Callable, Sequence
from datetime import datetime
from typing import Final, TypeVar

from memory.retrieval.traits import ASKS, DATED, traits_of
from memory.retrieval.words import folded

Item = TypeVar("Item")

_APOSTROPHES: Final = str.maketrans({"’": "'", "‘": "'", "ʼ": "'", "−": "-", "–": "-"})
_SHORT: Final = (
    ("can't", "can not"),
    ("cannot", "can not"),
    ("won't", "will not"),
    ("shan't", "shall not"),
    ("n't", " not"),
    ("'re", " are"),
    ("'ve", " have"),
    ("'ll", " will"),
    ("i'm", "i am"),
)
# A number with its sign, its separators and its unit mark; or a run of letters.
_PIECE: Final = re.compile(r"(?:(?<![^\s(（:：=])[-+])?\d+(?:[.,:/]\d+)*[%°]?|[^\W\d_]+")


def duplicate_key(text: str, *, said_at: datetime, speaker: str = "") -> bytes:
    """Return a key that two texts share if they say the same; linear in the text.

    Args:
        text: All of it.
        said_at: The time of what it says.
        speaker: Whose words these are: "me too" of two people is two things.
    """
    traits = traits_of(text)
    day = said_at.date().isoformat() if traits & DATED else ""
    asks = "?" if traits & ASKS else ""
    whole = "\x1e".join((folded(speaker), day, asks, pieces_of(text)))
    return hashlib.blake2b(whole.encode("utf-8", "surrogatepass"), digest_size=16).digest()


def pieces_of(text: str) -> str:
    """Return the folded pieces of a text, which two that say the same have alike; linear."""
    shadow = folded(text).translate(_APOSTROPHES)
    if "'" in shadow or "cannot" in shadow:
        for short, long in _SHORT:
            shadow = shadow.replace(short, long)
    return "\x1f".join(_PIECE.findall(shadow)) or shadow


def without_duplicates(
    items: Sequence[Item],
    *,
    rough: Callable[[Item], str],
    key: Callable[[Item], bytes],
    most: int,
) -> tuple[list[Item], int]:
    """Return the first items of their key, in order, at most so many, and how many repeat one.

    Cost: what is rough of each item that is looked at, and keys of those in which that is alike;
    those behind the last one kept are not looked at.
    """
    kept: list[Item] = []
    alike: dict[str, list[Item]] = {}
    repeated = 0
    for item in items:
        if len(kept) >= most:
            break
        others = alike.setdefault(rough(item), [])
        if others and key(item) in {key(other) for other in others}:
            repeated += 1
            continue
        others.append(item)
        kept.append(item)
    return kept, repeated
