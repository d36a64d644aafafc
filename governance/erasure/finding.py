"""Finding the needles of several erasures in stored values: a cheap look at much, then exactly."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

import re2

from governance.erasure.decoding import readings
from governance.erasure.needles import Needle, Needles

# Stand between values of a batch; no text of the product has them, nor do spaces fold them away.
TEXT_END: Final = "\x02"
OTHER_END: Final = "\x03"
_SET_BYTES: Final = 256 << 20
_COUNTRY_CODE_DIGITS: Final = 4
_LONG_DIGITS: Final = 11
_STEM: Final = 4
_FEWEST_WORDS: Final = 4
_SHARE_OF_WORDS: Final = 0.75
_WORD = re2.compile(r"[\p{L}\p{N}]{4,}")
_LEXEME = re2.compile(r"'((?:[^']|'')*)'")
_NAMING_KEYS: Final = (
    "user",
    "user_id",
    "userid",
    "username",
    "end_user",
    "end_user_id",
    "person",
    "person_id",
    "subject",
    "subject_id",
    "speaker",
    "author",
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Value:
    """One stored value.

    Attributes:
        is_text: Its column holds text.
        can_name: A whole value in this column may be a person's identifier.
        is_tsvector: It is words of a text search, perhaps cut down to their stems.
    """

    text: str
    is_text: bool = True
    can_name: bool = True
    is_tsvector: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Hit:
    """That something of one erasure's person stands in a value."""

    erasure_id: str
    kind: str


class Finder:
    """Looks for all needles of several erasures at once. Cost: linear in what is looked at."""

    def __init__(self, needles: Mapping[str, Needles]) -> None:
        """Take the needles by erasure."""
        self._owners: dict[Needle, list[str]] = {}
        for erasure_id, one in needles.items():
            for needle in one.items:
                self._owners.setdefault(needle, []).append(erasure_id)
        self._patterns: list[Needle] = []
        options = re2.Options()
        options.literal = True
        options.max_mem = _SET_BYTES
        self._set = re2.Set.SearchSet(options)
        for needle in self._owners:
            for literal in _literals(needle):
                self._set.Add(literal)
                self._patterns.append(needle)
        if self._patterns:
            self._set.Compile()
        self._stems = _by_stem(needle for needle in self._owners if needle.kind == "phrase")

    def is_suspect(self, batch: str) -> bool:
        """Say whether something may be in a batch, whose values end with the marks above.

        True also where the batch has more readings than were looked at.
        """
        if not self._patterns:
            return False
        found = readings(batch)
        return found.is_cut or any(self._set.Match(text) for text in found.texts)

    def hits(self, value: Value) -> tuple[frozenset[Hit], bool]:
        """Return what exactly is in one value, and whether not all its readings were looked at."""
        if not self._patterns:
            return frozenset(), False
        end = TEXT_END if value.is_text else OTHER_END
        found = readings(f"{end}{value.text}{end}")
        near: set[Needle] = set()
        for text in found.texts:
            near |= {self._patterns[index] for index in self._set.Match(text) or ()}
        sure = {needle for needle in near if _is_in(needle, found.texts, value)}
        if value.is_tsvector:
            sure |= set(self._in_lexemes(value.text))
        hits = {
            Hit(erasure_id=owner, kind=needle.kind)
            for needle in sure
            for owner in self._owners[needle]
        }
        return frozenset(hits), found.is_cut

    def _in_lexemes(self, text: str) -> Iterator[Needle]:
        """Yield phrases most of whose words are in a tsvector, whole or as stems."""
        lexemes = {one.replace("''", "'") for one in _LEXEME.findall(text)}
        stems: dict[str, list[str]] = {}
        for one in lexemes:
            stems.setdefault(one[:_STEM], []).append(one)
        near = {needle for stem in stems for needle in self._stems.get(stem, ())}
        for needle in near:
            words = set(_WORD.findall(needle.text))
            there = sum(
                any(
                    word.startswith(one) or one.startswith(word)
                    for one in stems.get(word[:_STEM], ())
                )
                for word in words
            )
            if there >= _SHARE_OF_WORDS * len(words):
                yield needle


def _literals(needle: Needle) -> tuple[str, ...]:
    if not needle.is_whole:
        return (needle.text,)
    return (f"{TEXT_END}{needle.text}{TEXT_END}", json.dumps(needle.text, ensure_ascii=False))


def _by_stem(needles: Iterable[Needle]) -> dict[str, list[Needle]]:
    found: dict[str, list[Needle]] = {}
    for needle in needles:
        words = set(_WORD.findall(needle.text))
        for word in words if len(words) >= _FEWEST_WORDS else ():
            found.setdefault(word[:_STEM], []).append(needle)
    return found


def _is_in(needle: Needle, texts: Sequence[str], value: Value) -> bool:
    if needle.is_whole:
        return _is_whole(needle.text, texts, value)
    if needle.kind == "identifier":
        return any(_stands_alone(needle.text, text) for text in texts)
    if needle.kind == "digits":
        return any(_is_number(needle.text, run) for text in texts for run in text.split())
    return any(needle.text in text for text in texts)


def _is_whole(wanted: str, texts: Sequence[str], value: Value) -> bool:
    """Say whether a short name is a whole value of a column for names, or what JSON calls a user."""
    if value.is_text and value.can_name and texts[0] == f"{TEXT_END}{wanted}{TEXT_END}":
        return True
    quoted = json.dumps(wanted, ensure_ascii=False)
    pairs = [f'"{key}":{space}{quoted}' for key in _NAMING_KEYS for space in ("", " ")]
    return any(pair in text for text in texts for pair in pairs)


def _stands_alone(wanted: str, text: str) -> bool:
    """Say whether an identifier is there and no part of a longer one: `user-1` is not `user-10`."""
    start = text.find(wanted)
    while start >= 0:
        end = start + len(wanted)
        around = text[start - 1 : start] + text[end : end + 1]
        if not any(sign.isascii() and sign.isalnum() for sign in around):
            return True
        start = text.find(wanted, start + 1)
    return False


def _is_number(wanted: str, run: str) -> bool:
    """Say whether a run of digits is a number, perhaps behind the code of its country."""
    if not run.isdigit() or wanted not in run:
        return False
    if len(wanted) >= _LONG_DIGITS:
        return True
    return run.endswith(wanted) and len(run) - len(wanted) <= _COUNTRY_CODE_DIGITS
