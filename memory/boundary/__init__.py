"""The untrusted boundary: remembered text goes in as data, and cannot pretend to have ended.

Each remembered section stands between an opening and a closing line that carry a random tag; what
is inside has been cleaned, so that neither line can be forged and the tag cannot be guessed. The
words are those of the design seed (A, section 2.2), in Chinese and English.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

from memory.boundary.guidelines import guidelines
from memory.boundary.inner import inner
from memory.boundary.messages import (
    SkeletonNode,
    Speaker,
    acknowledgement,
    close_history_line,
    frame_history,
    message_label,
    open_history_line,
    skeleton,
    wrap_message,
)
from memory.boundary.wording import CHINESE, ENGLISH, Wording, wording_for

__all__ = [
    "CHINESE",
    "ENGLISH",
    "HistoryTurn",
    "RandomBits",
    "SkeletonNode",
    "Speaker",
    "ToolLine",
    "Wording",
    "acknowledgement",
    "close_history_line",
    "compose_request",
    "frame_history",
    "guidelines",
    "message_label",
    "new_tag",
    "open_history_line",
    "skeleton",
    "tool_line",
    "wording_for",
    "wrap_history",
    "wrap_message",
    "wrap_section",
]

_TAG_BITS = 80
_TAG_DIGITS = 20
_REQUEST_HEADING = "[Current Request]"


class RandomBits(Protocol):
    """A source of random bits: `random.SystemRandom()`, or a seeded one in tests."""

    def getrandbits(self, k: int, /) -> int:
        """Return an integer of `k` random bits."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ToolLine:
    """One tool call of a turn with its result, perhaps shortened; `reference_id` opens all of it.

    Attributes:
        name: The tool's name.
        arguments: What it was called with, as text.
        result: What came back, as the prompt shows it.
        reference_id: The id under which the whole result can be read, or empty.
    """

    name: str
    arguments: str
    result: str
    reference_id: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class HistoryTurn:
    """One finished turn as the prompt shows it; the output of a failed one is not looked at."""

    user_text: str
    assistant_text: str
    is_failed: bool = False
    tool_lines: tuple[ToolLine, ...] = ()


def new_tag(rng: RandomBits) -> str:
    """Return a tag of 80 random bits, for one prompt, or for one thread where caches matter."""
    return f"#{rng.getrandbits(_TAG_BITS):0{_TAG_DIGITS}x}"


def wrap_section(*, wording: Wording, tag: str, section: str, body: str) -> str:
    """Return `body`, cleaned, between the lines that open and close `section`.

    Cleaning is idempotent: a body that has been sanitised already comes through unchanged. The tag
    is taken out of the body, should a model have echoed it.
    """
    lines = (
        wording.open_line(section=section, tag=tag),
        inner(body, tag),
        wording.close_line(section=section, tag=tag),
    )
    return "\n".join(lines)


def wrap_history(
    *,
    wording: Wording,
    tag: str,
    summary: str,
    turns: Sequence[HistoryTurn],
    awaiting_count: int = 0,
) -> str:
    """Return the thread section: summary, notice of turns still to be summarised, recent turns.

    Every remembered text in it is cleaned. Empty if there is nothing to show.
    """
    lines: list[str] = []
    if summary:
        lines.append(wording.summary_heading + inner(summary, tag))
    if awaiting_count:
        lines.append(wording.awaiting.replace("{count}", str(awaiting_count)))
    if turns:
        lines.append(wording.recent_heading)
        lines.extend(line for turn in turns for line in _turn_lines(wording, tag, turn))
    if not lines:
        return ""
    opened = open_history_line(wording=wording, tag=tag)
    return "\n".join((opened, *lines, close_history_line(wording=wording, tag=tag)))


def tool_line(
    *, wording: Wording, tag: str, name: str, arguments: str, result: str, reference_id: str = ""
) -> str:
    """Return a tool call and its result as the thread section shows them, all three cleaned."""
    call = (
        f"{wording.tool_label} {inner(name, tag)}({inner(arguments, tag)}) → {inner(result, tag)}"
    )
    return call + wording.reference_mark.replace("{id}", reference_id) if reference_id else call


def compose_request(
    *,
    wording: Wording,
    tag: str,
    sections: Sequence[str],
    request: str,
    has_history: bool = False,
) -> str:
    """Return the last user message: guidelines and wrapped `sections`, the announcement, `request`.

    The request is never touched; with no section to show and no messages of the thread before it
    (`has_history`) it is all there is.
    """
    shown = [section for section in sections if section]
    if not shown and not has_history:
        return request
    announcement = f"[{wording.request_follows}] {tag}\n{_REQUEST_HEADING}\n"
    return "\n\n".join((*shown, announcement + request))


def _turn_lines(wording: Wording, tag: str, turn: HistoryTurn) -> list[str]:
    """Return the lines of a turn: the question, the tools it used, the answer."""
    lines = [f"{wording.user_label} {inner(turn.user_text, tag)}"]
    if turn.is_failed:
        return [*lines, f"{wording.assistant_label} {wording.failed_placeholder}"]
    lines += (
        tool_line(
            wording=wording,
            tag=tag,
            name=step.name,
            arguments=step.arguments,
            result=step.result,
            reference_id=step.reference_id,
        )
        for step in turn.tool_lines
    )
    return [*lines, f"{wording.assistant_label} {inner(turn.assistant_text, tag)}"]
