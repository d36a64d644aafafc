"""Remembered text as it may stand inside a boundary."""

from __future__ import annotations

from memory.sanitize import sanitize


def inner(text: str, tag: str) -> str:
    """Return `text` cleaned and without the boundary's own tag, should a model have echoed it."""
    return sanitize(text).text.replace(tag, "#…")
