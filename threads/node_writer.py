"""Getting a summary node written: by a model if one does it well, else from its source's own lines.

Always converges, as the rolling summary does and by the same road. Holds no transaction.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Final, Literal

from memory.compression.nodes import (
    NodeChild,
    NodeContent,
    NodeSource,
    TimelineEntry,
    check_node,
    extractive_node,
    fitted,
    node_messages,
    parse_node,
    read_lines,
    render,
    rendered_whole,
)
from memory.language import Language
from memory.providers.base import ProviderConfig
from memory.tokens import estimate, truncate_end
from threads.asking import (
    ALL_CALLS_SECONDS,
    OK,
    Prompt,
    Reading,
    SummaryCall,
    ask_in_turn,
    clean,
)
from threads.summarizer import shortened_turns

UNREADABLE: Final = "unreadable"
NOT_SHORTER: Final = "not_shorter"
# Reading bounds every text: an answer that goes on and on has to be told by its raw length.
_TWICE: Final = 2
# JSON around the words of a node: keys, quotes, brackets.
_JSON_TOKENS: Final = 200
_SHORTER: Final = 4
_LEAST_CHILD_TOKENS: Final = 64
_MOST_ROUNDS: Final = 3


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeTask:
    """What a node is to be made from, and within what. Texts are already sanitised."""

    source: NodeSource
    language: Language
    max_tokens: int


@dataclass(frozen=True, slots=True, kw_only=True)
class WrittenNode:
    """A node fit to be stored: `text` is what `content` reads like, within the cap."""

    content: NodeContent
    text: str
    token_count: int
    method: Literal["model", "extractive"]
    model: str
    calls: tuple[SummaryCall, ...]


def write_node(
    *,
    task: NodeTask,
    configs: Sequence[ProviderConfig],
    model: str,
    within_seconds: float = ALL_CALLS_SECONDS,
) -> WrittenNode:
    """Return a node within `task.max_tokens`. Cost: at most one model call per link and retry.

    Args:
        task: What to make the node from.
        configs: The providers that may see it, in order (threads.chat.memory_providers).
        model: The model to ask each of them for.
        within_seconds: What all calls together may take; after it the model-free way is left.
    """
    heard = ask_in_turn(
        configs=configs,
        model=model,
        prompt=lambda is_shorter: _prompt(_shorter(task) if is_shorter else task),
        read=lambda answer: _read(answer, task),
        within_seconds=within_seconds,
    )
    method: Literal["model", "extractive"] = "extractive" if heard.made is None else "model"
    content, text = _kept(heard.made or _extracted(task), task)
    return WrittenNode(
        content=content,
        text=text,
        token_count=estimate(text),
        method=method,
        model=heard.model,
        calls=heard.calls,
    )


def _extracted(task: NodeTask) -> NodeContent:
    """Return the node that needs no model; one that says so if nothing of it may be kept."""
    made = extractive_node(source=task.source, language=task.language, max_tokens=task.max_tokens)
    if not _cleaned(made, task.language).is_empty:
        return made
    turns = tuple(replace(turn, user_text="", assistant_text="") for turn in task.source.turns)
    children = tuple(replace(child, content=NodeContent()) for child in task.source.children)
    bare = NodeSource(turns=turns, children=children)
    return extractive_node(source=bare, language=task.language, max_tokens=task.max_tokens)


def _prompt(task: NodeTask) -> Prompt:
    system, user = node_messages(
        source=task.source, language=task.language, max_tokens=task.max_tokens
    )
    return Prompt(system=system, user=user, max_output_tokens=task.max_tokens * 2 + _JSON_TOKENS)


def _read(answer: str, task: NodeTask) -> Reading[NodeContent]:
    """Return the node in an answer, and whether it can be stored."""
    if estimate(answer) > _TWICE * task.source.source_tokens + _JSON_TOKENS:
        return Reading(made=NodeContent(), outcome=NOT_SHORTER)
    content = parse_node(answer)
    if content is None:
        return Reading(made=NodeContent(), outcome=UNREADABLE)
    cleaned = _cleaned(content, task.language)
    verdict = check_node(
        cleaned,
        rendered_whole(cleaned, language=task.language),
        source_tokens=task.source.source_tokens,
        language=task.language,
        max_tokens=task.max_tokens,
        open_before=task.source.open_before,
    )
    is_fine = verdict.is_ok or verdict.reason == "too_long"
    return Reading(made=cleaned, outcome=OK if is_fine else verdict.reason)


def _shorter(task: NodeTask) -> NodeTask:
    """Return the task with a shorter source, for a model that choked on it."""
    source = task.source
    if source.turns:
        turns = shortened_turns(
            turns=source.turns, source_tokens=source.source_tokens, max_tokens=task.max_tokens
        )
        return replace(task, source=NodeSource(turns=turns))
    share = source.source_tokens // _SHORTER // len(source.children)
    most = max(share, _LEAST_CHILD_TOKENS)
    children = tuple(_shorter_child(child, task.language, most) for child in source.children)
    return replace(task, source=NodeSource(children=children))


def _shorter_child(child: NodeChild, language: Language, most: int) -> NodeChild:
    return replace(child, content=fitted(child.content, language=language, max_tokens=most))


def _kept(content: NodeContent, task: NodeTask) -> tuple[NodeContent, str]:
    """Return content and text without secrets, red lines and markers, each saying what the other says.

    Some show only across lines: then the text is what counts, and the content is read from it.
    """
    language, most = task.language, task.max_tokens
    content = fitted(_cleaned(content, language), language=language, max_tokens=most)
    for _ in range(_MOST_ROUNDS):
        text = render(content, language=language, max_tokens=most)
        cleaned = clean(text, language=language)
        if cleaned == text:
            return content, text
        again = read_lines(cleaned) or NodeContent()
        content = fitted(_cleaned(again, language), language=language, max_tokens=most)
    line = " ".join(
        clean(render(content, language=language, max_tokens=most), language=language).split()
    )
    text = truncate_end(line, max_tokens=most)
    return NodeContent(timeline=(TimelineEntry(date="", text=text),)), text


def _cleaned(content: NodeContent, language: Language) -> NodeContent:
    """Return the content with every text cleaned; a text of which nothing is left is dropped."""

    def lines(texts: Sequence[str]) -> tuple[str, ...]:
        cleaned = (" ".join(clean(text, language=language).split()) for text in texts)
        return tuple(dict.fromkeys(filter(None, cleaned)))

    timeline = (
        replace(entry, text=text) for entry in content.timeline for text in lines((entry.text,))
    )
    return NodeContent(
        timeline=tuple(timeline),
        decisions=lines(content.decisions),
        pitfalls=lines(content.pitfalls),
        files=lines(content.files),
        open_items=lines(content.open_items),
    )
