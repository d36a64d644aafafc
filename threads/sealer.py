"""The sealer's loop: once a second, beside the supervisor, for as long as that lives."""

from __future__ import annotations

import logging
import time
from threading import Event, Thread
from typing import Final

from django.db import connections
from django.utils import timezone

from governance.sealing import export_heads, seal_pending
from governance.sealing.sealing import BATCH
from memory.rls import MAINT_ALIAS

logger = logging.getLogger("credence.sealer")
PERIOD_SECONDS: Final = 1.0
EXPORT_SECONDS: Final = 60.0


class Sealer(Thread):
    """Seals what waits and exports heads; a daemon, so it never outlives its process.

    A lock in the database lets one sealer work at a time, however many workers there are. Whatever
    goes wrong is logged by its code and tried again; nothing is lost, since what waits is a list in
    the database. Heads that could not be exported are exported a minute later.
    """

    def __init__(
        self,
        *,
        should_stop: Event,
        period_seconds: float = PERIOD_SECONDS,
        export_seconds: float = EXPORT_SECONDS,
    ) -> None:
        """Take the event that ends it, and how long it rests between seals and exports."""
        super().__init__(name="sealer", daemon=True)
        self._should_stop = should_stop
        self._period = period_seconds
        self._export_period = export_seconds
        self._export_at = 0.0
        self._has_new = True

    def run(self) -> None:
        """Seal until told to stop."""
        try:
            while not self._should_stop.is_set():
                if self.look() < BATCH:
                    self._should_stop.wait(self._period)
        finally:
            connections.close_all()

    def look(self) -> int:
        """Seal once and export heads when it is time; return how many rows were sealed."""
        try:
            sealed = seal_pending(now=timezone.now())
            self._has_new = self._has_new or sealed > 0
            self._export()
        except Exception as error:  # noqa: BLE001 - a thread that ended would not be missed
            logger.warning("seal_failed", extra={"code": type(error).__name__})
            connections[MAINT_ALIAS].close()
            return 0
        return sealed

    def _export(self) -> None:
        if not self._has_new or time.monotonic() < self._export_at:
            return
        self._export_at = time.monotonic() + self._export_period
        try:
            export_heads()
            self._has_new = False
        except (OSError, ValueError) as error:
            logger.warning("heads_not_exported", extra={"code": type(error).__name__})
