"""Doing something for the count alone: the act itself, in a transaction that is taken back."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager, suppress

from memory.rls import scoped_transaction
from memory.scope import Scope


class _DryRunError(Exception):
    """Takes back what a dry run did."""


@contextmanager
def taken_back(scope: Scope, *, is_dry_run: bool) -> Iterator[None]:
    """Open a transaction in `scope` that a dry run takes back at its end, without a word."""
    with suppress(_DryRunError), scoped_transaction(scope):
        yield
        if is_dry_run:
            raise _DryRunError
