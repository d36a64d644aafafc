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
from typing import Any, Final

import pytest

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
# Prints what of the settings comes from the secrets.
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


def _made(*, folder: Path, env: Mapping[str, str]) -> tuple[list[Any], str]:
    """Return what the settings made of the secrets, or nothing and the last line of the error."""
    ended = _run("-c", SHOW, folder=folder, env=env)
    if ended.returncode:
        return [], ended.stderr.strip().splitlines()[-1]
    shown: list[Any] = json.loads(ended.stdout)
    return shown, ""


def _expected() -> list[Any]:
    users = {"default": "credence_app", "maint": "credence_maint", "owner": "credence_owner"}
    return [SECRETS["DJANGO_SECRET_KEY"], json.loads(PEPPERS), KEYS.split(","), users]


def test_secrets_of_production_come_from_the_environment(tmp_path: Path) -> None:
    assert _made(folder=tmp_path, env=SECRETS) == (_expected(), "")


def test_secrets_of_production_come_from_files_each_by_its_name(tmp_path: Path) -> None:
    named = {}
    for name, secret in SECRETS.items():
        file = tmp_path / name.lower()
        file.write_text(secret + "\n", encoding="utf-8")
        named[f"{name}_FILE"] = str(file)
    assert _made(folder=tmp_path, env=named) == (_expected(), "")


@pytest.mark.parametrize("name", [name for name in SECRETS if name != "DATABASE_OWNER_URL"])
def test_missing_secret_is_named_with_what_to_set(tmp_path: Path, name: str) -> None:
    env = {other: secret for other, secret in SECRETS.items() if other != name}
    made, said = _made(folder=tmp_path, env=env)
    assert not made
    # A list may be empty, so its own rule says what is missing.
    none = "CREDENCE_ENCRYPTION_KEYS names no key"
    wanted = none if name in none else f"Set {name}, or {name}_FILE to a file that holds it."
    assert wanted in said


def test_owner_may_be_left_out_where_no_migrations_run(tmp_path: Path) -> None:
    env = {name: secret for name, secret in SECRETS.items() if name != "DATABASE_OWNER_URL"}
    made, _ = _made(folder=tmp_path, env=env)
    assert set(made[3]) == {"default", "maint"}


@pytest.mark.parametrize(
    ("name", "weak", "advice"),
    [
        ("DJANGO_SECRET_KEY", STRONG, "50 random characters"),
        ("CREDENCE_KEY_PEPPERS", '{"1": "correct-horse"}', "32 random characters"),
        ("CREDENCE_KEY_PEPPERS", "correct-horse", '{"1": "…"}'),
        ("CREDENCE_ENCRYPTION_KEYS", f"{STRONG},correct-horse", "32 random characters"),
    ],
)
@pytest.mark.parametrize("is_file", [False, True], ids=["environment", "file"])
def test_weak_secret_ends_the_start_with_advice_that_does_not_quote_it(
    *, tmp_path: Path, name: str, weak: str, advice: str, is_file: bool
) -> None:
    env = {other: secret for other, secret in SECRETS.items() if other != name}
    (tmp_path / "weak").write_text(weak, encoding="utf-8")
    env |= {f"{name}_FILE": str(tmp_path / "weak")} if is_file else {name: weak}
    ended = _run("-c", SHOW, folder=tmp_path, env=env)
    assert ended.returncode != 0
    said = ended.stderr.strip().splitlines()[-1]
    assert name in said
    assert advice in said
    assert weak not in ended.stderr
    assert "correct-horse" not in ended.stderr
