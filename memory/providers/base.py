"""The contract of a chat model: one streaming call, and one way to drain it.

Source: the roles, tool calls and finish reasons are those of the OpenAI chat completions API,
which every server we talk to imitates.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, Mapping
from contextlib import aclosing
from dataclasses import dataclass, field
from typing import Protocol, TypeAlias

from memory.providers.errors import ProviderError


@dataclass(frozen=True, slots=True, kw_only=True)
class ToolCall:
    """One call of a tool that the model asks for; `arguments` is JSON text as the model wrote it.

    The text may be malformed: whoever runs the tool parses it and answers with an error result.
    """

    id: str
    name: str
    arguments: str


@dataclass(frozen=True, slots=True, kw_only=True)
class ToolSpec:
    """A tool the model may call; `parameters` is a JSON Schema object."""

    name: str
    description: str
    parameters: Mapping[str, object]


@dataclass(frozen=True, slots=True, kw_only=True)
class ChatMessage:
    """One message of a prompt; `role` is system, user, assistant or tool."""

    role: str
    content: str
    name: str | None = None
    tool_call_id: str | None = None
    tool_calls: tuple[ToolCall, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class ChatRequest:
    """A prompt as it is sent; `max_output_tokens` counts the provider's own tokens."""

    model: str
    messages: tuple[ChatMessage, ...]
    max_output_tokens: int
    tools: tuple[ToolSpec, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Usage:
    """Tokens as the provider counted them."""

    input_tokens: int
    output_tokens: int


@dataclass(frozen=True, slots=True, kw_only=True)
class TextDelta:
    """The next piece of the answer's text, never empty."""

    text: str


@dataclass(frozen=True, slots=True, kw_only=True)
class ToolCallMade:
    """A complete tool call; it comes after the text and before `Finished`."""

    call: ToolCall


@dataclass(frozen=True, slots=True, kw_only=True)
class Finished:
    """The end of a usable answer, exactly once and last.

    `reason` is the provider's word (stop, length, tool_calls); `usage` is None when the provider
    did not count, and the caller estimates.
    """

    reason: str
    model: str
    usage: Usage | None


ChatEvent: TypeAlias = TextDelta | ToolCallMade | Finished


@dataclass(frozen=True, slots=True, kw_only=True)
class ChatAnswer:
    """A drained answer."""

    text: str
    tool_calls: tuple[ToolCall, ...]
    reason: str
    model: str
    usage: Usage | None


class ChatProvider(Protocol):
    """Anything that answers a prompt."""

    def stream(self, *, request: ChatRequest) -> AsyncGenerator[ChatEvent, None]:
        """Yield the answer as it comes: text, then tool calls, then one `Finished`.

        Closing the iterator (`aclose`, or cancelling the task that waits on it) closes the
        provider's connection at once. Use `contextlib.aclosing` when leaving early.

        Raises:
            ProviderError: or a subclass, when there is no usable answer; events that were
                already yielded must then not be kept.
        """
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class ProviderTimeouts:
    """How long each phase of a call may take, in seconds; `total_seconds` bounds all of them."""

    connect_seconds: float = 5
    first_token_seconds: float = 60
    between_tokens_seconds: float = 30
    total_seconds: float = 300


@dataclass(frozen=True, slots=True, kw_only=True)
class ProviderConfig:
    """One provider as stored, with its key already opened.

    `kind` is openai_compatible or offline, `locality` local or cloud. `allowed_hosts` is the
    operator's list: "host", "host:port", "loopback", or "*" for any host.
    """

    id: str
    kind: str
    base_url: str | None
    api_key: str | None = field(repr=False)
    locality: str
    vendor: str
    timeouts: ProviderTimeouts = ProviderTimeouts()
    allowed_hosts: tuple[str, ...] = ()


async def complete(provider: ChatProvider, *, request: ChatRequest) -> ChatAnswer:
    """Drain one stream into an answer; the same call, the same errors, no second road.

    Raises:
        ProviderError: as `ChatProvider.stream` does, or when the stream ends unfinished.
    """
    pieces: list[str] = []
    calls: list[ToolCall] = []
    async with aclosing(provider.stream(request=request)) as events:
        async for event in events:
            if isinstance(event, TextDelta):
                pieces.append(event.text)
            elif isinstance(event, ToolCallMade):
                calls.append(event.call)
            else:
                return ChatAnswer(
                    text="".join(pieces),
                    tool_calls=tuple(calls),
                    reason=event.reason,
                    model=event.model,
                    usage=event.usage,
                )
    raise ProviderError("The provider's stream ended before it was finished.")
