"""A client that drives config.handler.PooledHandler in this process, over the ASGI protocol itself.

Needs `committed_db`: the handler works on threads with connections of their own.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any
from urllib.parse import quote, urlsplit

from config.handler import PooledHandler

PATIENCE_SECONDS = 20.0


@dataclass(frozen=True)
class Answer:
    """A whole answer."""

    status: int
    headers: dict[str, str]
    body: bytes

    def json(self) -> Any:
        """The body as JSON."""
        return json.loads(self.body)


@dataclass(frozen=True)
class Event:
    """One server-sent event."""

    name: str
    data: Any


class Stream:
    """A stream that is being read."""

    def __init__(self) -> None:
        self.status = 0
        self.headers: dict[str, str] = {}
        self.raw = b""
        self._news = asyncio.Event()
        self._is_over = False
        self.left = asyncio.Event()

    async def send(self, message: Mapping[str, Any]) -> None:
        """Take what the server sends."""
        if message["type"] == "http.response.start":
            self.status = message["status"]
            self.headers = {k.decode(): v.decode("latin1") for k, v in message["headers"]}
        else:
            self.raw += message.get("body", b"")
            self._is_over = not message.get("more_body", False)
        self._news.set()

    async def until(self, marker: bytes) -> bytes:
        """What was received, once `marker` is in it or the stream is over."""
        async with asyncio.timeout(PATIENCE_SECONDS):
            while marker not in self.raw and not self._is_over:
                self._news.clear()
                await self._news.wait()
        return self.raw

    async def over(self) -> bytes:
        """Everything, once the stream is over."""
        async with asyncio.timeout(PATIENCE_SECONDS):
            while not self._is_over:
                self._news.clear()
                await self._news.wait()
        return self.raw

    def disconnect(self) -> None:
        """Leave, as a client that closes its connection."""
        self.left.set()

    def events(self) -> list[Event]:
        """The events received so far, comments left out."""
        return events_of(self.raw)


def events_of(raw: bytes) -> list[Event]:
    """The events in a stream's bytes; each must be one event line and one data line."""
    found = []
    for block in raw.decode().split("\n\n"):
        if not block or block.startswith(":"):
            continue
        first, second = block.split("\n")
        assert first.startswith("event: ")
        assert second.startswith("data: ")
        found.append(
            Event(first.removeprefix("event: "), json.loads(second.removeprefix("data: ")))
        )
    return found


class AsgiClient:
    """Requests against one handler; every call needs a running loop."""

    def __init__(self, headers: Mapping[str, str] | None = None) -> None:
        self.handler = PooledHandler()
        self.headers = dict(headers or {})

    async def request(
        self,
        method: str,
        url: str,
        *,
        json_body: Any = None,
        body: bytes | None = None,
        chunks: Sequence[bytes] | None = None,
        headers: Mapping[str, str] | None = None,
    ) -> Answer:
        """Send a request and return its answer; `chunks` go without a length."""
        parts = list(chunks) if chunks is not None else [_encoded(json_body, body)]
        async with self.opened(
            method, url, parts=parts, headers=headers, has_length=chunks is None
        ) as stream:
            raw = await stream.over()
        return Answer(stream.status, stream.headers, raw)

    async def post(self, url: str, json_body: Any = None, **options: Any) -> Answer:
        """POST some JSON."""
        return await self.request("POST", url, json_body=json_body, **options)

    async def get(self, url: str, **options: Any) -> Answer:
        """GET."""
        return await self.request("GET", url, **options)

    @asynccontextmanager
    async def stream(
        self, url: str, json_body: Any, *, headers: Mapping[str, str] | None = None
    ) -> AsyncIterator[Stream]:
        """POST and read the stream piece by piece; leaving the block disconnects."""
        parts = [_encoded(json_body, None)]
        async with self.opened("POST", url, parts=parts, headers=headers) as stream:
            yield stream

    @asynccontextmanager
    async def opened(
        self,
        method: str,
        url: str,
        *,
        parts: Sequence[bytes],
        headers: Mapping[str, str] | None = None,
        has_length: bool = True,
    ) -> AsyncIterator[Stream]:
        """A request on its way."""
        sent = {"host": "testserver", **self.headers, **(headers or {})}
        body = b"".join(parts)
        if body and "content-type" not in {name.lower() for name in sent}:
            sent["content-type"] = "application/json"
        if body and has_length:
            sent["content-length"] = str(len(body))
        stream = Stream()
        waiting = list(parts)

        async def receive() -> dict[str, Any]:
            if waiting:
                chunk = waiting.pop(0)
                return {"type": "http.request", "body": chunk, "more_body": bool(waiting)}
            await stream.left.wait()
            return {"type": "http.disconnect"}

        serving = asyncio.create_task(self.handler(_scope(method, url, sent), receive, stream.send))
        serving.add_done_callback(lambda _: stream._news.set())
        try:
            yield stream
        finally:
            stream.disconnect()
            async with asyncio.timeout(PATIENCE_SECONDS):
                await serving


def _encoded(json_body: Any, body: bytes | None) -> bytes:
    if body is not None:
        return body
    return b"" if json_body is None else json.dumps(json_body).encode()


def _scope(method: str, url: str, headers: Mapping[str, str]) -> dict[str, Any]:
    parts = urlsplit(url)
    return {
        "type": "http",
        "asgi": {"version": "3.0", "spec_version": "2.3"},
        "http_version": "1.1",
        "method": method,
        "scheme": "http",
        "path": parts.path,
        "raw_path": quote(parts.path).encode(),
        "query_string": parts.query.encode(),
        "root_path": "",
        "headers": [(k.lower().encode(), v.encode("latin1")) for k, v in headers.items()],
        "client": ("127.0.0.1", 50000),
        "server": ("testserver", 80),
    }
