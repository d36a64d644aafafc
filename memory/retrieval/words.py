"""Words to find a text by: folded Latin stems and overlapping pairs of Chinese, Japanese, Korean. Pure.

PostgreSQL's own configurations take a whole Chinese sentence for one word, so the words are made
here, for the text that is stored and for the question alike.
Source: Porter, "Snowball: a language for stemming algorithms", 2001, for the English stems.
"""

from __future__ import annotations

import re
import unicodedata
import zlib
from functools import lru_cache
from typing import Final

import numpy as np
import Stemmer
from numpy.typing import NDArray

# Plain classes of characters: linear, and ten times as fast on many short texts as re2.
_CJK: Final = "\u3040-\u30ff\u3400-\u4dbf\u4e00-\u9fff\uac00-\ud7af\uf900-\ufaff"
_RUN: Final = re.compile(f"[{_CJK}]+|[^\\W_{_CJK}]+")
_FIRST_CJK: Final = re.compile(f"[{_CJK}]")
MOST_WORDS: Final = 4000
_MOST_WORD_CHARACTERS: Final = 64
# Words that say nothing of what a text is about.
STOP_WORDS: Final = frozenset(
    """
    a an the and or but if so as of at by for from in into on onto to with about than then that this
    these those there here i me my mine myself you your yours yourself he him his himself she her
    hers herself it its itself we us our ours ourselves they them their theirs themselves who whom
    whose which what when where why how am is are was were be been being do does did doing have has
    had having will would shall should can could may might must not no nor too very just also s t d
    m re ve ll don didn doesn isn aren wasn weren won wouldn couldn shouldn hasn haven hadn oh hey
    hi hello yeah yes ok okay well
    """.split()
)


def words_of(text: str) -> list[str]:
    """Return the words of a text in order, with repeats, at most 4,000; linear.

    Full-width and upper-case forms are folded, Latin words stemmed, function words left out; a run
    of Chinese, Japanese or Korean becomes its overlapping pairs. "GPT4测试结果" has the words gpt4, 测试, 试结, 结果.
    """
    words: list[str] = []
    for match in _RUN.finditer(folded(text)):
        run = match[0]
        if _FIRST_CJK.match(run):
            words += [run[i : i + 2] for i in range(len(run) - 1)] or [run]
        elif run not in STOP_WORDS:
            words.append(stem_of(run[:_MOST_WORD_CHARACTERS]))
        if len(words) >= MOST_WORDS:
            return words[:MOST_WORDS]
    return words


def folded(text: str) -> str:
    """Return a text in its compatibility form and without case, ’ as '."""
    return unicodedata.normalize("NFKC", text).casefold()


@lru_cache(maxsize=100_000)
def stem_of(word: str) -> str:
    """Return the stem of a folded word; of a word that is not Latin, the word."""
    # A stemmer keeps state, so each miss has its own; a hit costs nothing.
    stem: str = Stemmer.Stemmer("english", 0).stemWord(word)
    return stem


def hashed(words: list[str]) -> NDArray[np.uint32]:
    """Return the words as 32-bit hashes, in order.

    Two words of one person's memory in a hundred thousand share one; a hit is read in full anyway.
    """
    return np.fromiter((hash_of(word) for word in words), dtype=np.uint32, count=len(words))


def hash_of(word: str) -> int:
    """Return a word's hash, the same on every machine, 0 to 2³² - 1."""
    return zlib.crc32(word.encode("utf-8", "surrogatepass"))


def message_terms(text: str) -> list[int]:
    """Return the keyword index of a message: its words' hashes, each once, as signed integers."""
    unique = np.unique(hashed(words_of(text)))
    return [int(term) for term in unique.view(np.int32)]
