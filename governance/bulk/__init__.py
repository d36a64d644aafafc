"""One decision about many rows: asked for once, done by the worker piece by piece, row by row."""

from __future__ import annotations

from governance.bulk.deciding import work
from governance.bulk.problems import (
    InvalidRowsError,
    NoRowsError,
    ReasonNeededError,
    TooManyRowsError,
    UnknownDecisionError,
)
from governance.bulk.rules import Rule, rule_for
from governance.bulk.starting import JOB_KEY, MOST_ROWS, cancel, start

__all__ = [
    "JOB_KEY",
    "MOST_ROWS",
    "InvalidRowsError",
    "NoRowsError",
    "ReasonNeededError",
    "Rule",
    "TooManyRowsError",
    "UnknownDecisionError",
    "cancel",
    "rule_for",
    "start",
    "work",
]
