"""Finding texts that say the same twice, without ever taking two facts for one. Pure.

Shortening by leaving out a repetition must lose nothing, so what may differ is narrow: width,
case, blanks, punctuation, words of politeness, an article, the plural of a common noun. Another
number, negation, name, sign or order of words is another fact.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from memory.compression.folding import fold

_MAX_COMPARED: Final = 16
_LEAST_STEM: Final = 4
# Punctuation that says nothing. A question is not its own answer: the question mark stays.
_IDLE: Final = "。，、；：！.,;:!…·\"'“”‘’「」『』《》()\\[\\]{}【】•"
# These patterns never have two ways to match one text, so that they run in linear time.
_HEAD: Final = re.compile(rf"(?:[-–—*•]\s+|\s|\.(?!\d)|(?!\.)[{_IDLE}])+")
_TAIL: Final = re.compile(rf"[{_IDLE}\s]")
_TOKENS: Final = re.compile(
    rf"-?\.?\d+(?:[.,:/-]\d+)*|[\u3400-\u9fff]|[^\W\d\u3400-\u9fff]+|[^\s\w{_IDLE}]"
)
_APOSTROPHES: Final = str.maketrans("’ʼ", "''")
_SHORT_FORMS: Final = (
    (re.compile(r"\bcan't\b|\bcannot\b"), "can not"),
    (re.compile(r"\bwon't\b"), "will not"),
    (re.compile(r"n't\b"), " not"),
)
_LIGHT_WORDS: Final = frozenset(
    [
        *"的吧呢啊呀嘛哦啦哈很请",
        "a",
        "an",
        "the",
        "please",
        "really",
        "very",
        "quite",
        "well",
        "oh",
        "also",
    ]
)
_NEGATIONS: Final = frozenset(
    [*"不没無无未别非勿莫否", "not", "no", "never", "none", "without", "nor", "neither", "nothing"]
)


@dataclass(frozen=True, slots=True)
class _Shape:
    """What is compared of a text: its folded form, its telling words (names in capitals), a key."""

    folded: str
    words: tuple[str, ...]
    key: tuple[str, ...]


def folded(text: str) -> str:
    """Return `text` folded and without bullets and punctuation at its ends; idempotent."""
    before, after = None, fold(_trimmed(text))  # bullets first: folding takes their blank
    while before != after:
        before, after = after, fold(_trimmed(after))
    return after


def _trimmed(text: str) -> str:
    """Return `text` without what says nothing at its ends; the point of ".5" says something."""
    head = _HEAD.match(text)
    start, end = head.end() if head else 0, len(text)
    while end > start and _TAIL.match(text, end - 1):
        end -= 1
    return text[start:end]


def numbers_and_negations(text: str) -> tuple[str, ...]:
    """Return the numbers and negations of `text` in order; texts that differ in them differ."""
    return tuple(
        word for word in _words(folded(text)) if word in _NEGATIONS or any(map(str.isdigit, word))
    )


def is_same(a: str, b: str) -> bool:
    """Say whether two texts say the same, so that one of them can be left out.

    Not transitive: what is like a text that is like a third need not be like that.
    """
    return _are_alike(_shape(a), _shape(b))


def dedupe(texts: Sequence[str]) -> tuple[int, ...]:
    """Return for each text the index of the first one that it repeats, or its own.

    A text is compared with kept ones only, so that repetitions never form a chain. Linear: each
    text is compared by hash, then with at most 16 others of the same words but for their ends.
    """
    firsts: dict[str, int] = {}
    groups: dict[tuple[str, ...], list[tuple[int, _Shape]]] = {}
    found: list[int] = []
    for index, text in enumerate(texts):
        shape = _shape(text)
        group = groups.setdefault(shape.key, [])
        first = firsts.get(shape.folded)
        if first is None:
            alike = (at for at, kept in group if _are_alike(kept, shape))
            first = next(alike, index)
        if first == index:
            firsts[shape.folded] = index
            if len(group) < _MAX_COMPARED:
                group.append((index, shape))
        found.append(first)
    return tuple(found)


def _shape(text: str) -> _Shape:
    """Return what is compared of `text`; its words keep the capital letters of names."""
    whole = folded(text)
    telling = [word for word in _words(whole) if word not in _LIGHT_WORDS]
    names = _names(text)
    return _Shape(
        folded=whole,
        words=tuple(word.upper() if word in names else word for word in telling),
        key=tuple(word[:_LEAST_STEM] for word in telling),
    )


def _names(text: str) -> frozenset[str]:
    """Return the words that `text` writes with a capital letter, folded."""
    if text == text.lower():
        return frozenset()
    return frozenset(fold(word) for word in _TOKENS.findall(text) if word != word.lower())


def _words(whole: str) -> list[str]:
    """Return the words, single Chinese characters, numbers and signs of a folded text."""
    plain = whole.translate(_APOSTROPHES)
    if "'" in plain or "cannot" in plain:
        for pattern, full in _SHORT_FORMS:
            plain = pattern.sub(full, plain)
    words: list[str] = _TOKENS.findall(plain)
    return words


def _are_alike(a: _Shape, b: _Shape) -> bool:
    """Say whether two shapes are equal, or have the same telling words but for plurals."""
    if a.folded == b.folded:
        return True
    if not a.words or len(a.words) != len(b.words):
        return False
    return all(_is_akin(one, other) for one, other in zip(a.words, b.words, strict=True))


def _is_akin(a: str, b: str) -> bool:
    """Say whether two words are the same, or one is the plural of the other; names bend never."""
    if a.casefold() == b.casefold():
        return True
    short, long = sorted((a, b), key=len)
    is_common = short.islower() and long.islower() and short.isascii() and short.isalpha()
    return is_common and len(short) >= _LEAST_STEM and long in {f"{short}s", f"{short}es"}
