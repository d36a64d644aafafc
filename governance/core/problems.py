"""What stands in the way of a fact."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from memory.errors import ConflictError, CredenceError, InvalidInputError
from memory.models import CoreFact


class FactRefusedError(CredenceError):
    """The gate lets nothing of this through: it names what must not be remembered."""

    code = "not_admitted"


class FactTooLongError(InvalidInputError):
    """A fact has at most 120 characters, and what it is about 80."""

    code = "too_long"


class FactEmptyError(InvalidInputError):
    """A fact says something."""


class WrongPersonError(InvalidInputError):
    """Only the person a fact is about decides as an end user."""

    code = "wrong_person"


class FactEndedError(ConflictError):
    """This fact holds no more; only one that was evicted can be restored."""

    code = "fact_ended"


class SameFactError(ConflictError):
    """This person's core memory says the same already."""

    code = "same_fact"


class CoreFullError(ConflictError):
    """Core memory is full; confirm with `evict` to let the least recently used fact make room."""

    code = "core_full"

    def __init__(self, least: CoreFact | None) -> None:
        """Keep the fact that would make room, as `least_recently_used`; None where none would do."""
        self.least_recently_used: Mapping[str, Any] | None = None
        if least is not None:
            self.least_recently_used = {
                "id": least.pk,
                "fact": least.fact,
                "last_used_at": least.last_used_at,
            }
        super().__init__()
