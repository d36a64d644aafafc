"""Saying what a JSON text holds in a few lines: its shape, its keys, its first entries. Pure."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from typing import Final, TypeGuard

from memory.language import Language

_MAX_KEYS: Final = 20
_MAX_LOOKED_AT: Final = 200
_MAX_STRING: Final = 80
_MAX_KEY: Final = 40
_MAX_NUMBER: Final = 40
_INNER_ENTRIES: Final = 6
_DEPTH: Final = 2
_WORDS: Final[dict[Language, dict[str, str]]] = {
    "zh": {
        "list": "JSON 数组，共 {n} 项",
        "object": "JSON 对象，共 {n} 个键",
        "keys": "键：",
        "items": "{n} 项",
        "fields": "{n} 个键",
    },
    "en": {
        "list": "JSON list, {n} items",
        "object": "JSON object, {n} keys",
        "keys": "keys: ",
        "items": "{n} items",
        "fields": "{n} keys",
    },
}


def is_container(value: object) -> TypeGuard[dict[str, object] | list[object]]:
    """Say whether a parsed JSON value is a list or an object that holds something."""
    return isinstance(value, dict | list) and bool(value)


def parsed(text: str) -> object:
    """Return the value of a JSON text, None if it is broken, too deep or holds nothing.

    Linear; a text that does not begin like a list or an object is not even tried.
    """
    if text.lstrip()[:1] not in {"{", "["}:
        return None
    try:
        value: object = json.loads(text)
    except (ValueError, RecursionError):
        return None
    return value


def shape_lines(value: dict[str, object] | list[object], *, language: Language) -> Iterator[str]:
    """Yield the lines that tell what `value` is, the most telling first: shape, keys, entries.

    Lazy: whoever has enough stops. Each line is bounded, whatever the value holds.
    """
    words = _WORDS[language]
    if isinstance(value, dict):
        yield words["object"].replace("{n}", str(len(value)))
        yield words["keys"] + _keys(value)
        for key, entry in value.items():
            yield f"- {_short(key, _MAX_KEY)}: {_preview(entry, words, _DEPTH)}"
        return
    yield words["list"].replace("{n}", str(len(value)))
    if keys := _keys_of_entries(value):
        yield words["keys"] + keys
    for number, entry in enumerate(value, 1):
        yield f"{number}. {_preview(entry, words, _DEPTH)}"


def _keys_of_entries(entries: Sequence[object]) -> str:
    """Return the keys of the objects among the first entries of a list."""
    found: dict[str, object] = {}
    for entry in entries[:_MAX_LOOKED_AT]:
        if isinstance(entry, dict):
            found.update(dict.fromkeys(entry))
    return _keys(found)


def _keys(value: Mapping[str, object]) -> str:
    """Return the first keys of an object."""
    names = [_short(key, _MAX_KEY) for key, _ in zip(value, range(_MAX_KEYS), strict=False)]
    return ", ".join(names) + ("…" if len(value) > _MAX_KEYS else "")


def _preview(value: object, words: Mapping[str, str], depth: int) -> str:
    """Return a value on one line, what lies deeper or further on only counted."""
    if isinstance(value, dict):
        return _object(value, words, depth)
    if isinstance(value, list):
        return _list(value, words, depth)
    if isinstance(value, str):
        return json.dumps(_short(value, _MAX_STRING), ensure_ascii=False)
    shown = json.dumps(value)
    return shown if len(shown) <= _MAX_NUMBER else "…"


def _object(value: Mapping[str, object], words: Mapping[str, str], depth: int) -> str:
    """Return an object on one line."""
    if not depth:
        return "{" + words["fields"].replace("{n}", str(len(value))) + "}"
    shown = [
        f"{_short(key, _MAX_KEY)}: {_preview(entry, words, depth - 1)}"
        for (key, entry), _ in zip(value.items(), range(_INNER_ENTRIES), strict=False)
    ]
    return "{" + ", ".join(shown) + (", …" if len(value) > _INNER_ENTRIES else "") + "}"


def _list(value: Sequence[object], words: Mapping[str, str], depth: int) -> str:
    """Return a list on one line."""
    count = words["items"].replace("{n}", str(len(value)))
    if not depth:
        return f"[{count}]"
    shown = [_preview(entry, words, depth - 1) for entry in value[: _INNER_ENTRIES // 2]]
    rest = f", … {count}" if len(value) > len(shown) else ""
    return "[" + ", ".join(shown) + rest + "]"


def _short(text: str, most: int) -> str:
    """Return `text` within `most` characters, a cut marked and never through a number."""
    return text if len(text) <= most else text[:most].rstrip(" 0123456789.,:/-") + "…"
