"""The timeouts of one call, kept by us: nothing a server sends can stretch them."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable
from typing import TypeVar

from memory.providers.base import ProviderTimeouts
from memory.providers.errors import ProviderTimeoutError

T = TypeVar("T")
AFTER_FINISH_SECONDS = 2.0
AFTER_USAGE_SECONDS = 0.2


class Deadlines:
    """Bounds every wait of one call by the phase it is in and by the total.

    Phases: `begin_attempt` starts the wait for the first token; a token starts the wait for the
    next; after the finish reason the usage is waited for, 2 s at most. Needs a running loop.
    """

    def __init__(self, timeouts: ProviderTimeouts) -> None:
        """Start the total."""
        self._timeouts = timeouts
        self._now = asyncio.get_running_loop().time
        self._began_at = self._now()
        self._ends_at = self._began_at + timeouts.total_seconds
        self._phase = "to begin its answer"
        self._phase_ends_at = self._ends_at

    def begin_attempt(self) -> None:
        """Wait for the first token from now on."""
        self._phase = "to begin its answer"
        self._phase_ends_at = self._now() + self._timeouts.first_token_seconds

    def progressed(self) -> None:
        """Wait for the next token from now on."""
        self._phase = "to go on with its answer"
        self._phase_ends_at = self._now() + self._timeouts.between_tokens_seconds

    def wind_down(self, *, has_all: bool) -> None:
        """Wait only for the usage, or, when that is here, for the end that frees the connection."""
        grace = AFTER_USAGE_SECONDS if has_all else AFTER_FINISH_SECONDS
        self._phase_ends_at = min(self._phase_ends_at, self._now() + grace)

    def elapsed_seconds(self) -> float:
        """Return the seconds since the call began."""
        return self._now() - self._began_at

    def remaining_seconds(self) -> float:
        """Return the seconds left of the total."""
        return self._ends_at - self._now()

    async def bound(self, work: Awaitable[T]) -> T:
        """Await `work` within the current phase and the total.

        Raises:
            ProviderTimeoutError: when either passes; `work` is cancelled.
        """
        try:
            async with asyncio.timeout_at(min(self._phase_ends_at, self._ends_at)):
                return await work
        except TimeoutError:
            is_total = self._now() >= self._ends_at
            phase = "to finish its answer" if is_total else self._phase
        raise ProviderTimeoutError(f"The provider took too long {phase}.")
