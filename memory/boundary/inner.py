"""Remembered text as it may stand inside a boundary."""

from __future__ import annotations

from memory.sanitize import sanitize

_NO_TAG = "#…"


def inner(text: str, tag: str) -> str:
    """Return `text` cleaned and without the boundary's own tag, should a model have echoed it.

    The tag goes first, since what follows it may become a marker; hidden in the text it shows only
    after cleaning, and goes then. Each further round makes the text shorter.
    """
    clean = sanitize(text.replace(tag, _NO_TAG)).text
    while tag in clean:
        clean = sanitize(clean.replace(tag, _NO_TAG)).text
    return clean
