"""How many tokens a text costs, how a provider counts them, and how to cut to a number of them."""

from __future__ import annotations

from memory.tokens.calibration import Fit, needs_learning
from memory.tokens.composition import Features, features, real_count
from memory.tokens.encodings import TokenTableError, encoding_name
from memory.tokens.estimators import EstimatorKind, count_messages, estimate, upper_bound
from memory.tokens.truncation import truncate_end, truncate_middle

__all__ = [
    "EstimatorKind",
    "Features",
    "Fit",
    "TokenTableError",
    "count_messages",
    "encoding_name",
    "estimate",
    "features",
    "needs_learning",
    "real_count",
    "truncate_end",
    "truncate_middle",
    "upper_bound",
]
