"""The data folder of a local instance: its secrets, and that it is served once."""

from __future__ import annotations

import json
import os
import stat
from pathlib import Path

import pytest

from config.local.instance import StartError, ensure_secrets, served_once, start_database


def test_secrets_are_made_once_and_for_their_owner_alone(tmp_path: Path) -> None:
    made = ensure_secrets(tmp_path)
    assert ensure_secrets(tmp_path) == made
    file = tmp_path / "secrets.json"
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    assert set(made) == {"secret_key", "peppers", "encryption_keys", "admin_password"}
    assert json.loads(file.read_text(encoding="utf-8")) == made


def test_folder_that_is_served_is_refused_with_who_serves_it(tmp_path: Path) -> None:
    with (
        served_once(tmp_path, port=8000),
        pytest.raises(StartError, match=f"process {os.getpid()}, port 8000"),
        served_once(tmp_path, port=8001),
    ):
        raise AssertionError("served twice")
    with served_once(tmp_path, port=8002):
        assert "8002" in (tmp_path / "run.lock").read_text(encoding="utf-8")


def test_own_server_without_the_other_roles_says_what_is_missing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("DATABASE_URL", "postgresql://app@db/credence")
    monkeypatch.delenv("DATABASE_OWNER_URL", raising=False)
    monkeypatch.delenv("DATABASE_MAINT_URL", raising=False)
    with pytest.raises(StartError, match="DATABASE_MAINT_URL"):
        start_database(tmp_path)
