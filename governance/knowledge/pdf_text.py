"""PDF to plain text: pages in order, lines joined to paragraphs, bookmarked headings as `#` lines.

Runs in a process of its own (governance.knowledge.reader), which bounds its time and memory.
"""

from __future__ import annotations

import io
import re
from collections import defaultdict
from collections.abc import Iterator, Mapping
from typing import Any, Final

from pypdf import PdfReader
from pypdf.errors import PyPdfError

from governance.knowledge.problems import (
    DocumentTextError,
    DocumentTooLongError,
    UnreadableDocumentError,
)

MOST_PAGES: Final = 2_000
_MOST_MARKS: Final = 5_000
_SPACE: Final = re.compile(r"\s+")
# A line that ends so ends its paragraph, or at least its sentence.
_ENDS: Final = re.compile(r"[.!?:;。！？：；…]['\"”’」』）)\]]*$")
_STARTS: Final = re.compile(
    r"^(?:[-•*·▪●]|\(?\d{1,3}[.)、]|[一二三四五六七八九十]+、|第.{1,6}[章节条])"
)
_WIDE: Final = re.compile("[\u3000-\u30ff\u3400-\u4dbf\u4e00-\u9fff\uac00-\ud7af\uff00-\uffef]")
_FULL_LINE: Final = 0.6
Marks = Mapping[int, Mapping[str, int]]


def pdf_text(raw: bytes, *, most_characters: int) -> str:
    """Return the text of a PDF. Cost: about 6 ms a page of prose.

    Raises:
        UnreadableDocumentError: Broken, locked by a password, too many pages, or without any text.
        DocumentTextError: It holds a NUL.
        DocumentTooLongError: More text than `most_characters`.
    """
    try:
        pages = list(_pages(raw, most_characters))
    except (PyPdfError, ValueError, KeyError, TypeError, AttributeError, IndexError) as error:
        raise UnreadableDocumentError("The PDF is broken, or takes too much to read.") from error
    text = "\n\n".join(page for page in pages if page)
    if not text:
        raise UnreadableDocumentError("The PDF holds no text; a scan needs OCR first.")
    return text


def _pages(raw: bytes, most_characters: int) -> Iterator[str]:
    reader = PdfReader(io.BytesIO(raw))
    if reader.is_encrypted and not reader.decrypt(""):
        raise UnreadableDocumentError("The PDF is locked by a password.")
    if len(reader.pages) > MOST_PAGES:
        raise UnreadableDocumentError(f"A PDF has at most {MOST_PAGES:,} pages.")
    marks = _marks(reader)
    characters = 0
    for number, page in enumerate(reader.pages):
        text = page.extract_text()
        characters += len(text)
        if characters > most_characters:
            raise DocumentTooLongError
        if "\0" in text:
            raise DocumentTextError
        yield joined(text, headings=marks.get(number, {}))


def _marks(reader: PdfReader) -> Marks:
    """Return the level of each bookmarked title by page; none where the outline is unusable."""
    found: dict[int, dict[str, int]] = defaultdict(dict)
    waiting: list[tuple[Any, int]] = [(entry, 1) for entry in reversed(reader.outline)]
    for _ in range(_MOST_MARKS):
        if not waiting:
            break
        entry, level = waiting.pop()
        if isinstance(entry, list):
            waiting.extend((inner, level + 1) for inner in reversed(entry))
            continue
        page = reader.get_destination_page_number(entry)
        if page is not None and entry.title:
            found[page][_key(str(entry.title))] = min(level, 6)
    return found


def _key(line: str) -> str:
    return _SPACE.sub("", line).casefold()


def joined(page: str, *, headings: Mapping[str, int]) -> str:
    """Return a page's text with the lines of a paragraph joined, and its headings marked. Pure.

    A line goes on in the next one where it fills the page and no sentence ends with it.

    Args:
        page: Text in lines, as it stands on the page.
        headings: Level of each title that stands on it, by its letters without blanks.
    """
    lines = [_SPACE.sub(" ", line).strip() for line in page.split("\n")]
    widest = max(map(_width, lines), default=0)
    pieces: list[str] = []
    is_open = False
    for line in lines:
        level = headings.get(_key(line), 0) if line else 0
        if level:
            line = f"\n\n{'#' * level} {line}\n"  # noqa: PLW2901 - one name for what is written
        if is_open and line and not level and not _STARTS.match(line):
            pieces[-1] = _glued(pieces[-1], line)
        else:
            pieces.append(line)
        is_open = bool(line) and not level and _width(line) >= _FULL_LINE * widest
        is_open = is_open and not _ENDS.search(line)
    return re.sub(r"\n{3,}", "\n\n", "\n".join(pieces)).strip()


def _width(line: str) -> int:
    """Return how wide a line is, in half-width letters."""
    return len(line) + len(_WIDE.findall(line))


def _glued(before: str, line: str) -> str:
    if before.endswith("-") and before[-2:-1].isalpha() and line[0].islower():
        return before[:-1] + line
    is_wide = bool(_WIDE.match(before[-1]) and _WIDE.match(line[0]))
    return before + line if is_wide else f"{before} {line}"
