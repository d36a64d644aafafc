"""Masks: what is personal gives way to `[pii:kind]`, wherever in a person's texts it stands.

A value is known by a tag, by today's rules, or because it was found in another text of the same
person. It is looked for folded, in any case, as bare digits and behind one layer of encoding. Pure.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from governance.pii import find_pii
from governance.redlines import find_redlines
from memory.sanitize.decoding import decoded
from memory.sanitize.folding import Shadow, fold

_LEAST_VALUE: Final = 4
_LEAST_DIGITS: Final = 7
_MOST_ROUNDS: Final = 16
_GAP: Final = re.compile(r"[ \t\n\-.()/_]{0,3}")
_PLACEHOLDER: Final = re.compile(r"\[pii:[a-z_]{2,20}\]")

Tag = Mapping[str, Any]


@dataclass(frozen=True, slots=True, order=True)
class Span:
    """Characters of a text that go, end exclusive, and what kind of thing they are."""

    start: int
    end: int
    kind: str


@dataclass(slots=True, kw_only=True)
class Mask:
    """What gives way: the kinds asked for, and the values known so far.

    Attributes:
        kinds: Only these kinds; empty for all, red lines too.
        values: Folded values by the kind they were found as.
        digits: The same as bare digits, of those that have enough.
    """

    kinds: frozenset[str] = frozenset()
    values: dict[str, str] = field(default_factory=dict)
    digits: dict[str, str] = field(default_factory=dict)

    def learn(self, text: str, tags: Sequence[Tag] = ()) -> None:
        """Remember the values that a text gives away. Linear."""
        for span in self._evident(text, tags):
            self._remember(_lower(fold(text[span.start : span.end]).text).strip(), span.kind)

    def learn_all(self, value: object) -> None:
        """Remember the values in every string of a JSON value."""
        for text in strings_in(value):
            self.learn(text)

    def masked(self, text: str, tags: Sequence[Tag] = ()) -> str:
        """Return a text without what must go; itself where there is nothing.

        What has gone may show more, so it is looked at again until nothing is found. Cost: about
        0.1 ms for a short turn, and a search for each value known.
        """
        spans = self._spans(text, tags)
        for _ in range(_MOST_ROUNDS):
            if not spans:
                break
            text = _without(text, spans)
            spans = self._spans(text, ())
        return text

    def masked_json(self, value: Any) -> Any:
        """Return a JSON value whose strings, names of members too, are masked."""
        if isinstance(value, str):
            return self.masked(value)
        if isinstance(value, list):
            return [self.masked_json(one) for one in value]
        if isinstance(value, dict):
            return {self.masked(name): self.masked_json(one) for name, one in value.items()}
        return self._masked_number(value)

    def _masked_number(self, value: Any) -> Any:
        """Return a number of a JSON value; one that is a known value becomes text."""
        is_number = isinstance(value, int) and not isinstance(value, bool)
        kind = self.digits.get(str(value)) if is_number else None
        return f"[pii:{kind}]" if kind else value

    def _remember(self, value: str, kind: str) -> None:
        if len(value) < _LEAST_VALUE or _PLACEHOLDER.search(value):
            return
        self.values.setdefault(value, kind)
        digits = "".join(one for one in value if one.isdigit())
        if len(digits) >= _LEAST_DIGITS and 2 * len(digits) >= len(value.replace(" ", "")):
            self.digits.setdefault(digits, kind)

    def _spans(self, text: str, tags: Sequence[Tag]) -> list[Span]:
        return _apart([*self._evident(text, tags), *self._known(text)], text)

    def _evident(self, text: str, tags: Sequence[Tag]) -> list[Span]:
        """Return what tags and today's rules say of a text."""
        found = [Span(one.start, one.end, one.kind) for one in find_pii(text)]
        found += [Span(one.start, one.end, one.kind) for one in find_redlines(text)]
        found += [
            Span(tag["start"], tag["end"], str(tag["kind"]))
            for tag in tags
            if 0 <= tag["start"] < tag["end"] <= len(text)
        ]
        wanted = [one for one in found if not self.kinds or one.kind in self.kinds]
        return [one for one in wanted if not _PLACEHOLDER.fullmatch(text[one.start : one.end])]

    def _known(self, text: str) -> Iterator[Span]:
        """Yield where values stand that were found elsewhere."""
        if not self.values or not text:
            return
        shadow = fold(text)
        lowered = _lower(shadow.text)
        for start, end, kind in self._hits(lowered):
            yield Span(*shadow.span(start=start, end=end), kind)
        view = decoded(shadow.text)
        if view is not None:
            for start, end, kind in self._hits(_lower(view.text)):
                first, last = view.span(start=start, end=end)
                yield Span(*_origin(shadow, first, last), kind)

    def _hits(self, text: str) -> Iterator[tuple[int, int, str]]:
        for value, kind in self.values.items():
            for start in _places(text, value):
                if _stands_alone(text, start, start + len(value)):
                    yield start, start + len(value), kind
        if not self.digits:
            return
        bare, places = _bare_digits(text)
        for digits, kind in self.digits.items():
            for start in _places(bare, digits):
                yield places[start], places[start + len(digits) - 1] + 1, kind


