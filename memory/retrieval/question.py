"""Reading a question: its words, whom it names, which times it means, how it is asked. Pure."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime
from typing import Final

import numpy as np
from numpy.typing import NDArray

from memory.providers.embeddings.texts import sentences_of
from memory.retrieval.dates import NamedTime, time_phrases, times_in
from memory.retrieval.words import folded, hash_of, hashed, words_of

# Words of names: runs of Latin letters, single Chinese characters.
_NAME_PARTS: Final = re.compile(r"[^\W\d_\u3040-\u9fff\uac00-\ud7af]+|[\u3040-\u9fff\uac00-\ud7af]")
_MOST_NAME_PARTS: Final = 400
_LONGEST_LATIN_NAME: Final = 3
_LONGEST_CJK_NAME: Final = 6
_ASKS_WHEN: Final = re.compile(
    r"\bwhen\b|\bwhat (?:day|date|month|year|time)\b|\bwhich (?:day|month|year)\b|\bhow long\b"
    r"|什么时候|何时|哪[天年月]|几[号月]",
    re.IGNORECASE,
)
_SAID: Final = re.compile(r"[\w']+")
_MOST_SMALL_TALK: Final = 60
_SMALL_TALK: Final = re.compile(
    r"(?:(?:hi|hey|hello|yo|good (?:morning|afternoon|evening|night)|bye|goodbye|see you(?: later)?|thx"
    r"|thanks(?: a lot)?|thank you(?: (?:so|very) much)?|please|ok(?:ay)?|k|yes|yep|yeah|no|nope|sure|right"
    r"|great|good|nice|cool|perfect|awesome|lol|haha+|hmm+|wow|oh|got it|i see|no problem|never ?mind"
    r"|welcome|you're welcome|there|again|everyone|all|how are you(?: today| doing)?|what's up)\b"
    r"|(?:谢谢|多谢|感谢|您|你|大家|好的?|嗨|哈+|嗯+|哦+|噢|喂|早上|上午|下午|晚上|早安|晚安|早|再见|拜拜|辛苦|收到"
    r"|知道|明白|了解|没问题|没事|行|可以|对|是的?|不是|不用|客气|帮助|帮忙|了|啦|呀|啊|吧|嘛|呢|吗|的|在))"
)
# A capital inside a sentence begins a name, but for days and months.
_PROPER: Final = re.compile(r"(?<=[\w,;:'\"(] )[A-Z][\w-]+")
_CALENDAR: Final = frozenset(
    words_of(
        "January February March April May June July August September October November December"
        " Monday Tuesday Wednesday Thursday Friday Saturday Sunday"
    )
)


@dataclass(frozen=True)
class Question:
    """What a question asks for.

    Attributes:
        words: The hashes of its words, each once, in ascending order.
        names: Hashes of every stretch of it that could be somebody's name.
        proper: Hashes of the words that are written as names.
        times: The days, months and years it names.
        time_words: Hashes of the words it names them with.
        asks_when: Whether it asks for a time.
        is_small_talk: It greets, thanks or nods, or has no letter at all: nothing bears on that.
        breadth: 0 for a question of one or two sentences, up to 1 for a passage of four or more:
            there, meaning counts for more than single words.
    """

    words: NDArray[np.uint32]
    names: frozenset[int]
    proper: frozenset[int]
    times: tuple[NamedTime, ...]
    time_words: frozenset[int]
    asks_when: bool
    is_small_talk: bool
    breadth: float


def read_question(text: str, *, now: datetime) -> Question:
    """Return what a question asks for; linear in its length. `now` is what 昨天 is relative to."""
    return Question(
        words=np.unique(hashed([word for word in words_of(text) if _tells(word)])),
        names=_names(text),
        proper=_proper(text),
        times=times_in(text, now=now),
        time_words=_time_words(text),
        asks_when=bool(_ASKS_WHEN.search(text)),
        is_small_talk=_is_small_talk(text),
        breadth=min(max(len(sentences_of(text)) - 2, 0) / 2, 1.0),
    )


def _time_words(text: str) -> frozenset[int]:
    found = {word for phrase in time_phrases(text) for word in words_of(phrase)}
    return frozenset(hash_of(word) for word in found)


def _tells(word: str) -> bool:
    """Say whether a word can find something: a lone letter or digit is everywhere."""
    return len(word) > 1 or _is_cjk(word)


def _is_small_talk(text: str) -> bool:
    said = " ".join(_SAID.findall(folded(text[:_MOST_SMALL_TALK])))
    return len(text) <= _MOST_SMALL_TALK and (not said or all(_pieces_of(said)))


def _pieces_of(said: str) -> Iterator[bool]:
    """Yield for each piece of a short text whether it is a phrase of small talk."""
    while said:
        match = _SMALL_TALK.match(said)
        yield match is not None
        if match is None:
            return
        said = said[match.end() :].lstrip()


def _proper(text: str) -> frozenset[int]:
    found = {word for match in _PROPER.finditer(text) for word in words_of(match[0])}
    return frozenset(hash_of(word) for word in found - _CALENDAR)


def _names(text: str) -> frozenset[int]:
    parts = _NAME_PARTS.findall(folded(text))[:_MOST_NAME_PARTS]
    found = set()
    for start in range(len(parts)):
        is_latin = not _is_cjk(parts[start])
        longest = _LONGEST_LATIN_NAME if is_latin else _LONGEST_CJK_NAME
        name = ""
        for part in parts[start : start + longest]:
            if _is_cjk(part) is is_latin:
                break
            name += f" {part}" if is_latin and name else part
            found.add(hash_of(name))
    return frozenset(found)


def _is_cjk(part: str) -> bool:
    return part[0] >= "\u3040"
