"""What the scripted server can do with a request: answer well, late, wrongly, or not at all.

Every reply is a small frozen object with one coroutine, `send(exchange)`.
"""

from __future__ import annotations

import json
import threading
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

Json = Mapping[str, Any]


class Wire(Protocol):
    """What a reply may do to its connection."""

    @property
    def body(self) -> Json:
        """The request's JSON."""
        ...

    async def head(self, *, status: int = 200, headers: Mapping[str, str] | None = None) -> None:
        """Send status line and headers; without a content-length the body is chunked."""
        ...

    async def part(self, data: bytes) -> None:
        """Send a piece of the body."""
        ...

    async def end(self) -> None:
        """End a chunked body."""
        ...

    async def raw(self, data: bytes) -> None:
        """Send bytes as they are."""
        ...

    async def wait(self, seconds: float) -> None:
        """Wait, or less if the client leaves."""
        ...

    async def wait_for(self, event: threading.Event) -> None:
        """Wait until a test sets `event`, or the client leaves."""
        ...

    def hang_up(self) -> None:
        """Close the connection abruptly."""
        ...


class Reply(Protocol):
    """One scripted behaviour."""

    async def send(self, wire: Wire) -> None:
        """Answer the request on `wire`."""
        ...


def chunk(delta: Json, *, finish: str | None = None, model: str = "fake-1") -> Json:
    """Return one streamed chunk."""
    choice = {"index": 0, "delta": delta, "finish_reason": finish}
    return {"id": "c1", "object": "chat.completion.chunk", "model": model, "choices": [choice]}


def event(value: object) -> bytes:
    """Return `value` as one server-sent event."""
    return b"data: " + json.dumps(value, ensure_ascii=False).encode() + b"\n\n"


DONE = b"data: [DONE]\n\n"
SSE = {"content-type": "text/event-stream; charset=utf-8"}
JSON_TYPE = {"content-type": "application/json"}


@dataclass(frozen=True, kw_only=True)
class Answer:
    """A well-formed answer: deltas of text, then tool calls, then the finish and the usage.

    Streams if the request asks so, unless `as_json`. `gate` holds the text back until it is set.
    """

    deltas: Sequence[str] = ("Hello.",)
    tool_calls: Sequence[Json] = ()
    finish: str = "stop"
    usage: tuple[int, int] | None = (11, 7)
    first_delay_seconds: float = 0.0
    delay_seconds: float = 0.0
    as_json: bool = False
    gate: threading.Event | None = None
    gate_after: int = 0
    extra: Sequence[Json] = ()

    async def send(self, wire: Wire) -> None:
        """Answer."""
        if self.as_json or not wire.body.get("stream"):
            await self._send_whole(wire)
            return
        await wire.head(headers=SSE)
        if self.first_delay_seconds:
            await wire.wait(self.first_delay_seconds)
        await wire.part(event(chunk({"role": "assistant", "content": ""})))
        for extra in self.extra:
            await wire.part(event(chunk(extra)))
        for at, text in enumerate(self.deltas):
            if self.gate is not None and at == self.gate_after:
                await wire.wait_for(self.gate)
            elif self.delay_seconds and at:
                await wire.wait(self.delay_seconds)
            await wire.part(event(chunk({"content": text})))
        for delta in self.tool_calls:
            await wire.part(event(chunk({"tool_calls": [delta]})))
        await wire.part(event(chunk({}, finish=self.finish)) + self._usage_event() + DONE)
        await wire.end()

    def _usage_event(self) -> bytes:
        if self.usage is None:
            return b""
        return event({"id": "c1", "model": "fake-1", "choices": [], "usage": _usage(self.usage)})

    async def _send_whole(self, wire: Wire) -> None:
        if self.first_delay_seconds:
            await wire.wait(self.first_delay_seconds)
        message: dict[str, Any] = {"role": "assistant", "content": "".join(self.deltas)}
        if self.tool_calls:
            message["tool_calls"] = list(self.tool_calls)
        choice = {"index": 0, "message": message, "finish_reason": self.finish}
        whole: dict[str, Any] = {"id": "c1", "model": "fake-1", "choices": [choice]}
        if self.usage is not None:
            whole["usage"] = _usage(self.usage)
        await Body(content=json.dumps(whole, ensure_ascii=False).encode()).send(wire)


def text(value: str, **options: Any) -> Answer:
    """Answer with `value` in deltas of at most 8 characters."""
    deltas = [value[at : at + 8] for at in range(0, len(value), 8)]
    return Answer(deltas=deltas, **options)


