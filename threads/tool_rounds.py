"""The tool rounds of one run: tidied as they come from the model, and as they are stored. Pure."""

from __future__ import annotations

import json
import re
import secrets
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Any, Final

from governance.pii import pii_tags
from governance.secrets import strip_secrets
from memory.boundary import ToolLine
from memory.ids import new_id
from memory.providers.base import ChatMessage, ToolCall
from memory.retrieval.words import message_terms
from memory.tokens import estimate
from threads.models import Message, MessageRole, Run
from threads.round_frame import RoundFrame, written
from threads.tools.records import ToolOutcome
from threads.turn_cutting import line_tokens

MOST_SHOWN_CHARS: Final = 200
_MOST_NAME_CHARS: Final = 200
_UNNAMED: Final = "tool"
_PLAIN_ID: Final = re.compile(r"[A-Za-z0-9_.:|\-]{1,128}")


@dataclass(frozen=True, slots=True, kw_only=True)
class ToolRound:
    """One answer that called tools, and what each call came to; `text` is free of secrets."""

    text: str
    outcomes: tuple[ToolOutcome, ...]

    def messages(
        self,
        *,
        frame: RoundFrame,
        shown: Mapping[str, str] | None = None,
        called_with: Mapping[str, str] | None = None,
    ) -> tuple[ChatMessage, ...]:
        """Return the round as a model is sent it: the calls, then one result for each, as data.

        `shown` has other texts for some results, by reference id; `called_with` other arguments
        for some calls, by their ids.
        """
        texts, arguments = shown or {}, called_with or {}
        calls = tuple(
            frame.call(
                replace(call, arguments=arguments[call.id]) if call.id in arguments else call
            )
            for call in (outcome.call for outcome in self.outcomes)
        )
        called = ChatMessage(role="assistant", content=frame.said(self.text), tool_calls=calls)
        results = (
            ChatMessage(
                role="tool",
                content=frame.result(texts.get(outcome.reference_id, outcome.shown)),
                tool_call_id=outcome.call.id,
            )
            for outcome in self.outcomes
        )
        return (called, *results)


def tidy_calls(calls: Sequence[ToolCall], *, taken: set[str]) -> tuple[ToolCall, ...]:
    """Return calls free of secrets, each with a plain id that no other call of the run has.

    `taken` holds the ids given so far and takes these in. Cost: linear in their length.
    """
    tidied = []
    for call in calls:
        call_id = call.id.strip()
        is_plain = _PLAIN_ID.fullmatch(call_id) is not None
        if not is_plain or call_id in taken or strip_secrets(call_id).kinds:
            call_id = f"call_{secrets.token_hex(8)}"
        taken.add(call_id)
        name = strip_secrets(call.name).text[:_MOST_NAME_CHARS]
        tidied.append(ToolCall(id=call_id, name=name, arguments=clean_arguments(call.arguments)))
    return tuple(tidied)


def clean_arguments(arguments: str) -> str:
    """Return the arguments of a call without secrets, also those spelt with JSON escapes.

    What is not JSON stays so: whoever runs the tool answers that with an error result.
    """
    try:
        value = json.loads(arguments)
        cleaned = _cleaned(value)
        if cleaned != value:
            arguments = written(cleaned)
    except (ValueError, RecursionError):
        pass
    return strip_secrets(arguments).text


def _cleaned(value: Any) -> Any:
    if isinstance(value, str):
        return strip_secrets(value).text
    if isinstance(value, dict):
        return {strip_secrets(key).text: _cleaned(part) for key, part in value.items()}
    if isinstance(value, list):
        return [_cleaned(part) for part in value]
    return value


def calls_json(calls: Sequence[ToolCall]) -> list[dict[str, str]]:
    """Return calls as a message keeps them."""
    return [{"id": call.id, "name": call.name, "arguments": call.arguments} for call in calls]


def message_json(message: ChatMessage) -> dict[str, Any]:
    """Return a message as the trace keeps it."""
    written: dict[str, Any] = {"role": message.role, "content": message.content}
    if message.tool_calls:
        written["tool_calls"] = calls_json(message.tool_calls)
    if message.tool_call_id is not None:
        written["tool_call_id"] = message.tool_call_id
    return written


def tool_steps(rounds: Sequence[ToolRound]) -> list[dict[str, str]]:
    """Return the calls of a run as its turn will show them in later prompts."""
    return [
        {
            "name": outcome.call.name,
            "arguments": cut(outcome.call.arguments),
            "result": outcome.summary,
            "reference_id": outcome.reference_id,
        }
        for done in rounds
        for outcome in done.outcomes
    ]


def recorded_steps(messages: Sequence[Message]) -> list[dict[str, str]]:
    """Return the tool steps of a turn made elsewhere, whose calls nobody recorded.

    Only results that follow something the assistant said, and each call's once: what stands alone
    or is told twice never reaches a prompt.
    """
    steps: list[dict[str, str]] = []
    seen: set[str] = set()
    is_called = False
    for message in messages:
        is_called = is_called or message.role == MessageRole.ASSISTANT
        call_id = message.tool_call_id or message.pk
        if message.role == MessageRole.TOOL and is_called and call_id not in seen:
            seen.add(call_id)
            named = {"name": message.name or _UNNAMED, "arguments": ""}
            steps.append({**named, "result": cut(message.content), "reference_id": message.pk})
    return steps


def cut(text: str, *, most: int = MOST_SHOWN_CHARS) -> str:
    """Return a text on one line and within `most` characters."""
    line = " ".join(text.split())
    return line if len(line) <= most else f"{line[: most - 1]}…"


def steps_tokens(steps: Sequence[Mapping[str, str]]) -> int:
    """Estimate what tool steps cost in a later prompt."""
    return sum(line_tokens(ToolLine(**step)) for step in steps)


def message_count(rounds: Sequence[ToolRound]) -> int:
    """Return how many messages the rounds are: each its calls, and a result a call."""
    return sum(1 + len(done.outcomes) for done in rounds)


def messages_of(
    run: Run, *, rounds: Sequence[ToolRound], first_position: int, now: datetime
) -> list[Message]:
    """Return the messages of a run's rounds in order, not yet stored; results by their reference."""
    rows: list[Message] = []
    for done in rounds:
        calls = [outcome.call for outcome in done.outcomes]
        rows.append(
            Message(
                id=new_id("msg"),
                role=MessageRole.ASSISTANT,
                content=done.text,
                tool_calls=calls_json(calls),
                token_count=estimate(done.text) + sum(estimate(call.arguments) for call in calls),
            )
        )
        rows += (
            Message(
                id=outcome.reference_id,
                role=MessageRole.TOOL,
                content=outcome.content,
                name=outcome.call.name,
                tool_call_id=outcome.call.id,
                token_count=estimate(outcome.content),
            )
            for outcome in done.outcomes
        )
    for position, row in enumerate(rows, first_position):
        row.tenant_id, row.thread_id = run.tenant_id, run.thread_id
        row.run_id, row.end_user_id = run.pk, run.end_user_id
        row.position, row.created_at = position, now
        row.terms = message_terms(row.content)
        row.pii = pii_tags(row.content)
    return rows


def without_calls(message: ChatMessage) -> ChatMessage:
    """Return a message that says its calls as text, for counting what they cost."""
    if not message.tool_calls:
        return message
    said = [f"{call.id}{call.name}{call.arguments}" for call in message.tool_calls]
    return replace(message, content="\n".join((message.content, *said)), tool_calls=())
