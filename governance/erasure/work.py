"""Doing erasures: claiming them, going from step to step, and booking the end."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime

from governance.erasure.tagging import TaggedEraser


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkReport:
    """What one round did.

    Attributes:
        is_more: Something is left to do now; ring again.
    """

    done: int = 0
    failed: int = 0
    verified: int = 0
    is_more: bool = False


def work_erasures(*, now: datetime, within_seconds: float, tagged: TaggedEraser) -> WorkReport:  # noqa: ARG001
    """Claim and do the erasures that are due until the time is up."""
    return WorkReport()
