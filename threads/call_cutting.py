"""Cutting what a model called its tools with, where it takes the room of what is to come. Pure."""

from __future__ import annotations

import json
from typing import Any, Final

from memory.language import Language
from threads.round_frame import written

KEPT_CHARS: Final = 80
_LEAST_CUT_CHARS: Final = 200
_MARK: Final[dict[Language, str]] = {
    "zh": "…（其余 {count} 字略；调用时是完整的）",
    "en": "… ({count} more characters left out; the call had all of them)",
}


def cut_arguments(arguments: str, *, language: Language) -> str:
    """Return a call's arguments with their long texts cut to how they begin, still a JSON object.

    What is not an object, or has no long text, comes back as it is.
    """
    try:
        value = json.loads(arguments)
    except (ValueError, RecursionError):
        return arguments
    if not isinstance(value, dict):
        return arguments
    cut = _cut(value, _MARK[language])
    return written(cut) if cut != value else arguments


def _cut(value: Any, mark: str) -> Any:
    if isinstance(value, str) and len(value) > _LEAST_CUT_CHARS:
        return value[:KEPT_CHARS] + mark.replace("{count}", str(len(value) - KEPT_CHARS))
    if isinstance(value, dict):
        return {name: _cut(part, mark) for name, part in value.items()}
    if isinstance(value, list):
        return [_cut(part, mark) for part in value]
    return value
