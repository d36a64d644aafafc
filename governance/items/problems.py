"""What can be wrong with a memory item."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from memory.errors import ConflictError, InvalidInputError


class BadKeyError(InvalidInputError):
    """A key is snake_case, such as standard_japanese: a-z, 0-9 and single _ inside, 64 at most."""

    code = "bad_key"


class ItemTooLongError(InvalidInputError):
    """An item has at most 500 characters, its title at most 200."""

    code = "too_long"


class EmptyItemError(InvalidInputError):
    """Nothing is left of this text that may be remembered."""


class ExpiredError(InvalidInputError):
    """expires_at must be in the future."""


class OneOwnerError(InvalidInputError):
    """Name a person by user_id or a team by team: exactly one of both."""


class BlockedByRedLineError(InvalidInputError):
    """This text is beyond a red line and is not remembered."""

    code = "blocked_by_red_line"


class BlockedPiiError(InvalidInputError):
    """Policy forbids to remember something personal in this text."""

    code = "blocked_pii"


class NotSucceededError(ConflictError):
    """Only a run that has succeeded may write to memory."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SimilarKey:
    """An existing key that is close to a new one; score is 0 to 1."""

    key: str
    title: str
    score: float

    def as_json(self) -> dict[str, Any]:
        """Return it as the API shows it."""
        return {"key": self.key, "title": self.title, "score": self.score}


class SimilarKeyError(ConflictError):
    """A key that is close to this one exists: write to that one, or force a new one."""

    code = "similar_key"

    def __init__(self, similar: Sequence[SimilarKey]) -> None:
        """Keep the keys, the closest first."""
        self.keys = tuple(similar)
        super().__init__()

    @property
    def similar(self) -> list[dict[str, Any]]:
        """The keys as the API shows them."""
        return [one.as_json() for one in self.keys]
