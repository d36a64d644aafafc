"""The tree of everything that can go wrong in Credence, one class per thing a caller tells apart.

Each class has a stable `code`; the docstring's first line is the default detail. The domain knows
no HTTP: `threads.api.errors` maps codes to statuses.
"""

from __future__ import annotations

from typing import ClassVar


class CredenceError(Exception):
    """Something went wrong inside Credence."""

    code: ClassVar[str] = "internal_error"

    def __init__(self, detail: str | None = None) -> None:
        """Keep `detail`, or the first line of the class docstring.

        Args:
            detail: What happened and what to do, free of personal data, keys and SQL.
        """
        self.detail = detail or (type(self).__doc__ or "").strip().splitlines()[0]
        super().__init__(self.detail)


class ScopeError(CredenceError):
    """The scope of this operation is missing or ambiguous, so it is refused."""

    code = "scope_required"


class UndecidedQueryError(ScopeError):
    """A query on tenant data ran without in_scope() or unscoped()."""

    code = "undecided_query"


class NotFoundError(CredenceError):
    """No such object."""

    code = "not_found"


class ConflictError(CredenceError):
    """The object is not in a state that allows this."""

    code = "conflict"


class InvalidInputError(CredenceError):
    """The input does not fit.

    Args of the constructor add the field that is wrong, for the `errors` list of an answer.
    """

    code = "invalid"

    def __init__(self, detail: str | None = None, *, field: str | None = None) -> None:
        """Keep `detail` and the name of the offending `field`, if one can be named."""
        self.field = field
        super().__init__(detail)
