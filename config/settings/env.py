"""Typed readers of the environment; each error says what to set."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

from django.core.exceptions import ImproperlyConfigured

_TRUE = {"1", "true", "yes", "on"}
_FALSE = {"0", "false", "no", "off", ""}


def text(name: str, default: str | None = None) -> str:
    """Return variable `name`, or the content of the file named by `name_FILE`, or `default`.

    Raises:
        ImproperlyConfigured: Neither is set and there is no default.
    """
    if name in os.environ:
        return os.environ[name]
    file = os.environ.get(f"{name}_FILE")
    if file:
        return Path(file).read_text(encoding="utf-8").strip()
    if default is None:
        raise ImproperlyConfigured(f"Set {name}, or {name}_FILE to a file that holds it.")
    return default


def flag(name: str, *, default: bool) -> bool:
    """Return variable `name` as a truth value.

    Raises:
        ImproperlyConfigured: It is neither a yes nor a no.
    """
    raw = os.environ.get(name)
    if raw is None:
        return default
    if raw.strip().lower() in _TRUE | _FALSE:
        return raw.strip().lower() in _TRUE
    raise ImproperlyConfigured(f"{name} must be true or false, not {raw!r}.")


def number(name: str, default: float) -> float:
    """Return variable `name` as a number.

    Raises:
        ImproperlyConfigured: It is not a number.
    """
    raw = os.environ.get(name)
    if raw is None:
        return default
    try:
        return float(raw)
    except ValueError as error:
        raise ImproperlyConfigured(f"{name} must be a number, not {raw!r}.") from error


def count(name: str, default: int, *, most: int) -> int:
    """Return variable `name` as a whole number from 0 to `most`.

    Raises:
        ImproperlyConfigured: It is none, or out of bounds.
    """
    found = number(name, default)
    if not 0 <= found <= most or found != int(found):
        raise ImproperlyConfigured(f"{name} must be a whole number from 0 to {most}, not {found}.")
    return int(found)


def words(name: str, default: str = "") -> list[str]:
    """Return variable `name` as a list split at commas, without empty entries."""
    return [word.strip() for word in text(name, default).split(",") if word.strip()]


def var_folder() -> Path:
    """Return the data folder: CREDENCE_VAR, or `var` beside manage.py."""
    root = Path(__file__).resolve().parents[2]
    return Path(os.environ.get("CREDENCE_VAR") or root / "var").absolute()


def json_file(path: Path) -> dict[str, Any]:
    """Return the object stored in a JSON file, or an empty one where there is no file."""
    if not path.is_file():
        return {}
    data: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
    return data
