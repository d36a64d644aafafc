"""A circuit breaker per provider, so that a dead one does not cost every job its timeout. Pure."""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Final

FAILURES_TO_OPEN: Final = 3
OPEN_SECONDS: Final = 60


@dataclass(slots=True)
class CircuitBreaker:
    """Counts failures in a row; after three a provider rests for a minute, then gets one try.

    One a process: memory work is serial in a lane, so its worker sees every failure.
    """

    _failures: dict[str, int] = field(default_factory=dict)
    _open_until: dict[str, datetime] = field(default_factory=dict)

    def is_open(self, *, provider_id: str, now: datetime) -> bool:
        """Say whether the provider is to be left alone for now."""
        until = self._open_until.get(provider_id)
        return until is not None and now < until

    def succeeded(self, *, provider_id: str) -> None:
        """Forget the provider's failures."""
        self._failures.pop(provider_id, None)
        self._open_until.pop(provider_id, None)

    def failed(self, *, provider_id: str, now: datetime) -> None:
        """Count a failure; the third in a row opens the circuit, each further one opens it anew."""
        count = self._failures.get(provider_id, 0) + 1
        self._failures[provider_id] = count
        if count >= FAILURES_TO_OPEN:
            self._open_until[provider_id] = now + timedelta(seconds=OPEN_SECONDS)
