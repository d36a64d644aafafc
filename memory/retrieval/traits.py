"""What a text is besides its words: does it ask, does it tell of its speaker, does it name a time. Pure."""

from __future__ import annotations

import re
from typing import Final

ASKS: Final = 1
TELLS: Final = 2
DATED: Final = 4

_ASKS: Final = re.compile(r"[?？]")
_TELLS: Final = re.compile(r"\b(?:i|i'm|i've|my|we|our)\b|[我咱]", re.IGNORECASE)
_DATED: Final = re.compile(
    r"\b(?:yesterday|today|tonight|tomorrow|last|ago|next|monday|tuesday|wednesday|thursday|friday"
    r"|saturday|sunday|week|weekend|month|year|january|february|march|april|june|july|august"
    r"|september|october|november|december|since|(?:19|20)\d\d)\b"
    r"|[昨今明前后]天|[上这本下]个?(?:周|星期|月|年)|去年|今年|明年|周末|星期|\d+[年月日号]",
    re.IGNORECASE,
)


def traits_of(text: str) -> int:
    """Return the traits of a text as bits. Linear."""
    found = ASKS if _ASKS.search(text) else 0
    found |= TELLS if _TELLS.search(text) else 0
    return found | (DATED if _DATED.search(text) else 0)
