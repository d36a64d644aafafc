"""Names of things in a text: the key a name is known by, and finding many names in one pass. Pure.

A name is found whatever its case, width or spacing: Latin words on their borders, Chinese, Japanese
and Korean wherever the signs stand together; a single sign only where no other one touches it.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import Final

from memory.retrieval.words import folded

MOST_KEY_CHARACTERS: Final = 240
_CJK: Final = "\u3040-\u30ff\u3400-\u4dbf\u4e00-\u9fff\uac00-\ud7af\uf900-\ufaff"
# A run of letters and digits, one CJK sign, or one sign of any other kind; spaces between.
_TOKEN: Final = re.compile(f"(\\s*)([^\\W_{_CJK}]+|[{_CJK}]|\\S)")
_IS_CJK: Final = re.compile(f"[{_CJK}]")
# What is neither seen nor heard: joiners, marks of direction, soft hyphens, variation selectors.
_UNSEEN: Final = re.compile("[\u00ad\u200b-\u200f\u202a-\u202e\u2060-\u206f\ufe00-\ufe0f\ufeff]")
_SPACE: Final = " "
_DIGEST: Final = 64


def name_key(name: str) -> str:
    """Return what a name is known by: folded (NFKC, case, width), unseen signs gone, one space.

    The same name written otherwise has the same key; at most 240 characters, of a longer one its
    beginning and a hash of all of it.
    """
    key = " ".join(folded(_UNSEEN.sub("", name)).split())
    if len(key) <= MOST_KEY_CHARACTERS:
        return key
    digest = hashlib.sha256(key.encode("utf-8", "surrogatepass")).hexdigest()
    return key[: MOST_KEY_CHARACTERS - _DIGEST] + digest


def tokens_of(text: str) -> list[str]:
    """Return a text's tokens in order; a space between two CJK signs is one too. Linear."""
    tokens: list[str] = []
    is_after_cjk = False
    for match in _TOKEN.finditer(folded(_UNSEEN.sub("", text))):
        is_cjk = _IS_CJK.match(match[2]) is not None
        if match[1] and is_after_cjk and is_cjk:
            tokens.append(_SPACE)
        tokens.append(match[2])
        is_after_cjk = is_cjk
    return tokens


@dataclass(slots=True)
class _Node:
    """A place in the tree of names: what follows, and whose names end here."""

    following: dict[str, _Node] = field(default_factory=dict)
    owners: list[tuple[str, str]] = field(default_factory=list)


class NameIndex:
    """Many names, each of an owner, to be found in texts.

    Finding costs the text's tokens times the length of what they begin to spell, so it does not
    grow with how many names there are.
    """

    def __init__(self, names: Iterable[tuple[str, str]]) -> None:
        """Take (owner, name) pairs. Cost: about 20 µs a name."""
        self._root = _Node()
        for owner, name in names:
            self._add(owner, name)

    def _add(self, owner: str, name: str) -> None:
        node = self._root
        tokens = tokens_of(name)
        if not tokens:
            return
        for token in tokens:
            node = node.following.setdefault(token, _Node())
        node.owners.append((owner, name))

    def found_in(self, text: str) -> dict[str, list[str]]:
        """Return the names that occur in a text, by owner, in order of their first place."""
        tokens = tokens_of(text)
        found: dict[str, dict[str, None]] = {}
        for start in range(len(tokens)):
            for owner, name in self._at(tokens, start):
                found.setdefault(owner, {})[name] = None
        return {owner: list(names) for owner, names in found.items()}

    def _at(self, tokens: list[str], start: int) -> Iterator[tuple[str, str]]:
        """Yield whose names begin at a token."""
        node = self._root
        for place in range(start, len(tokens)):
            following = node.following.get(tokens[place])
            if following is None:
                return
            node = following
            if node.owners and not _is_inside(tokens, start, place):
                yield from node.owners


def _is_inside(tokens: list[str], start: int, end: int) -> bool:
    """Say whether a lone CJK sign stands inside a run of others: then it is no name."""
    if start != end or not _IS_CJK.match(tokens[start]):
        return False
    beside = tokens[max(start - 1, 0) : start] + tokens[end + 1 : end + 2]
    return any(_IS_CJK.match(token) for token in beside)
