"""A production server: what Django checks before it is deployed, and where its secrets come from.

Each test starts a process of its own, since settings are read once, when a process begins. The
databases named here do not exist; nothing connects to them.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Final

ROOT: Final = Path(__file__).parents[2]
STRONG: Final = "fC1x-9uQ2vZk_7LmB4tRs8YwE0aHjN6dPgXo3iTqKc5VnMzU"
KEYS: Final = f"{STRONG[::-1]},{STRONG}"
PEPPERS: Final = json.dumps({"1": STRONG, "2": STRONG[::-1]})
DATABASE: Final = "postgresql://credence_{role}:nobody@127.0.0.1:9/nowhere"
SECRETS: Final = {
    "DJANGO_SECRET_KEY": STRONG + STRONG[::-1],
    "CREDENCE_KEY_PEPPERS": PEPPERS,
    "CREDENCE_ENCRYPTION_KEYS": KEYS,
    "DATABASE_URL": DATABASE.format(role="app"),
    "DATABASE_MAINT_URL": DATABASE.format(role="maint"),
    "DATABASE_OWNER_URL": DATABASE.format(role="owner"),
}
# What of the settings comes from the secrets, in one line.
SHOW: Final = """
import json
from config.settings import production as made
users = {alias: made.DATABASES[alias]["USER"] for alias in made.DATABASES}
keys = [made.SECRET_KEY, made.CREDENCE_KEY_PEPPERS, made.CREDENCE_ENCRYPTION_KEYS]
print(json.dumps([*keys, users]))
"""


def _run(*words: str, folder: Path, env: Mapping[str, str]) -> subprocess.CompletedProcess[str]:
    """Run Python in the repository with nothing of our own environment but PATH."""
    given = {"PATH": os.environ["PATH"], "CREDENCE_VAR": str(folder), "ALLOWED_HOSTS": "a.test"}
    given |= {"DJANGO_SETTINGS_MODULE": "config.settings.production", **env}
    return subprocess.run(
        [sys.executable, *words],
        cwd=ROOT,
        env=given,
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )


def test_deployment_check_of_production_warns_of_nothing(tmp_path: Path) -> None:
    words = ("manage.py", "check", "--deploy", "--fail-level", "WARNING")
    ended = _run(*words, folder=tmp_path, env=SECRETS)
    assert ended.returncode == 0, ended.stdout + ended.stderr
    assert "no issues (0 silenced)" in ended.stdout + ended.stderr


def test_deployment_check_fails_where_a_setting_is_unsafe(tmp_path: Path) -> None:
    words = ("manage.py", "check", "--deploy", "--fail-level", "WARNING")
    ended = _run(*words, folder=tmp_path, env=SECRETS | {"SECURE_SSL_REDIRECT": "false"})
    assert ended.returncode != 0
    assert "security.W008" in ended.stderr
