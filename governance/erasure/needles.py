"""What the search after an erasure looks for, collected while the person is still there.

Kept with the erasure, encrypted, until the search is done: it is the person's own words.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final, Literal, get_args

import re2

from governance.erasure.decoding import digits_of, fold
from governance.erasure.sampling import Sample, corrected_since, sample_person, shared_among
from governance.models.erasure import Erasure
from memory.conf import encryption_keys
from memory.providers import crypto

Kind = Literal["identifier", "phrase", "value", "digits", "numbers", "bytes"]
KINDS: Final[tuple[Kind, ...]] = get_args(Kind)
_MOST: Final = 240
_SHORT_IDENTIFIER: Final = 6
_PLAIN_WORD: Final = re2.compile(r"[a-z]{1,11}|[0-9]{1,8}")
_LEAST_VALUE: Final = 6
_LEAST_DIGITS: Final = 8


@dataclass(frozen=True, slots=True, kw_only=True)
class Needle:
    """One text to look for.

    Attributes:
        text: Folded as `decoding.fold` does.
        is_whole: So short that only a whole value, or a whole JSON string, counts.
    """

    kind: Kind
    text: str
    is_whole: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Needles:
    """All that is looked for after one erasure."""

    items: tuple[Needle, ...] = ()

    def sealed(self) -> str:
        """Return them encrypted with the newest of the encryption keys.

        Raises:
            SealedSecretError: There is no usable key.
        """
        rows = [[needle.kind, needle.text, needle.is_whole] for needle in self.items]
        return crypto.seal(json.dumps(rows, ensure_ascii=False), keys=encryption_keys())

    @classmethod
    def opened(cls, text: str) -> Needles:
        """Return what `sealed` put away; of an empty text, none.

        Raises:
            SealedSecretError: No key opens it.
        """
        if not text:
            return cls()
        rows = json.loads(crypto.open_sealed(text, keys=encryption_keys()))
        return cls(items=tuple(Needle(kind=row[0], text=row[1], is_whole=row[2]) for row in rows))

    def counts(self) -> dict[str, int]:
        """Return how many of each kind there are."""
        return dict(sorted(Counter(needle.kind for needle in self.items).items()))


def collect(*, alias: str, erasure: Erasure) -> Needles:
    """Return what to look for once `erasure` is done, read before anything of it is changed.

    Inside the caller's transaction of role maint. Mode `tagged` looks for the tagged values alone.
    What also stands in rows that the tenant wrote itself (a prompt, a document) is left out.
    Cost: two short queries a table, and one pass over the tenant's shared texts.
    """
    sample = sample_person(alias=alias, erasure=erasure)
    found = list(_chosen(sample, with_words=erasure.mode == "all"))
    shared = shared_among(
        alias=alias, erasure=erasure, texts=[needle.text for needle in found if not needle.is_whole]
    )
    return Needles(items=tuple(needle for needle in found if needle.text not in shared)[:_MOST])


def still_telling(*, alias: str, erasure: Erasure, needles: Needles) -> Needles:
    """Return the needles without those that other persons have corrected since they were sealed."""
    texts = [needle.text for needle in needles.items if not needle.is_whole]
    theirs = corrected_since(alias=alias, erasure=erasure, texts=texts)
    return Needles(items=tuple(one for one in needles.items if one.text not in theirs))


def _chosen(sample: Sample, *, with_words: bool) -> Iterable[Needle]:
    """Make needles of a sample, each once, the surest first."""
    seen: set[str] = set()
    rows: list[Needle] = [*_values(sample.values)]
    if with_words:
        own = [_identifier(text, is_name=True) for text in sample.names]
        keys = [_identifier(text, is_name=False) for text in sample.keys]
        rows = [needle for needle in own + keys if needle] + rows
        rows += [Needle(kind="phrase", text=text) for text in sample.phrases]
        rows += [Needle(kind="numbers", text=text) for text in sample.numbers]
        rows += [Needle(kind="bytes", text=text) for text in sample.hexes]
    for needle in rows:
        if needle.text and needle.text not in seen:
            seen.add(needle.text)
            yield needle


def _identifier(text: str, *, is_name: bool) -> Needle | None:
    """Make a needle of an identifier; a short key of a thread or a message tells nothing."""
    folded = fold(text)
    is_whole = len(folded) < _SHORT_IDENTIFIER or bool(_PLAIN_WORD.fullmatch(folded))
    if is_whole and not is_name:
        return None
    return Needle(kind="identifier", text=folded, is_whole=is_whole)


def _values(values: Iterable[str]) -> Iterable[Needle]:
    for value in values:
        folded = fold(value)
        if len(folded) >= _LEAST_VALUE:
            yield Needle(kind="value", text=folded)
        digits = digits_of(value)
        if len(digits) >= _LEAST_DIGITS and "\n" not in digits and digits != folded:
            yield Needle(kind="digits", text=digits)