def tool_call(name: str, arguments: str, *, call_id: str | None = "call_1", index: int = 0) -> Json:
    """Return a whole tool call, as a delta."""
    made: dict[str, Any] = {"index": index, "type": "function"}
    if call_id is not None:
        made["id"] = call_id
    return {**made, "function": {"name": name, "arguments": arguments}}


def calls(*made: tuple[str, str], said: str = "", **options: Any) -> Answer:
    """Answer with calls of (tool, arguments), their ids numbered, perhaps after some text."""
    deltas = [tool_call(*one, call_id=f"call_{at}", index=at) for at, one in enumerate(made, 1)]
    given: dict[str, Any] = {"finish": "tool_calls"} | options
    return Answer(deltas=[said] if said else [], tool_calls=deltas, **given)


@dataclass(frozen=True, kw_only=True)
class Body:
    """Any status, headers and body, with a content-length."""

    content: bytes = b""
    status: int = 200
    headers: Mapping[str, str] = field(default_factory=lambda: JSON_TYPE)

    async def send(self, wire: Wire) -> None:
        """Answer."""
        length = {"content-length": str(len(self.content))}
        await wire.head(status=self.status, headers={**self.headers, **length})
        await wire.part(self.content)


def status(
    code: int, /, *, message: str = "no", retry_after: str | None = None, **error: Any
) -> Body:
    """Answer with an error status, as OpenAI does."""
    headers = dict(JSON_TYPE)
    if retry_after is not None:
        headers["retry-after"] = retry_after
    content = json.dumps({"error": {"message": message, **error}}).encode()
    return Body(status=code, headers=headers, content=content)


def redirect(location: str) -> Body:
    """Answer 302."""
    return Body(status=302, headers={"location": location})


@dataclass(frozen=True, kw_only=True)
class Stream:
    """An event stream of given bytes; `breaks` closes the socket before its proper end."""

    parts: Sequence[bytes] = ()
    breaks: bool = False
    delay_seconds: float = 0.0
    headers: Mapping[str, str] = field(default_factory=lambda: SSE)

    async def send(self, wire: Wire) -> None:
        """Answer."""
        await wire.head(headers=self.headers)
        for part in self.parts:
            await wire.part(part)
            if self.delay_seconds:
                await wire.wait(self.delay_seconds)
        if self.breaks:
            wire.hang_up()
        else:
            await wire.end()


@dataclass(frozen=True, kw_only=True)
class Dribble:
    """The same bytes again and again, slowly, after the headers or (`in_head`) inside them."""

    data: bytes
    every_seconds: float
    in_head: bool = False
    headers: Mapping[str, str] = field(default_factory=lambda: SSE)

    async def send(self, wire: Wire) -> None:
        """Dribble until the client leaves."""
        if self.in_head:
            await wire.raw(b"HTTP/1.1 200 OK\r\nX-Slow: ")
        else:
            await wire.head(headers=self.headers)
        while True:
            await (wire.raw(self.data) if self.in_head else wire.part(self.data))
            await wire.wait(self.every_seconds)


@dataclass(frozen=True, kw_only=True)
class Huge:
    """A body of `size` bytes that never makes sense."""

    size: int
    headers: Mapping[str, str] = field(default_factory=lambda: JSON_TYPE)
    status: int = 200
    begin: bytes = b'{"a": "'

    async def send(self, wire: Wire) -> None:
        """Answer, as far as the client reads."""
        await wire.head(status=self.status, headers=self.headers)
        await wire.part(self.begin)
        block = b"x" * 65536
        for _ in range(self.size // len(block)):
            await wire.part(block)
        await wire.end()


@dataclass(frozen=True, kw_only=True)
class HangUp:
    """Close the connection, before any byte or after the given ones."""

    after: bytes = b""

    async def send(self, wire: Wire) -> None:
        """Close."""
        if self.after:
            await wire.raw(self.after)
        wire.hang_up()


@dataclass(frozen=True, kw_only=True)
class Hang:
    """Say nothing until `release` is set, then answer with `then`."""

    release: threading.Event = field(default_factory=threading.Event)
    then: Reply = field(default_factory=Answer)

    async def send(self, wire: Wire) -> None:
        """Wait, then answer."""
        await wire.wait_for(self.release)
        await self.then.send(wire)


def _usage(counts: tuple[int, int]) -> Json:
    return {
        "prompt_tokens": counts[0],
        "completion_tokens": counts[1],
        "total_tokens": sum(counts),
    }
