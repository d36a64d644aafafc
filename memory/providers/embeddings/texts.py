"""What of a text a model reads: nothing it chokes on, and of a long one its beginning and end. Pure."""

from __future__ import annotations

from typing import Final

_BETWEEN: Final = " … "
_HEAD_SHARE: Final = 2 / 3


def readable(text: str, *, most_characters: int) -> str:
    """Return a text without lone surrogates and NUL, cut in the middle if it is long.

    Cost: that of copying it.

    Args:
        text: Any text.
        most_characters: What may be left of it; two thirds of that are its beginning.
    """
    short = _cut(text, most_characters)
    return short.encode("utf-8", "replace").decode("utf-8").replace("\x00", " ").strip()


def _cut(text: str, most: int) -> str:
    if len(text) <= most:
        return text
    room = most - len(_BETWEEN)
    head = int(room * _HEAD_SHARE)
    return f"{text[:head]}{_BETWEEN}{text[len(text) - (room - head) :]}"