def strings_in(value: object) -> Iterator[str]:
    """Yield every string of a JSON value, names of members too."""
    if isinstance(value, str):
        yield value
    elif isinstance(value, list):
        for one in value:
            yield from strings_in(one)
    elif isinstance(value, dict):
        for name, one in value.items():
            yield str(name)
            yield from strings_in(one)


def fitted(text: str, most: int) -> str:
    """Return a masked text cut to what its column holds, without half a placeholder at its end."""
    if len(text) <= most:
        return text
    for placeholder in _PLACEHOLDER.finditer(text):
        if placeholder.start() < most < placeholder.end():
            return text[: placeholder.start()]
    return text[:most]


def _origin(shadow: Shadow, start: int, end: int) -> tuple[int, int]:
    return shadow.span(start=start, end=end)


def _lower(text: str) -> str:
    """Return a text in lower case, each character for itself, so that places stay."""
    lowered = text.lower()
    if len(lowered) == len(text):
        return lowered
    return "".join(low if len(low := one.lower()) == 1 else one for one in text)


def _places(text: str, part: str) -> Iterator[int]:
    start = text.find(part)
    while start >= 0:
        yield start
        start = text.find(part, start + len(part))


def _stands_alone(text: str, start: int, end: int) -> bool:
    """Say whether a stretch is not the middle of a longer word of Latin letters."""
    before, after = text[start - 1 : start], text[end : end + 1]
    is_inside = _is_letter(before) and _is_letter(text[start])
    return not is_inside and not (_is_letter(after) and _is_letter(text[end - 1]))


def _is_letter(one: str) -> bool:
    return one.isascii() and one.isalpha()


def _bare_digits(text: str) -> tuple[str, list[int]]:
    """Return the digits of a text, runs that belong to different numbers apart, and their places."""
    kept: list[str] = []
    places: list[int] = []
    end = None
    for place, one in enumerate(text):
        if not one.isdigit():
            continue
        if end is not None and not _GAP.fullmatch(text, end, place):
            kept.append("|")
            places.append(end)
        kept.append(one)
        places.append(place)
        end = place + 1
    return "".join(kept), places


def _apart(spans: Iterable[Span], text: str) -> list[Span]:
    """Return spans in order; those that overlap become one, named after the longest.

    A placeholder that a span reaches into goes as a whole.
    """
    joined: list[tuple[Span, int]] = []
    for span in sorted(_widened(spans, text)):
        size = span.end - span.start
        if joined and span.start < joined[-1][0].end:
            last, widest = joined.pop()
            kind = span.kind if size > widest else last.kind
            whole = Span(last.start, max(last.end, span.end), kind)
            joined.append((whole, max(size, widest)))
        else:
            joined.append((span, size))
    return [span for span, _ in joined]


def _widened(spans: Iterable[Span], text: str) -> list[Span]:
    found = list(spans)
    if not found or "[pii:" not in text:
        return found
    holders = [(one.start(), one.end()) for one in _PLACEHOLDER.finditer(text)]
    return [_around(span, holders) for span in found]


def _around(span: Span, holders: Sequence[tuple[int, int]]) -> Span:
    start, end = span.start, span.end
    for first, last in holders:
        if first < end and start < last:
            start, end = min(start, first), max(end, last)
    return Span(start, end, span.kind)


def _without(text: str, spans: Sequence[Span]) -> str:
    pieces: list[str] = []
    position = 0
    for span in spans:
        pieces += (text[position : span.start], f"[pii:{span.kind}]")
        position = span.end
    pieces.append(text[position:])
    return "".join(pieces)
