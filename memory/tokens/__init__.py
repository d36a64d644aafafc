"""How many tokens a text costs, and how to cut it to a number of them."""

from __future__ import annotations

from memory.tokens.encodings import TokenTableError, encoding_name
from memory.tokens.estimators import EstimatorKind, count_messages, estimate
from memory.tokens.truncation import truncate_end, truncate_middle

__all__ = [
    "EstimatorKind",
    "TokenTableError",
    "count_messages",
    "encoding_name",
    "estimate",
    "truncate_end",
    "truncate_middle",
]
