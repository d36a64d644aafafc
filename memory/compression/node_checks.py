"""Whether what a model wrote may be stored as a summary node."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final, Literal

import re2

from memory.compression.node_content import NodeContent
from memory.compression.node_prompts import NODE_RULES
from memory.compression.summary import SummaryFault, check_summary
from memory.language import Language
from memory.providers.sentences import terms_of
from memory.tokens import estimate

NodeFault = SummaryFault | Literal["lost_open_items"]

_ECHO_CHARS: Final = 24
_ECHOES: Final = tuple(
    rule[:_ECHO_CHARS].lower() for rules in NODE_RULES.values() for rule in rules
)
# Of the telling words of an item, in one and the same line.
_COVERED: Final = 0.7
_MOST_LINES: Final = 2_000
_HAN = re2.compile(r"[\x{3400}-\x{4dbf}\x{4e00}-\x{9fff}]")
_FILLERS: Final = frozenset("的了在是和与及把将要需请再也都就给我你他她它们这那个待办")
_NUMERALS: Final = frozenset("零一二三四五六七八九十百千万两甲乙丙丁上中下")
_DONE = re2.compile(
    r"(?i)完成|已|办好|办妥|好了|取消|不再|无需|解决|交付|提交|上线|发出|关闭|搞定|结束"
    r"|\b(?:done|complet\w+|finish\w+|ship\w+|deliver\w+|sent|submitt\w+|cancel\w+|dropped|closed"
    r"|resolved|fixed|no longer|booked|settled|paid|answered|merged|released)\b"
)
_ENDING = re2.compile(r"(?:ing|ed|es|s|e)$")


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeVerdict:
    """Whether a node may be stored, and if not the one reason why ("" if it may)."""

    is_ok: bool
    reason: NodeFault


def check_node(
    content: NodeContent,
    rendered: str,
    *,
    source_tokens: int,
    language: Language,
    max_tokens: int,
    open_before: Iterable[str],
) -> NodeVerdict:
    """Return whether what a model wrote can be the node.

    Args:
        content: What was read from the answer.
        rendered: The whole of it as text, uncut.
        source_tokens: What the node replaces (`NodeSource.source_tokens`).
        language: The language it should be in; for English, other non-Chinese languages pass.
        max_tokens: Its cap. "too_long" is looked at last: otherwise fine, the caller may cut it.
        open_before: The open items of the nodes below; each has to be there still, or be named as
            done.
    """
    reason = _fault(content, rendered, source_tokens, language)
    if not reason and _lost(open_before, content):
        reason = "lost_open_items"
    if not reason and estimate(rendered) > max_tokens:
        reason = "too_long"
    return NodeVerdict(is_ok=not reason, reason=reason)


def _fault(
    content: NodeContent, rendered: str, source_tokens: int, language: Language
) -> NodeFault:
    """Return what is wrong with the node as a summary; its headings and file names prove nothing."""
    said = [
        *(entry.text for entry in content.timeline),
        *content.decisions,
        *content.pitfalls,
        *content.open_items,
    ]
    words = "\n".join(said)
    if any(echo in words.lower() for echo in _ECHOES):
        return "echo"
    size = estimate(words)
    verdict = check_summary(text=words, source_tokens=size + 1, language=language, max_tokens=size)
    if verdict.reason:
        return verdict.reason
    return "not_shorter" if estimate(rendered) >= source_tokens else ""


def _lost(open_before: Iterable[str], content: NodeContent) -> bool:
    """Say whether an item that was open is neither open still nor named as done."""
    still = [_words(item) for item in content.open_items]
    others = (*(entry.text for entry in content.timeline), *content.decisions, *content.pitfalls)
    done = [_words(line) for line in others if _DONE.search(line)]
    lines = [*still, *done][:_MOST_LINES]
    return any(not _is_covered(item, lines) for item in open_before)


def _is_covered(item: str, lines: Iterable[frozenset[str]]) -> bool:
    """Say whether one line holds the numbers and most of the telling words of an item."""
    words = _words(item)
    numbers = {word for word in words if word.isdigit() or word in _NUMERALS}
    least = _COVERED * len(words)
    return not words or any(numbers <= line and len(words & line) >= least for line in lines)


def _words(text: str) -> frozenset[str]:
    """Return the telling words of a text, folded: Han characters, and the stems of other words."""
    letters = {letter for letter in _HAN.findall(text) if letter not in _FILLERS}
    folded = _HAN.sub(" ", text)
    return frozenset(letters | {_stem(term) for term in terms_of(folded)})


def _stem(word: str) -> str:
    """Return an English word without its commonest endings, roughly."""
    return _ENDING.sub("", word) if len(word) > len("done") else word
