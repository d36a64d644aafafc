"""What the words of a fact are, and how much of them somebody said. Pure.

For two questions: whether a person's own words bear out what a model made of them, and whether a
request or an answer refers to a fact.
"""

from __future__ import annotations

from functools import lru_cache
from typing import Final

import re2

from memory.retrieval.words import STOP_WORDS, folded, stem_of, words_of

# What facts say of anybody, in either language: it tells nothing of what this one is about.
_PHRASES: Final = re2.compile(
    "用户的?|这位|本人|我的?|他的?|她的?|您的?|你的?|喜欢|喜爱|偏好|偏爱|更?愿意|希望|想要|请?记住|名字|姓名"
    "|称呼|叫做?|住在|来自|位于|正在|一直|总是|经常|平时|[是在有叫为的了]"
)
_FILLERS: Final = (
    frozenset(
        stem_of(word)
        for word in """
    user person like likes love loves prefer prefers preference want wants wish name named called
    live lives living work works working use uses using usually always often currently now please
    remember favourite favorite my their
    """.split()
    )
    | STOP_WORDS
)


# What looks like a negation and is none.
_NO_NEGATION: Final = re2.compile(
    "不错|不过|不仅|不但|不同|不断|不久|差不多|特别|别人|别的|分别|级别|性别|类别|非常|无论|未来|没关系"
    r"|\bnot only\b|\bno doubt\b"
)
_NEGATION: Final = re2.compile(
    r"[不没无别未]|非(?:要|得)?|讨厌|\b(?:not|never|no|cannot|hate|hates|dislike|dislikes|without"
    r"|avoid|avoids|stop|stopped|neither|nor)\b|n['’]t\b|\b(?:do|does|is|are|wo|ca)nt\b"
)


def is_negated(text: str) -> bool:
    """Say whether a text denies something; for telling "likes" from "does not like". Linear."""
    return _NEGATION.search(_NO_NEGATION.sub(" ", folded(text))) is not None


def share_said(*, fact: str, said: str) -> float:
    """Return which share of a fact's telling words `said` has, 0 to 1. Linear in both."""
    words = telling_words(fact)
    return len(words & _all_words(said)) / len(words) if words else 0.0


@lru_cache(maxsize=10_000)
def telling_words(fact: str) -> frozenset[str]:
    """Return the words of a fact without those that facts say of anybody; all, if nothing is left."""
    told = _PHRASES.sub(" ", folded(fact))
    words = frozenset(words_of(told)) - _FILLERS
    return words or frozenset(words_of(fact))


@lru_cache(maxsize=64)
def _all_words(said: str) -> frozenset[str]:
    return frozenset(words_of(said)) | _split_words(said)


def _split_words(said: str) -> frozenset[str]:
    """Return the words as a fact's are made, so that 我喜欢茶 has the word 茶 as the fact has."""
    return frozenset(words_of(_PHRASES.sub(" ", folded(said))))
