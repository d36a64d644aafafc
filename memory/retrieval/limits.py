"""The time limit of a search, held between its stages and by the database for each statement."""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any, Final, LiteralString

from django.db import OperationalError, connection
from psycopg import errors

from memory.errors import CredenceError

# Compiling a statement costs more than any of these takes.
OPEN: Final = (
    "SAVEPOINT credence_search;"
    " SELECT pg_catalog.set_config('statement_timeout', %(credence_ms)s, true), set_config('jit', 'off', true);"
)
_OPEN_ALONE: Final = OPEN + " SELECT 1"
# Reading changed nothing, so going back loses nothing, and puts the timeout back as it was.
_CLOSE: Final = "ROLLBACK TO SAVEPOINT credence_search; RELEASE SAVEPOINT credence_search"
_SET: Final = "SELECT pg_catalog.set_config('statement_timeout', %s, true)"


class OverTimeError(CredenceError):
    """The search took longer than it may."""

    code = "retrieval_over_time"


class TimeLimit:
    """How long a search may still take; starts when it is made."""

    def __init__(self, limit_ms: float) -> None:
        """Start the clock; nothing is checked before `check`."""
        self._ends = time.monotonic() + limit_ms / 1000

    @property
    def left_ms(self) -> int:
        """Whole milliseconds that are left, at least 0."""
        return max(0, int((self._ends - time.monotonic()) * 1000))

    def check(self) -> int:
        """Return the milliseconds that are left.

        Raises:
            OverTimeError: There is none.
        """
        left = self.left_ms
        if left <= 0:
            raise OverTimeError
        return left

    def hold(self) -> None:
        """Let the database end the next statements when the time is over. Cost: one statement.

        Raises:
            OverTimeError: It is over.
        """
        with connection.cursor() as cursor:
            cursor.execute(_SET, [str(self.check())])


@contextmanager
def reading_within(
    limit: TimeLimit,
    *,
    opening: LiteralString = _OPEN_ALONE,
    values: Mapping[str, Any] | None = None,
) -> Iterator[list[tuple[Any, ...]]]:
    """Read in the open transaction until the limit, and leave that as it was, whatever happens.

    Args:
        limit: When it ends.
        opening: OPEN and one statement behind it, which travels with it.
        values: That statement's.

    Yields:
        That statement's rows.

    Cost: two round trips.

    Raises:
        OverTimeError: A statement or the work between took too long.
    """
    given = {**(values or {}), "credence_ms": str(limit.check())}
    try:
        with connection.cursor() as cursor:
            cursor.execute(opening, given)
            cursor.nextset()
            cursor.nextset()
            rows = cursor.fetchall()
        yield rows
    except OperationalError as error:
        if isinstance(error.__cause__, errors.QueryCanceled):
            raise OverTimeError from error
        raise
    finally:
        with connection.cursor() as cursor:
            cursor.execute(_CLOSE)
