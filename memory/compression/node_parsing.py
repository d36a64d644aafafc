"""Reading what a model wrote for a summary node: JSON, bent JSON, or plain dated lines.

Nothing in it is trusted: every text is cleaned, put on one line and bounded, and so is their number.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Final

import re2

from memory.compression.node_content import (
    LIST_NAMES,
    ListName,
    NodeContent,
    SectionName,
    TimelineEntry,
)
from memory.compression.node_dates import date_of, split_date
from memory.compression.node_json import objects_in
from memory.sanitize import sanitize

MAX_READ_CHARACTERS: Final = 200_000
MAX_ITEMS: Final = 60
MAX_TEXT_CHARACTERS: Final = 400

_NAMES: Final[dict[str, SectionName]] = {
    "timeline": "timeline",
    "events": "timeline",
    "时间线": "timeline",
    "经过": "timeline",
    "decisions": "decisions",
    "decision": "decisions",
    "决定": "decisions",
    "决策": "decisions",
    "pitfalls": "pitfalls",
    "pitfall": "pitfalls",
    "教训": "pitfalls",
    "弯路": "pitfalls",
    "files": "files",
    "file": "files",
    "文件": "files",
    "open_items": "open_items",
    "openitems": "open_items",
    "open_item": "open_items",
    "open": "open_items",
    "todo": "open_items",
    "todos": "open_items",
    "待办": "open_items",
    "待办事项": "open_items",
    "未完成": "open_items",
}
_DATE_KEYS: Final = frozenset({"date", "time", "when", "at", "day", "日期", "时间"})
_BULLET = re2.compile(r"^\s*(?:[-*•·–]\s+|\d{1,2}(?:[.)]\s+|、\s*))")
_LABEL = re2.compile(r"^([\pL_ \-]{2,12}?)\s*[:：]\s*(.*)$")
_MANY_DECORATIONS = "#*_ \t:：【】[]"
_MOST_DEEP: Final = 3


def parse_node(text: str) -> NodeContent | None:
    """Return the node that a model wrote, or None if it cannot be read as one.

    JSON is found inside fences and among other words; commas too many are dropped, and an answer
    that was cut off is closed if its open items had come through whole. Keys that are missing are
    empty, of another type turned into text, unknown ones ignored. Text without JSON is read as
    lines if most of them are dated, listed or labelled. Never raises; linear, bounded.
    """
    text = text[:MAX_READ_CHARACTERS]
    found = [wanted for value in objects_in(text) if (wanted := _wanted(value))]
    if found:
        return _content(found[-1])
    return None if _is_like_json(text) else read_lines(text)


def read_lines(text: str) -> NodeContent | None:
    """Return a node from plain lines, as `render` writes them, or None if they are but prose."""
    made: dict[SectionName, list[str]] = {}
    section: SectionName = "timeline"
    marked = unmarked = 0
    for raw in text[:MAX_READ_CHARACTERS].splitlines():
        heading = _NAMES.get(_key(raw.strip(_MANY_DECORATIONS)))
        if heading is not None:
            section = heading
            continue
        line = raw.replace("**", "").strip()
        if not line or line.startswith("```") or line.endswith((":", "：")):
            continue
        own_section, words, is_marked = _line(line)
        marked += is_marked
        unmarked += not is_marked
        made.setdefault(own_section or section, []).append(words)
    return _content(made) if marked > unmarked else None


def _line(line: str) -> tuple[SectionName | None, str, bool]:
    """Return the list a line names itself, its words, and whether it is marked as a point."""
    words = _BULLET.sub("", line)
    is_bulleted = words != line
    date, rest = split_date(words)
    label = _LABEL.match(rest)
    section = _NAMES.get(_key(label.group(1))) if label else None
    if label is not None and section is not None:
        words = f"{date} {label.group(2)}".strip()
    return section, words, is_bulleted or bool(date) or section is not None


def _wanted(value: Any, depth: int = 0) -> dict[SectionName, Any]:
    """Return what is known in a JSON object, or in one that is wrapped in it."""
    if not isinstance(value, Mapping) or depth == _MOST_DEEP:
        return {}
    known = {_NAMES[key]: inner for name, inner in value.items() if (key := _key(name)) in _NAMES}
    if known:
        return known
    return next((inner for each in value.values() if (inner := _wanted(each, depth + 1))), {})


def _key(name: str) -> str:
    return name.strip().casefold().replace(" ", "_").replace("-", "_")


def _content(found: Mapping[SectionName, Any]) -> NodeContent:
    """Return the node of what was found, every text cleaned and bounded."""
    lists: dict[ListName, tuple[str, ...]] = {
        name: tuple(_distinct(_tidy(item) for item in _items(found.get(name))))
        for name in LIST_NAMES
    }
    entries = [entry for item in _items(found.get("timeline")) if (entry := _entry(item))]
    return NodeContent(timeline=tuple(_in_order(dict.fromkeys(entries))), **lists)


def _items(value: Any) -> list[Any]:
    """Return a value as a list of at most `MAX_ITEMS` items: a text by its lines, a map by its keys."""
    if isinstance(value, str):
        value = [_BULLET.sub("", line) for line in value.splitlines() if line.strip()]
    elif isinstance(value, Mapping):
        is_entry = any(_key(key) in _DATE_KEYS or _key(key) == "text" for key in value)
        value = [value] if is_entry else [_pair(key, inner) for key, inner in value.items()]
    elif not isinstance(value, list):
        value = [] if value is None or isinstance(value, bool) else [value]
    return list(value[:MAX_ITEMS])


def _pair(key: str, value: Any) -> Any:
    """Return an entry of a map: its key is a date, or the head of the text."""
    words = _words(value)
    return {"date": key, "text": words} if date_of(key) else f"{key}: {words}"


def _entry(item: Any) -> TimelineEntry | None:
    """Return one entry of the timeline, or None if it says nothing."""
    if isinstance(item, Mapping):
        given = " ".join(_words(inner) for key, inner in item.items() if _key(key) in _DATE_KEYS)
        words = "; ".join(
            filter(
                None, (_words(inner) for key, inner in item.items() if _key(key) not in _DATE_KEYS)
            )
        )
        date = date_of(given)
        text = words if date or not given.strip() or not words else f"{given}: {words}"
    else:
        date, text = split_date(_words(item, joined_by=" ").strip())
    tidy = _tidy(text)
    return TimelineEntry(date=date, text=tidy) if tidy else None


def _words(value: Any, depth: int = 0, joined_by: str = ": ") -> str:
    """Return any JSON value as words."""
    if isinstance(value, str):
        return value
    if value is None or isinstance(value, bool) or depth == _MOST_DEEP:
        return ""
    if isinstance(value, Mapping):
        value = list(value.values())
    if isinstance(value, list):
        parts = (_words(each, depth + 1, joined_by) for each in value[:MAX_ITEMS])
        return joined_by.join(filter(None, parts))
    return str(value) if isinstance(value, int | float) else ""


def _tidy(value: Any) -> str:
    """Return a text cleaned, on one line and bounded; "" if it says nothing."""
    line = " ".join(_words(value)[: 2 * MAX_TEXT_CHARACTERS].split())
    line = " ".join(sanitize(line).text.split())
    if len(line) > MAX_TEXT_CHARACTERS:
        line = line[: MAX_TEXT_CHARACTERS - 1].rstrip() + "…"
    return line if any(letter.isalnum() for letter in line) else ""


def _distinct(texts: Iterable[str]) -> Iterator[str]:
    """Yield the texts that say something, each once."""
    yield from dict.fromkeys(filter(None, texts))


def _in_order(entries: Iterable[TimelineEntry]) -> list[TimelineEntry]:
    """Return the entries by date; one without a date stays behind the one before it."""
    dated: list[tuple[str, TimelineEntry]] = []
    for entry in entries:
        dated.append((entry.date or (dated[-1][0] if dated else ""), entry))
    return [entry for _, entry in sorted(dated, key=lambda pair: pair[0])]


def _is_like_json(text: str) -> bool:
    """Say whether a text was meant to be JSON."""
    head = text.lstrip("` \t\r\n")
    return head.startswith(("{", "[{", "json")) or any(f'"{name}"' in text for name in LIST_NAMES)
