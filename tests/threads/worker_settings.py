"""Settings of the real worker processes in tests: the suite's, with handlers that only wait."""

from __future__ import annotations

import os

from config.settings.test import *  # noqa: F403, TID251 - this is a settings module
from config.settings.test import INSTALLED_APPS  # noqa: TID251

SECRET_KEY = os.environ.get("TEST_SECRET_KEY", "test-only")
INSTALLED_APPS = [*INSTALLED_APPS, "tests.threads.waiting_handlers.WaitingHandlersConfig"]
