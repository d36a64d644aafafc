"""Words to search by: Latin ones folded, Chinese ones as overlapping pairs, glued text taken apart."""

from __future__ import annotations

import re
from collections import Counter
from dataclasses import dataclass
from functools import cached_property
from typing import Final

from memory.providers.sentences import terms_of

MOST_WORDS: Final = 48
# Plain classes of characters: linear, and ten times as fast on many short texts as re2.
_CJK: Final = "\u3040-\u30ff\u3400-\u4dbf\u4e00-\u9fff\uac00-\ud7af"
_CJK_RUN = re.compile(f"([{_CJK}]+)")
_RUN = re.compile(r"\w+")
_LATIN_RUN = re.compile(f"[^\\W{_CJK}]+")
_LEAST_PLURAL: Final = 4


def words_of(query: str) -> tuple[str, ...]:
    """Return the words of a query, each once, at most 48; those that carry meaning if there are any.

    "GPT4测试结果" has the words gpt4, 测试, 试结, 结果. Latin plurals are folded to the singular.
    """
    parted = _parted(query)
    found = terms_of(parted) or tuple(_RUN.findall(parted))
    words = dict.fromkeys(_singular(word) for word in found)
    return tuple(words)[:MOST_WORDS]


@dataclass(frozen=True)
class SearchedText:
    """A text whose words are counted; `text` as stored."""

    text: str

    def count(self, word: str) -> int:
        """Return how often it has a word of `words_of`."""
        found = self._folded.count(word)
        return self._latin[word] if found and not _CJK_RUN.match(word) else found

    @cached_property
    def _folded(self) -> str:
        return self.text.casefold()

    @cached_property
    def _latin(self) -> Counter[str]:
        return Counter(_singular(run) for run in _LATIN_RUN.findall(self._folded))


def _parted(text: str) -> str:
    """Return the folded text with blanks between Chinese and everything else."""
    return _CJK_RUN.sub(r" \1 ", text.casefold())


def _singular(word: str) -> str:
    is_plural = word.isascii() and word.endswith("s") and not word.endswith("ss")
    return word[:-1] if is_plural and len(word) >= _LEAST_PLURAL else word
