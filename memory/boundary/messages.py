"""The thread as messages before the last one: each remembered message in a compact wrapper.

For the lossless thread strategy. The first message begins with the full opening line of the thread
section, the last one ends with its closing line, which stands once in the whole prompt. With a tag
kept for the thread the messages stay the same from run to run, so that prefix caches work.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import date
from typing import Literal

from memory.boundary.inner import inner
from memory.boundary.wording import Wording

Speaker = Literal["user", "assistant", "tool", "summary"]


@dataclass(frozen=True, slots=True, kw_only=True)
class SkeletonNode:
    """A summary node for the skeleton: `body` is remembered text, `heading` our own before it."""

    heading: str
    body: str


def message_label(*, wording: Wording, speaker: Speaker, on: date | None = None) -> str:
    """Return the label of a wrapped message: who spoke and, if known, on which day."""
    names: dict[Speaker, str] = {
        "user": wording.message_user,
        "assistant": wording.message_assistant,
        "tool": wording.message_tool,
        "summary": wording.message_summary,
    }
    return f"{names[speaker]} {on:%Y-%m-%d}" if on else names[speaker]


def wrap_message(*, wording: Wording, tag: str, label: str, body: str) -> str:
    """Return `body`, cleaned, between a line with `label` (see `message_label`) and its end."""
    return _wrapped(wording, tag, label, inner(body, tag))


def open_history_line(*, wording: Wording, tag: str) -> str:
    """Return the line that begins the first message of the thread."""
    return wording.open_line(section=wording.history, tag=tag)


def close_history_line(*, wording: Wording, tag: str) -> str:
    """Return the line that ends the last message of the thread; once in a prompt."""
    return wording.close_line(section=wording.history, tag=tag)


def frame_history(*, wording: Wording, tag: str, messages: Sequence[str]) -> tuple[str, ...]:
    """Return wrapped `messages` with the thread's opening before the first, its end after the last.

    A single message gets both; without any there is nothing.
    """
    if not messages:
        return ()
    framed = list(messages)
    framed[0] = f"{open_history_line(wording=wording, tag=tag)}\n{framed[0]}"
    framed[-1] = f"{framed[-1]}\n{close_history_line(wording=wording, tag=tag)}"
    return tuple(framed)


def skeleton(
    *, wording: Wording, tag: str, nodes: Sequence[SkeletonNode], can_open_originals: bool
) -> str:
    """Return the user message of summary nodes, wrapped; their bodies are cleaned.

    The heading of all tells of view_message only if `can_open_originals`. Empty without nodes.
    """
    if not nodes:
        return ""
    heading = wording.skeleton_open_heading if can_open_originals else wording.skeleton_heading
    body = "\n".join((heading, *(f"{node.heading}{inner(node.body, tag)}" for node in nodes)))
    return _wrapped(wording, tag, wording.message_summary, body)


def acknowledgement(*, wording: Wording, tag: str) -> str:
    """Return the assistant message after the skeleton, wrapped like the other messages."""
    return _wrapped(wording, tag, wording.message_assistant, wording.acknowledged)


def _wrapped(wording: Wording, tag: str, label: str, body: str) -> str:
    """Return text that is clean already between its two lines."""
    return f"[{label}] {tag}\n{body}\n[{wording.message_end}] {tag}"
