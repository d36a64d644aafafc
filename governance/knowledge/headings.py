"""Where a text's sections begin: Markdown headings, and the ways chapters are named without it. Pure."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

MOST_PATH_CHARACTERS: Final = 300
BETWEEN: Final = " > "
_MOST_TITLE_CHARACTERS: Final = 80
_FENCE: Final = re.compile(r" {0,3}(```|~~~)")
_HASHES: Final = re.compile(r" {0,3}(#{1,6})[ \t]+(\S.*)")
_UNDERLINE: Final = re.compile(r" {0,3}(?:={3,}|-{3,})[ \t]*$")
_ENDS_A_SENTENCE: Final = re.compile(r"[.。!！?？;；,，:：、]\s*$")
_DIGITS: Final = "[0-9〇零一二三四五六七八九十百]"
_NAMED: Final = (
    (re.compile(rf"第{_DIGITS}{{1,6}}[篇部卷编]"), 1),
    (re.compile(rf"第{_DIGITS}{{1,6}}[章讲回]"), 2),
    (re.compile(rf"第{_DIGITS}{{1,6}}节"), 3),
    (re.compile(r"(?:Part|Book)\s+(?:\d{1,3}|[IVXLC]{1,7})\b"), 1),
    (re.compile(r"(?:Chapter|Appendix)\s+(?:\d{1,3}|[IVXLC]{1,7}|[A-Z])\b"), 2),
    (re.compile(r"Section\s+[\dIVXLC]{1,7}\b"), 3),
    (re.compile(r"\d{1,2}(?:\.\d{1,2}){1,3}\s+\S"), 4),
)
_MOST_NAMED_CHARACTERS: Final = 70


@dataclass(frozen=True, slots=True, kw_only=True)
class Section:
    """A stretch of a text under one heading, its line included; `path` leads to it from the top."""

    start: int
    end: int
    path: str = ""


@dataclass(frozen=True, slots=True)
class _Found:
    start: int
    level: int
    title: str


def sections(text: str) -> list[Section]:
    """Return the sections of a text in order; together they are all of it. Cost: linear.

    Headings with nothing under them begin the section of the heading that follows.
    """
    found: list[Section] = []
    path: list[tuple[int, str]] = []
    start, shown = 0, ""
    for heading in _headings(text):
        if heading.start > start:
            found.append(Section(start=start, end=heading.start, path=shown))
        path = [entry for entry in path if entry[0] < heading.level]
        path.append((heading.level, heading.title[:_MOST_TITLE_CHARACTERS]))
        start, shown = heading.start, _shown(path)
    found.append(Section(start=start, end=len(text), path=shown))
    return [section for section in found if section.start < section.end]


def _shown(path: list[tuple[int, str]]) -> str:
    """Return the titles from the top down, without the outermost where they are too many."""
    titles = [title for _, title in path]
    while len(shown := BETWEEN.join(titles)) > MOST_PATH_CHARACTERS:
        titles.pop(0)
    return shown


def _headings(text: str) -> Iterator[_Found]:
    is_code = False
    position = 0
    before = ""
    for line in text.splitlines(keepends=True):
        if _FENCE.match(line):
            is_code = not is_code
        elif not is_code and (level := _level(line, before)):
            mark = _HASHES.match(line)
            title = mark[2].rstrip(" \t\r\n#") if mark else line
            start = position
            if _UNDERLINE.match(line):
                start, title = position - len(before), before
            yield _Found(start, level, " ".join(title.split()))
        position += len(line)
        before = line


def _level(line: str, before: str) -> int:
    """Return the level of the heading that a line is, or is the underline of; 0 for none."""
    if mark := _HASHES.match(line):
        return len(mark[1])
    if _UNDERLINE.match(line):
        is_title = before.strip() and len(before) <= _MOST_TITLE_CHARACTERS
        is_plain = is_title and not _level_named(before) and not _HASHES.match(before)
        return (1 if "=" in line else 2) if is_plain and not _UNDERLINE.match(before) else 0
    return _level_named(line)


def _level_named(line: str) -> int:
    stripped = line.strip()
    if not stripped or len(stripped) > _MOST_NAMED_CHARACTERS or _ENDS_A_SENTENCE.search(stripped):
        return 0
    return next((level for pattern, level in _NAMED if pattern.match(stripped)), 0)
