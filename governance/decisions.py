"""What all decisions about what was learned have in common: who decides, and what stands in the way.

A decision is one conditional update: deciding the same again answers what was decided, deciding
otherwise is a conflict, and each leaves one audit row.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final, Literal

from memory.errors import ConflictError

MOST_REASON_CHARACTERS: Final = 500


class AlreadyDecidedError(ConflictError):
    """This was decided the other way already."""

    code = "already_decided"


class SecondApproverError(ConflictError):
    """Policy asks for two people here, and this one has approved already."""

    code = "second_approver_needed"


@dataclass(frozen=True, slots=True, kw_only=True)
class DecidedBy:
    """Who decided: the person it is about, or the staff (a key that governs acts for the staff).

    Attributes:
        kind: `end_user` or `staff`.
        id: The person's user_id or `usr_` id, or the principal's id.
    """

    kind: Literal["end_user", "staff"]
    id: str
