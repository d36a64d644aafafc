"""How a request is written down for a server, and what to change when the server objects."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from time import monotonic
from typing import Any, Final

from memory.providers.base import ChatMessage, ChatRequest, ToolSpec

# So many refusals in a row prove that a server can not be asked for usage, for so many seconds.
_PROOF: Final = 2
_SILENT_SECONDS: Final = 600.0
_PROMPT_COMPLAINTS = ("context_length", "context length", "maximum context")


@dataclass(frozen=True, slots=True, kw_only=True)
class Dialect:
    """What differs between servers: learned from their 400 answers."""

    asks_usage: bool = True
    limit_name: str = "max_tokens"

    def body(self, request: ChatRequest) -> dict[str, Any]:
        """Return the arguments of the call, without `stream`."""
        body: dict[str, Any] = {
            "messages": [_message(message) for message in request.messages],
            "model": request.model,
            self.limit_name: request.max_output_tokens,
        }
        if self.asks_usage:
            body["stream_options"] = {"include_usage": True}
        if request.tools:
            body["tools"] = [_tool(tool) for tool in request.tools]
        return body

    def adapted(self, complaint: object) -> Dialect | None:
        """Return what to try after a 400 with this body, or None if nothing would change.

        Many servers do not say which field they dislike, so `stream_options` is given up for
        any complaint that is not about the prompt's length.
        """
        said = str(complaint).lower()
        other = "max_tokens" if self.limit_name != "max_tokens" else "max_completion_tokens"
        if self.limit_name in said and (other in said or "unsupported" in said):
            return replace(self, limit_name=other)
        if self.asks_usage and not any(words in said for words in _PROMPT_COMPLAINTS):
            return replace(self, asks_usage=False)
        return None


class LearnedDialect:
    """What one server's answers have taught so far.

    A server that names the output limit otherwise says so: that is kept at once. A 400 that is
    gone without `stream_options` may have had any cause: only two requests in a row that worked
    without it and not with it prove it, and only for ten minutes.
    """

    def __init__(self, dialect: Dialect, *, clock: Callable[[], float] = monotonic) -> None:
        """Begin with what is known of the vendor; `clock` counts seconds."""
        self._full = replace(dialect, asks_usage=True)
        self._clock = clock
        self._refusals = 0
        self._silent_until = 0.0

    def current(self) -> Dialect:
        """Return how to ask now."""
        is_silent = self._refusals >= _PROOF and self._clock() < self._silent_until
        return replace(self._full, asks_usage=not is_silent)

    def worked(self, dialect: Dialect, *, first: Dialect) -> None:
        """Learn that a request was answered so, which had been tried as `first` before."""
        self._full = replace(dialect, asks_usage=True)
        if dialect.asks_usage:
            self._refusals = 0
        elif first.asks_usage:
            self._refusals += 1
            self._silent_until = self._clock() + _SILENT_SECONDS


def _message(message: ChatMessage) -> Mapping[str, object]:
    written: dict[str, object] = {"role": message.role, "content": message.content}
    if message.name is not None:
        written["name"] = message.name
    if message.tool_call_id is not None:
        written["tool_call_id"] = message.tool_call_id
    if message.tool_calls:
        written["tool_calls"] = [
            {
                "id": call.id,
                "type": "function",
                "function": {"name": call.name, "arguments": call.arguments},
            }
            for call in message.tool_calls
        ]
    return written


def _tool(tool: ToolSpec) -> Mapping[str, object]:
    function = {
        "name": tool.name,
        "description": tool.description,
        "parameters": dict(tool.parameters),
    }
    return {"type": "function", "function": function}
