"""Splitting prompts into dated sentences and weighing their words. Pure, linear time."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Protocol

import re2

MAX_SENTENCES = 4000
MAX_SENTENCE_CHARACTERS = 300

_CJK = r"\x{3040}-\x{30ff}\x{3400}-\x{4dbf}\x{4e00}-\x{9fff}\x{ac00}-\x{d7af}"
_TERMS = re2.compile(rf"[{_CJK}]+|[\pL\pN_]+")
_IS_CJK = re2.compile(rf"[{_CJK}]")
_SENTENCE = re2.compile(r"[^。！？!?\n]+?(?:[。！？!?]+[”」』\"']?|[.;；](?:\s|$)|\n|$)")
_DATE = re2.compile(
    r"\d{4}[-/.]\d{1,2}[-/.]\d{1,2}(?:[T ]\d{2}:\d{2})?|\d{4}年\d{1,2}月(?:\d{1,2}日)?"
)
# Headings, boundary lines and dates that stand alone in brackets; they may run over lines.
_BRACKETED_LINES = re2.compile(r"(?m)^\s*[\[【<][^\[\]【】<>]{0,400}[\]】>]\s*$")
_DAY = r"\d{4}[-/.年]\d{1,2}[-/.月]\d{1,2}日?"
_LINE_HEAD = re2.compile(
    rf"(?i)^[\s\-*•#>]*(?:[\[(（【]{_DAY}[^\])）】]{{0,20}}[\])）】]?|{_DAY}(?:[T ]\d{{2}}:\d{{2}})?)?"
    r"[\s:：,，\-–—]*"
    r"(?:[‹<\[(（【]?(?:用户|助手|user|assistant|human|ai)(?:[›>\])）】]\s*[:：]?|\s*[:：])\s*)?"
    r"(?:（[^（）]{0,12}）\s*)?"  # a label such as （此前对话摘要）
)
_NOT_WORTH_QUOTING = re2.compile(
    r"(?i)(?:ignore|disregard|forget|override)\s+(?:all\s+|any\s+|the\s+|your\s+)*"
    r"(?:previous|prior|above|earlier|system|preceding)"
    r"|忽略.{0,6}(?:以上|之前|前面|系统|上述|所有|先前)|无视.{0,6}(?:以上|之前|系统|指令)"
    r"|<\|[^|]{0,40}\|>|\[/?(?:INST|SYS|System|IMPORTANT)\]|<</?SYS>>|【系统】|\bINSTRUCTIONS?:"
    r"|^\s*(?:system|assistant|系统)\s*[:：]|system prompt|系统提示"
    r"|（该轮未成功完成|\(this turn did not (?:complete|succeed)|本会话前情"
    r"|以下是用户本轮的真实请求|仅供回忆|real request follows"
    r"|(?:成绩|得分|分数|考了|绩点|总评|\bgrades?|\bscores?|\bscored|\bGPA)[^。！？!?\n]{0,12}\d"
    r"|\d{17}[\dXx]|\d{15,}|(?:\d{4}[ -]){3}\d{3,4}"
)
_STOP_WORDS = frozenset(
    [
        "a",
        "an",
        "and",
        "are",
        "as",
        "at",
        "be",
        "but",
        "by",
        "can",
        "could",
        "did",
        "do",
        "does",
        "for",
        "from",
        "had",
        "has",
        "have",
        "he",
        "her",
        "his",
        "how",
        "i",
        "if",
        "in",
        "is",
        "it",
        "its",
        "me",
        "my",
        "not",
        "of",
        "on",
        "or",
        "our",
        "she",
        "so",
        "that",
        "the",
        "their",
        "them",
        "then",
        "there",
        "they",
        "this",
        "to",
        "was",
        "we",
        "were",
        "what",
        "when",
        "where",
        "which",
        "who",
        "why",
        "will",
        "with",
        "would",
        "you",
        "your",
        "please",
        "tell",
        "about",
    ]
)
_STOP_PAIRS = frozenset(
    [
        "什么",
        "怎么",
        "怎样",
        "如何",
        "是否",
        "哪些",
        "哪个",
        "哪里",
        "多少",
        "为什",
        "我的",
        "你的",
        "我们",
        "你们",
        "请问",
        "一下",
        "告诉",
        "诉我",
        "可以",
        "能否",
        "吗呢",
        "还是",
        "这个",
        "那个",
        "是什",
        "么样",
        "有什",
        "是多",
    ]
)


class _Match(Protocol):
    def group(self) -> str: ...


@dataclass(frozen=True, slots=True, kw_only=True)
class Sentence:
    """One sentence as written, with the date shown beside or above it, if any."""

    text: str
    date: str | None
    terms: tuple[str, ...]


def terms_of(text: str) -> tuple[str, ...]:
    """Return the words that carry meaning: Latin words folded, CJK as overlapping pairs."""
    terms: list[str] = []
    for run in _TERMS.findall(text.casefold()):
        if not _IS_CJK.search(run):
            terms += [] if run in _STOP_WORDS or (len(run) < 2 and not run.isdigit()) else [run]
            continue
        pairs = [run[at : at + 2] for at in range(len(run) - 1)] or [run]
        terms += [pair for pair in pairs if pair not in _STOP_PAIRS]
    return tuple(terms)


def is_chinese(text: str) -> bool:
    """Return whether `text` is rather Chinese than Latin, one character counting as a word."""
    runs = _TERMS.findall(text)
    cjk = sum(len(run) for run in runs if _IS_CJK.search(run))
    return cjk > sum(1 for run in runs if not _IS_CJK.search(run))


def sentences_of(texts: Iterable[str]) -> list[Sentence]:
    """Return the quotable sentences of `texts` in order, the last 4,000 of them.

    Headings and boundary lines, and whatever looks like an injected instruction, an identity or
    card number or a grade, is left out.
    """
    found: list[Sentence] = []
    for text in texts:
        for paragraph in _BRACKETED_LINES.sub(_kept_date, text).split("\n\n"):
            found += _of_paragraph(paragraph)
    return found[-MAX_SENTENCES:]


def _of_paragraph(paragraph: str) -> list[Sentence]:
    found: list[Sentence] = []
    date: str | None = None
    for line in paragraph.split("\n"):
        head = _LINE_HEAD.match(line)
        body = line[head.end() :] if head else line
        heading = _DATE.search(line[: len(line) - len(body)])
        date = heading.group() if heading else date  # one inside a sentence is that sentence's own
        pieces = _SENTENCE.findall(body)
        if _NOT_WORTH_QUOTING.search(line):
            pieces = [piece for piece in pieces if not _NOT_WORTH_QUOTING.search(piece)]
        found += [made for piece in pieces if (made := _sentence(piece, date)) is not None]
    return found


def _sentence(piece: str, date: str | None) -> Sentence | None:
    text = piece.strip(" \t\r\n-*•=#")
    terms = terms_of(text)
    if not terms or text.endswith(("?", "？")):
        return None
    own_date = _DATE.search(text)
    date = own_date.group() if own_date else date
    return Sentence(text=text[:MAX_SENTENCE_CHARACTERS], date=date, terms=terms)


def _kept_date(match: _Match) -> str:
    shown = _DATE.search(match.group())
    return shown.group() if shown else ""


def idf(sentences: Sequence[Sentence]) -> dict[str, float]:
    """Return how telling each term is: rare among `sentences` weighs more than frequent."""
    seen = Counter(term for sentence in sentences for term in set(sentence.terms))
    return {term: math.log(1 + len(sentences) / count) for term, count in seen.items()}
