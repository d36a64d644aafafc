"""Titles of threads: the start of the first question. Pure."""

from __future__ import annotations

from typing import Final

TITLE_CHARS: Final = 40


def title_of(text: str) -> str:
    """Return the first 40 characters of a first input, white space folded (seed A, 2.1)."""
    return " ".join(text[: TITLE_CHARS * 8].split())[:TITLE_CHARS]
