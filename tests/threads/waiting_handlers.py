"""Handlers for real worker processes: they do nothing, or wait for ever if the key says so."""

from __future__ import annotations

import threading
from importlib import import_module
from pathlib import Path
from typing import Any

from django.apps import AppConfig


def wait_or_not(*, scope: Any, claim: Any) -> None:
    """Stand in for a model call."""
    if claim.dedupe_key.startswith("endless"):
        threading.Event().wait()


class WaitingHandlersConfig(AppConfig):
    """Puts the handlers in place of the product's, once all models are loaded."""

    name = "tests.threads"
    label = "waiting_handlers"
    path = str(Path(__file__).parent)

    def ready(self) -> None:
        """Replace every handler."""
        handlers = import_module("threads.tasks").HANDLERS
        handlers.clear()
        handlers["roll_summary"] = wait_or_not
