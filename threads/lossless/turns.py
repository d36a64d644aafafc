"""Turns and summary nodes of a lossless thread, and how each can be shown. Pure."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from functools import cached_property
from typing import Final

from memory.boundary import HistoryTurn, ToolLine, Wording
from memory.compression.turns import SummaryTurn
from memory.providers.base import ChatMessage
from memory.tokens import truncate_end
from memory.trust import ContextItem, Source
from threads.forest.reading import RootNode
from threads.lossless.texts import MESSAGE_TOKENS, ShownText, ThreadTexts
from threads.turn_cutting import CutMarks, FittedTurn

_FIRST_LINE_TOKENS: Final = 24
_JOINT: Final = " · "


@dataclass(frozen=True, slots=True, kw_only=True)
class MarkedTurn(FittedTurn):
    """A turn with a mark in place of a text that an earlier message holds already."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LoadedTurn:
    """A finished turn with its texts as they are stored; a failed one without its output.

    Attributes:
        question_id: The message that holds the whole question, or the run's id.
        answer_id: The message that holds the whole answer, likewise.
    """

    run_id: str
    seq: int
    at: datetime
    question: str
    answer: str
    question_id: str
    answer_id: str
    is_failed: bool = False
    external_id: str | None = None
    tool_lines: tuple[ToolLine, ...] = ()

    def told(self) -> HistoryTurn:
        """Return its texts alone."""
        return HistoryTurn(
            user_text=self.question, assistant_text=self.answer, is_failed=self.is_failed
        )

    def marks(self, wording: Wording) -> CutMarks:
        """Return what stands where its texts are cut."""
        return CutMarks(
            question=wording.mark_of_cut(message_id=self.question_id),
            answer=wording.mark_of_cut(message_id=self.answer_id),
        )


@dataclass(kw_only=True, eq=False)
class ShownTurn:
    """A turn as two messages of a prompt: the question, and the answer after the tools it used.

    Attributes:
        tokens: What both messages cost, their framing included.
        is_cut: Whether the middle of a text is left out.
        is_marked: Whether a mark stands for a text that an earlier message holds.
    """

    turn: LoadedTurn
    question: ShownText
    answer: ShownText
    tools: ShownText | None
    tokens: int
    is_cut: bool = False
    is_marked: bool = False

    @cached_property
    def messages(self) -> tuple[ChatMessage, ChatMessage]:
        """The two messages, without the lines that open and close the whole history."""
        answer = self.answer.content
        if self.tools:
            answer = f"{self.tools.content}\n{answer}"
        return (
            ChatMessage(role="user", content=self.question.content),
            ChatMessage(role="assistant", content=answer),
        )

    @cached_property
    def item(self) -> ContextItem:
        """What it says of itself."""
        bodies = [self.question.body, self.answer.body]
        if self.tools:
            bodies.insert(1, self.tools.body)
        return ContextItem(
            section="thread",
            kind="turn",
            id=self.turn.run_id,
            tier="observed",
            content="\n".join(bodies),
            tokens=self.tokens,
            source=Source(kind="run", id=self.turn.run_id, external_id=self.turn.external_id),
            created_at=self.turn.at,
        )

    def as_summary_turn(self) -> SummaryTurn:
        """Return it for a summary, its texts cleaned."""
        return SummaryTurn(
            seq=self.turn.seq,
            user_text=self.question.body,
            assistant_text="" if self.turn.is_failed else self.answer.body,
            at=self.turn.at,
            is_failed=self.turn.is_failed,
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class ShownNode:
    """A root of the forest as the skeleton shows it; `whole_tokens` is what all of it costs."""

    root: RootNode
    text: ShownText
    whole_tokens: int

    def item(self, thread_id: str) -> ContextItem:
        """Return what it says of itself."""
        return ContextItem(
            section="thread",
            kind="node",
            id=self.root.id,
            tier="derived",
            content=self.text.content,
            tokens=self.text.tokens,
            source=Source(kind="thread", id=thread_id),
            created_at=self.root.end_at,
        )


def show_turn(
    *, texts: ThreadTexts, turn: LoadedTurn, fitted: FittedTurn | None = None, is_bare: bool = False
) -> ShownTurn:
    """Return a turn as shown: whole, with the texts of `fitted`, with `is_bare` tool lines."""
    told = fitted or turn.told()
    answer = texts.wording.failed_placeholder if turn.is_failed else told.assistant_text
    day = turn.at.date()
    shown_question = texts.message(speaker="user", on=day, body=told.user_text)
    shown_answer = texts.message(speaker="assistant", on=day, body=answer)
    tools = None
    tokens = shown_question.tokens + shown_answer.tokens
    if turn.tool_lines and not turn.is_failed:
        lines = [_tool_text(texts.wording, line, is_bare=is_bare) for line in turn.tool_lines]
        tools = texts.message(speaker="tool", on=day, body="\n".join(lines))
        tokens = shown_question.tokens + texts.count(f"{tools.content}\n{shown_answer.content}")
    return ShownTurn(
        turn=turn,
        question=shown_question,
        answer=shown_answer,
        tools=tools,
        tokens=tokens + 2 * MESSAGE_TOKENS,
        is_cut=bool(fitted and fitted.left_out_tokens),
        is_marked=isinstance(fitted, MarkedTurn),
    )


def _tool_text(wording: Wording, line: ToolLine, *, is_bare: bool) -> str:
    """Return a tool call with its result; bare, if the result can be opened, only its reference."""
    mark = wording.reference_mark.replace("{id}", line.reference_id) if line.reference_id else ""
    if is_bare and mark:
        return f"{line.name}{mark}"
    return f"{line.name}({line.arguments}) → {line.result}{mark}"


def show_node(*, texts: ThreadTexts, root: RootNode) -> ShownNode:
    """Return a root whole: its id, its days, how many turns, its summary."""
    text = texts.framed(before=f"{_heading(texts.wording, root)}\n", body=root.summary)
    return ShownNode(root=root, text=text, whole_tokens=text.tokens)


def shorten_node(*, texts: ThreadTexts, node: ShownNode) -> ShownNode:
    """Return a root as one line of reference, with what is still open; itself if that is no less."""
    root = node.root
    lines = [line.strip() for line in root.summary.splitlines() if line.strip()]
    parts = [truncate_end(lines[0], max_tokens=_FIRST_LINE_TOKENS)] if lines else []
    if root.open_items:
        parts.append(texts.wording.open_label + "; ".join(root.open_items))
    before = _heading(texts.wording, root) + (_JOINT if parts else "")
    text = texts.framed(before=before, body=_JOINT.join(parts))
    if text.tokens >= node.text.tokens:
        return node
    return ShownNode(root=root, text=text, whole_tokens=node.whole_tokens)


def _heading(wording: Wording, root: RootNode) -> str:
    return wording.heading_of_node(
        node_id=root.id,
        first=root.start_at.date(),
        last=root.end_at.date(),
        turn_count=root.turn_count,
    )
