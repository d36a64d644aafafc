"""Cutting a document into the short stretches it is found by. Pure.

Embedding models average a text, so a long one is found by nothing in particular: stretches of about
a hundred tokens, cut where sections, paragraphs or sentences end, are found by what they say.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import accumulate, takewhile
from typing import Final, Self

from governance.knowledge.headings import BETWEEN, Section, sections
from memory.tokens import estimate

# Tokens of a chunk: from here on a paragraph's end closes it; a heading closes it earlier.
ENOUGH_TOKENS: Final = 80
MOST_TOKENS: Final = 120
_LEAST_TOKENS: Final = 30
# A section's last chunk that would have fewer takes from the one before it.
_LITTLE_TOKENS: Final = 50
# The last sentence of a chunk is repeated in the next one of its paragraph, if it is this short.
_REPEATED_TOKENS: Final = 25

_SENTENCE: Final = re.compile(
    r"[。！？；…]+[”’」』）)\]\"']*|[.!?;]+[\"'”’)\]]*(?=\s)|\n(?:[ \t\r]*\n)+|\n"
)
_CLAUSE: Final = re.compile(r"[，、：,:](?=.)|\s")
# What belongs to the letter before it: accents, joiners, variants, skin tones.
_GOES_ON: Final = re.compile("[\u0300-\u036f\u200d\ufe0e\ufe0f\u20e3\U0001f3fb-\U0001f3ff]")
_CHARACTERS_TRIED: Final = MOST_TOKENS * 4


@dataclass(frozen=True, slots=True, kw_only=True)
class Chunk:
    """A stretch of a text: `content` is exactly text[start:end].

    Attributes:
        position: Its place, from 0.
        heading: Titles of the sections it stands in, outermost first.
    """

    position: int
    start: int
    end: int
    content: str
    heading: str


@dataclass(frozen=True, slots=True)
class _Unit:
    """What is not cut any further; `is_last` of its paragraph, or blank."""

    start: int
    end: int
    tokens: int
    is_last: bool
    is_blank: bool


@dataclass(frozen=True, slots=True)
class _Span:
    start: int
    end: int
    path: str


def chunks(text: str) -> list[Chunk]:
    """Return the chunks of a text in order, none over 120 tokens; they cover all but blanks.

    Cost: linear, about 1 s for two million characters.
    """
    found: list[Chunk] = []
    for span in _spans(text):
        start, end = _trimmed(text, span.start, span.end)
        # Where only blanks follow a repeated sentence, there is nothing new to tell.
        if start < end and (not found or end > found[-1].end):
            found.append(
                Chunk(
                    position=len(found),
                    start=start,
                    end=end,
                    content=text[start:end],
                    heading=span.path,
                )
            )
    return found


def _spans(text: str) -> Iterator[_Span]:
    """Yield where chunks begin and end; a whole section that is too short takes in the next one."""
    before, now = _Open(path=""), _Open(path="")
    for section in sections(text):
        if now.is_short_section:
            now.path = _common(now.path, section.path)
        else:
            yield from _settled(before, now)
            before, now = _Open(path=""), _Open(path=section.path, is_short_section=True)
        for unit in _units(text, section):
            if now.units and now.tokens + unit.tokens > MOST_TOKENS:
                yield from before.closed()
                before, now = now, _Open(path=section.path).with_units(now.repeated(unit))
            now.add(unit)
            if unit.is_last and now.tokens >= ENOUGH_TOKENS:
                yield from before.closed()
                before, now = now, _Open(path=section.path)
    yield from _settled(before, now)


def _settled(before: _Open, last: _Open) -> Iterator[_Span]:
    """Yield the last two chunks of a section; where little is left for the last one, they share."""
    units = [unit for unit in last.units if not before.units or unit.start >= before.units[-1].end]
    if not before.units or not units or last.tokens >= _LITTLE_TOKENS:
        yield from before.closed()
        yield from last.closed()
        return
    units = before.units + units
    sums = [0, *accumulate(unit.tokens for unit in units)]
    cut = min(range(1, len(units)), key=lambda at: abs(2 * sums[at] - sums[-1]))
    if max(sums[cut], sums[-1] - sums[cut]) > MOST_TOKENS:
        cut = len(before.units)
    yield _Span(units[0].start, units[cut - 1].end, before.path)
    yield _Span(units[cut].start, units[-1].end, last.path)


class _Open:
    """A chunk that is being filled."""

    def __init__(self, *, path: str, is_short_section: bool = False) -> None:
        self.path = path
        self.units: list[_Unit] = []
        self.tokens = 0
        # Whether it is a whole section yet, and too short to stand alone.
        self.is_short_section = is_short_section

    def with_units(self, units: list[_Unit]) -> Self:
        """Return it with some units to begin with."""
        for unit in units:
            self.add(unit)
        return self

    def add(self, unit: _Unit) -> None:
        """Take a unit; no chunk begins with a blank one."""
        if unit.is_blank and not self.units:
            return
        self.units.append(unit)
        self.tokens += unit.tokens
        self.is_short_section = self.is_short_section and self.tokens < _LEAST_TOKENS

    def closed(self) -> Iterator[_Span]:
        """Yield what it has become, if anything."""
        if self.units:
            yield _Span(self.units[0].start, self.units[-1].end, self.path)

    def repeated(self, following: _Unit) -> list[_Unit]:
        """Return the sentence that the next chunk begins with, so that no thought is torn apart."""
        last = self.units[-1]
        fits = last.tokens <= _REPEATED_TOKENS and last.tokens + following.tokens <= MOST_TOKENS
        return [last] if fits and len(self.units) > 1 and not last.is_last else []


def _common(path: str, other: str) -> str:
    """Return what two paths of headings share from the top."""
    pairs = zip(path.split(BETWEEN), other.split(BETWEEN), strict=False)
    return BETWEEN.join(title for title, _ in takewhile(lambda pair: pair[0] == pair[1], pairs))


def _units(text: str, section: Section) -> Iterator[_Unit]:
    """Yield the sentences of a section, long ones in parts; together they are all of it."""
    start = section.start
    for match in _SENTENCE.finditer(text, section.start, section.end):
        is_gap = match[0].count("\n") > 1
        yield from _parts(text, start, match.end(), is_last=is_gap)
        start = match.end()
    yield from _parts(text, start, section.end, is_last=True)


def _parts(text: str, start: int, end: int, *, is_last: bool) -> Iterator[_Unit]:
    while start < end:
        cut = end
        tokens = estimate(text[start:cut]) if cut - start <= _CHARACTERS_TRIED else MOST_TOKENS + 1
        if tokens > MOST_TOKENS:
            cut = _cut(text, start, min(end, start + _CHARACTERS_TRIED))
            tokens = estimate(text[start:cut])
        is_blank = not text[start:cut].strip()
        yield _Unit(start, cut, tokens, is_last and cut == end, is_blank)
        start = cut


def _cut(text: str, start: int, end: int) -> int:
    """Return where to cut so that what comes before fits: at a clause, a blank, or anywhere."""
    while (tokens := estimate(text[start:end])) > MOST_TOKENS and end - start > 1:
        end = start + max(1, min(end - start - 1, (end - start) * MOST_TOKENS // tokens))
    half = start + (end - start) // 2
    breaks = [match.end() for match in _CLAUSE.finditer(text, half, end)]
    if breaks:
        return breaks[-1]
    while end - start > 1 and end < len(text) and _GOES_ON.match(text, end) and end > half:
        end -= 1
    return end


def _trimmed(text: str, start: int, end: int) -> tuple[int, int]:
    content = text[start:end]
    left = len(content) - len(content.lstrip())
    return start + left, start + len(content.rstrip())
