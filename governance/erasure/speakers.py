"""Where it is known who blanks a person's turns in other persons' threads: a layer above this one."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Protocol


class SpeakerBlanker(Protocol):
    """Blanks what one person said in threads of others, and has what was made of it made anew.

    It may be run again after any crash, and calls `hold` first in every transaction it writes in.
    """

    def __call__(
        self, *, tenant_id: str, user_id: str, hold: Callable[[], None], is_dry_run: bool
    ) -> Mapping[str, int]:
        """Do it, or with `is_dry_run` only count; return how many of what."""


_registered: list[SpeakerBlanker] = []


def register(blanker: SpeakerBlanker) -> None:
    """Make a blanker known, once at start; the last one counts."""
    _registered[:] = [blanker]


def blank_speaker(
    *, tenant_id: str, user_id: str, hold: Callable[[], None], is_dry_run: bool
) -> Mapping[str, int]:
    """Blank a person's turns in others' threads by the blanker that was made known, if any."""
    counts: dict[str, int] = {}
    for blanker in _registered:
        counts.update(
            blanker(tenant_id=tenant_id, user_id=user_id, hold=hold, is_dry_run=is_dry_run)
        )
    return counts
