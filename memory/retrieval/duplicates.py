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
    shadow = folded(text).translate(_APOSTROPHES)
    for short, long in _SHORT:
        shadow = shadow.replace(short, long)
    traits = traits_of(text)
    day = said_at.date().isoformat() if traits & DATED else ""
    asks = "?" if traits & ASKS else ""
    pieces = "\x1f".join(_PIECE.findall(shadow)) or shadow
    whole = "\x1e".join((folded(speaker), day, asks, pieces))
    return hashlib.blake2b(whole.encode("utf-8", "surrogatepass"), digest_size=16).digest()


def without_duplicates(
    items: Sequence[Item], *, key: Callable[[Item], bytes], most: int
) -> tuple[list[Item], int]:
    """Return the first items of their key, in order, at most so many, and how many repeat one.

    Cost: a key for each item that is looked at; those behind the last one kept are not.
    """
    firsts: dict[bytes, Item] = {}
    repeated = 0
    for item in items:
        if len(firsts) >= most:
            break
        known = firsts.setdefault(key(item), item)
        repeated += known is not item
    return list(firsts.values()), repeated
