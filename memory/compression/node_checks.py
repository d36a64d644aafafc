"""Whether what a model wrote may be stored as a summary node."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final

from memory.compression.node_content import NodeContent
from memory.compression.node_prompts import NODE_RULES
from memory.compression.open_items import are_items_lost
from memory.compression.summary import SummaryFault, check_summary
from memory.language import Language
from memory.tokens import estimate

_ECHO_CHARS: Final = 24
_ECHOES: Final = tuple(
    rule[:_ECHO_CHARS].lower() for rules in NODE_RULES.values() for rule in rules
)


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeVerdict:
    """Whether a node may be stored, and if not the one reason why ("" if it may)."""

    is_ok: bool
    reason: SummaryFault


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
) -> SummaryFault:
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
    others = (*(entry.text for entry in content.timeline), *content.decisions, *content.pitfalls)
    return are_items_lost(open_before=open_before, still=content.open_items, told=others)
