"""The turns of a thread as its summary is made from them."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime


@dataclass(frozen=True, slots=True, kw_only=True)
class SummaryTurn:
    """One finished turn: its number in the thread, both texts, when, and whether it failed.

    The texts have been sanitised by the caller; the output of a failed turn is never looked at.
    """

    seq: int
    user_text: str
    assistant_text: str
    at: datetime | None
    is_failed: bool = False

    @property
    def date(self) -> str:
        """Return the day of the turn as people write it, "" if unknown."""
        return f"{self.at:%Y-%m-%d}" if self.at else ""
