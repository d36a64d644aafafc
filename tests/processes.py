"""Real processes for tests."""

from __future__ import annotations

import os
import subprocess
import sys
from urllib.parse import quote

from django.db import connections


def name_of_a_dead_process() -> str:
    """The holder name of a process that has just ended on this machine."""
    code = "from memory.processes import this_process; print(this_process())"
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    return run.stdout.strip()


def environment_for_children(**more: str) -> dict[str, str]:
    """The environment in which a child process finds the suite's database."""
    names = {
        "default": "TEST_DATABASE_URL",
        "maint": "TEST_DATABASE_MAINT_URL",
        "owner": "TEST_DATABASE_OWNER_URL",
    }
    urls = {name: _url(alias) for alias, name in names.items()}
    return dict(os.environ) | urls | {"DJANGO_SETTINGS_MODULE": "config.settings.test"} | more


def _url(alias: str) -> str:
    values = connections[alias].settings_dict
    name, word = quote(values["USER"], safe=""), quote(values["PASSWORD"] or "", safe="")
    host, port = quote(values["HOST"] or "", safe=""), values["PORT"]
    return f"postgresql://{name}:{word}@{host}:{port}/{values['NAME']}"
