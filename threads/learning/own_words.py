"""What of a message are a person's own words: not what they quote, nor what memory told them. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

import re2

from governance.core.words import is_negated, telling_words
from memory.retrieval.words import words_of
from memory.sanitize import sanitize

_FENCED: Final = re2.compile(r"(?s)```.*?(?:```|\z)")
_QUOTED: Final = re2.compile(r"(?m)^[ \t]*[>＞|].*$")
# A block as prompts show memory in, and what somebody is said to have said.
_SHOWN: Final = re2.compile(
    r"(?s)\[[^\]\n]{2,600}\][^\n]{0,40}\n.*?\[(?:End of|/)?[^\]\n]{0,200}(?:End of|结束|/)[^\]\n]{0,200}\]"
)
_TOLD: Final = re2.compile(
    r"(?i)\b(?:said|says|saying|told (?:me|you|us|him|her|them)|wrote|writes|asked|asks|quote)\b[^\n\"“”]{0,20}"
    r"[\"“][^\"“”]*[\"”]|(?:说过?|讲过?|写道|写过?|问过?|告诉[我你他她]们?)[^\n“”「」『』\"]{0,12}[“「『\"][^”」』\"]*[”」』\"]"
)
# What asks states nothing, however it is put.
_ASKS: Final = re2.compile(
    r"(?i)^\W*(?:do|does|did|am|is|are|was|were|can|could|would|should|will|what|which|who|where|when|why|how)\b"
    r".*[?？]\s*$|[吗呢么][?？]\s*$"
)
_SENTENCE: Final = re2.compile(r"(?:[^。！？!?；;\n.]|\.[^\s.])+(?:[。！？!?；;]+|\.+)?")
# From this share of its words in one sentence of what the prompt showed, a sentence repeats it.
_REPEATS: Final = 0.8
_MOST_CHARACTERS: Final = 20_000
_MOST_SENTENCES: Final = 400


def sentences_of(text: str) -> list[str]:
    """Return the sentences of a text, each with the sign it ends in; linear."""
    found = (match[0].strip() for match in _SENTENCE.finditer(text[:_MOST_CHARACTERS]))
    return [sentence for sentence in found if sentence][:_MOST_SENTENCES]


def own_sentences(*, text: str, shown: Sequence[str]) -> list[str]:
    """Return the sentences of a message that are its writer's own, cleaned, in order.

    Code, quoted lines and blocks of a prompt are not, nor what somebody is said to have said, nor
    a question, nor a sentence that repeats what the prompt showed of memory:
    what was remembered once must not teach itself again. Cost: sentences by shown sentences.

    Args:
        text: The message.
        shown: What the prompt of its run showed from memory.
    """
    told = _TOLD.sub(" ", _SHOWN.sub("\n", _FENCED.sub("\n", text)))
    said = _QUOTED.sub("", sanitize(told).text)
    known = [_Said.of(sentence) for one in shown for sentence in sentences_of(one)]
    return [
        sentence
        for sentence in sentences_of(said)
        if not _ASKS.search(sentence) and not any(_Said.of(sentence).repeats(one) for one in known)
    ]


@dataclass(frozen=True, slots=True, kw_only=True)
class _Said:
    """The words of a sentence, those that tell something, and whether it denies."""

    words: frozenset[str]
    telling: frozenset[str]
    is_negated: bool

    @classmethod
    def of(cls, sentence: str) -> _Said:
        return cls(
            words=frozenset(words_of(sentence)),
            telling=telling_words(sentence),
            is_negated=is_negated(sentence),
        )

    def repeats(self, shown: _Said) -> bool:
        """Say whether nearly all of this stands there, or both tell just the same."""
        if self.is_negated != shown.is_negated or not self.words:
            return False
        if len(self.words & shown.words) >= _REPEATS * len(self.words):
            return True
        both = self.telling | shown.telling
        return bool(both) and len(self.telling & shown.telling) >= _REPEATS * len(both)
