"""Handlers for real worker processes: they do nothing, or wait for ever if the key says so."""

from __future__ import annotations

import threading
from importlib import import_module
from pathlib import Path

from django.apps import AppConfig


def wait_or_not(*, scope, claim):
    """Stand in for a model call."""
    if claim.dedupe_key.startswith("endless"):
        threading.Event().wait()


class WaitingHandlersConfig(AppConfig):
    """Puts the handlers in place of the product's, once all models are loaded."""

    name = "tests.threads"
    label = "waiting_handlers"
    path = str(Path(__file__).parent)

    def ready(self):
        """Replace every handler."""
        handlers = import_module("threads.tasks").HANDLERS
        handlers.clear()
        handlers["roll_summary"] = wait_or_not
