"""What can be wrong with a decision about many rows."""

from __future__ import annotations

from memory.errors import InvalidInputError


class UnknownDecisionError(InvalidInputError):
    """There is no such decision about such rows."""

    code = "unknown_decision"


class NoRowsError(InvalidInputError):
    """A decision needs rows to decide about."""

    code = "no_rows"


class TooManyRowsError(InvalidInputError):
    """One decision is about 10,000 rows at most."""

    code = "too_many_rows"


class ReasonNeededError(InvalidInputError):
    """This decision needs a reason."""

    code = "reason_needed"


class InvalidRowsError(InvalidInputError):
    """Rows are named by their ids."""

    code = "invalid_rows"
