"""A scripted OpenAI-compatible server over real HTTP on loopback.

In tests::

    with FakeOpenAI() as server:
        server.script(text("你好"), status(503, retry_after="1"))   # one reply a call, in order
        server.answer_with(lambda body: text(body["messages"][-1]["content"].upper()))
        ...ProviderConfig(base_url=server.base_url, ...)
        server.requests[0].body["messages"]

Scripted replies go first, then the function, then an echo of the last user message. Embeddings
(tests.fakes.openai_embeddings) have a script and a function of their own: `script_embeddings`,
`embed_with`. Every request is recorded, with an event that tells when its client left before the end.

Alone, for benchmarks: ``python -m tests.fakes.openai_server --port 9099 --delay-ms 200 --echo``.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import sys
import threading
from collections import deque
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from types import TracebackType
from typing import Any

from tests.fakes.openai_embeddings import embed
from tests.fakes.openai_replies import Answer, Json, Reply, text

_REASONS = {200: "OK", 302: "Found", 400: "Bad Request", 429: "Too Many Requests"}
_BACKLOG = 4096
_START_SECONDS = 10


class ClientLeftError(Exception):
    """The client closed the connection before the reply was complete."""


@dataclass(frozen=True, kw_only=True)
class Recorded:
    """A request as it arrived; `client_left` is set if the client closed before the end."""

    method: str
    path: str
    headers: Mapping[str, str]
    raw: bytes
    client_left: threading.Event = field(default_factory=threading.Event)
    replied: threading.Event = field(default_factory=threading.Event)

    @property
    def body(self) -> dict[str, Any]:
        """The body as JSON, empty if it is none."""
        try:
            value = json.loads(self.raw)
        except ValueError:
            return {}
        return value if isinstance(value, dict) else {}


def echo(body: Json) -> Reply:
    """Answer with the last user message."""
    spoken = [m.get("content") or "" for m in body.get("messages", []) if m.get("role") == "user"]
    return text(str(spoken[-1]) if spoken else "(nothing said)")


class FakeOpenAI:
    """The server in a thread of its own, on a free port, as a context manager."""

    def __init__(self, *, port: int = 0) -> None:
        """Prepare; `start` or `with` begins to listen."""
        self.requests: list[Recorded] = []
        self.connections = 0
        self.open_connections = 0
        self._port = port
        self._script: deque[Reply] = deque()
        self._answer: Callable[[Json], Reply] = echo
        self._embedding_script: deque[Reply] = deque()
        self._embed: Callable[[Json], Reply] = embed
        self._changed = threading.Condition()
        self._listening = threading.Event()
        self._loop: asyncio.AbstractEventLoop | None = None
        self._connections: set[_Connection] = set()
        self._stop = asyncio.Event()
        self._thread = threading.Thread(target=self._run, name="fake-openai", daemon=True)

    @property
    def port(self) -> int:
        """The port it listens on."""
        return self._port

    @property
    def base_url(self) -> str:
        """What a provider is configured with."""
        return f"http://127.0.0.1:{self._port}/v1"

    def script(self, *replies: Reply) -> None:
        """Use these replies for the next calls, one each, after those already waiting."""
        self._script.extend(replies)

    def answer_with(self, answer: Callable[[Json], Reply]) -> None:
        """Make replies from the request's JSON whenever the script is used up."""
        self._answer = answer

    def script_embeddings(self, *replies: Reply) -> None:
        """Use these replies for the next calls of /embeddings, one each."""
        self._embedding_script.extend(replies)

    def embed_with(self, answer: Callable[[Json], Reply]) -> None:
        """Make replies of /embeddings from the request's JSON whenever their script is used up."""
        self._embed = answer

    @property
    def embedded_texts(self) -> list[str]:
        """Every text that was sent to /embeddings, in order."""
        asked = [request for request in list(self.requests) if _is_embedding(request)]
        return [str(text) for request in asked for text in request.body.get("input", [])]

    def wait_for_requests(self, count: int, *, timeout_seconds: float = 10) -> None:
        """Block until `count` requests have arrived.

        Raises:
            TimeoutError: when they do not.
        """
        with self._changed:
            if not self._changed.wait_for(lambda: len(self.requests) >= count, timeout_seconds):
                raise TimeoutError(f"{len(self.requests)} of {count} requests arrived")

    def start(self) -> FakeOpenAI:
        """Listen."""
        self._thread.start()
        if not self._listening.wait(_START_SECONDS):
            raise TimeoutError("the fake server did not start")
        return self

    def stop(self) -> None:
        """Drop every connection and end the thread; a second time does nothing."""
        if self._loop is not None and self._thread.is_alive():
            self._loop.call_soon_threadsafe(self._stop.set)
        self._thread.join(_START_SECONDS)

    def __enter__(self) -> FakeOpenAI:
        """Start."""
        return self.start()

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        """Stop."""
        self.stop()

    def _run(self) -> None:
        asyncio.run(self.serve())

    def drop_connections(self) -> None:
        """Close every connection, as a restart would, and wait until that is done."""
        done = threading.Event()

        def drop() -> None:
            for connection in list(self._connections):
                connection.hang_up()
            asyncio.get_running_loop().call_later(0.05, done.set)

        if self._loop is not None:
            self._loop.call_soon_threadsafe(drop)
            done.wait(_START_SECONDS)

    async def serve(self) -> None:
        """Serve until `stop`, in the running loop."""
        connections = self._connections
        self._loop = loop = asyncio.get_running_loop()
        server = await loop.create_server(
            lambda: _Connection(self, connections), "127.0.0.1", self._port, backlog=_BACKLOG
        )
        self._port = server.sockets[0].getsockname()[1]
        self._listening.set()
        await self._stop.wait()
        server.close()
        for connection in list(connections):
            connection.hang_up()
        tasks = [task for task in asyncio.all_tasks() if task is not asyncio.current_task()]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    def next_reply(self, request: Recorded) -> Reply:
        """Record `request` and choose its reply."""
        with self._changed:
            self.requests.append(request)
            self._changed.notify_all()
        if _is_embedding(request):
            script, answer = self._embedding_script, self._embed
        else:
            script, answer = self._script, self._answer
        return script.popleft() if script else answer(request.body)


def _is_embedding(request: Recorded) -> bool:
    return request.path.endswith("/embeddings")


class _Connection(asyncio.Protocol):
    """One client connection: parses requests, and hears at once when the client leaves."""

    def __init__(self, server: FakeOpenAI, connections: set[_Connection]) -> None:
        self._server = server
        self._connections = connections
        self._buffer = b""
        self._gone = asyncio.Event()
        self._may_write = asyncio.Event()
        self._task: asyncio.Task[None] | None = None
        self._transport: asyncio.Transport | None = None
        self._request: Recorded | None = None
        self._is_chunked = False

    # The asyncio side.

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self._transport = transport
        self._may_write.set()
        self._connections.add(self)
        self._server.connections += 1
        self._server.open_connections += 1

    def connection_lost(self, exc: Exception | None) -> None:
        self._gone.set()
        self._may_write.set()
        self._connections.discard(self)
        self._server.open_connections -= 1
        if self._request is not None:
            self._request.client_left.set()

    def eof_received(self) -> bool:
        return False

    def pause_writing(self) -> None:
        self._may_write.clear()

    def resume_writing(self) -> None:
        self._may_write.set()

    def data_received(self, data: bytes) -> None:
        self._buffer += data
        if self._request is None:
            self._begin()

    def _begin(self) -> None:
        request = self._take_request()
        if request is not None:
            self._request = request
            self._task = asyncio.get_running_loop().create_task(self._reply(request))

    def _take_request(self) -> Recorded | None:
        head, blank, rest = self._buffer.partition(b"\r\n\r\n")
        if not blank:
            return None
        first, *lines = head.decode("latin-1").split("\r\n")
        method, path, _ = first.split(" ", 2)
        pairs = (line.partition(":") for line in lines)
        headers = {name.strip().lower(): value.strip() for name, _, value in pairs}
        length = int(headers.get("content-length", "0"))
        if len(rest) < length:
            return None
        self._buffer = rest[length:]
        return Recorded(method=method, path=path, headers=headers, raw=rest[:length])

    async def _reply(self, request: Recorded) -> None:
        try:
            await self._server.next_reply(request).send(self)
        except ClientLeftError:
            return
        except Exception:
            self.hang_up()  # a broken script must not look like a slow server
            raise
        self._request = None
        request.replied.set()
        if self._buffer:
            self._begin()

    # What replies use.

    @property
    def body(self) -> Json:
        return self._request.body if self._request else {}

    async def head(self, *, status: int = 200, headers: Mapping[str, str] | None = None) -> None:
        given = dict(headers or {})
        self._is_chunked = "content-length" not in given
        if self._is_chunked:
            given["transfer-encoding"] = "chunked"
        lines = [f"HTTP/1.1 {status} {_REASONS.get(status, 'Status')}"]
        lines += [f"{name}: {value}" for name, value in given.items()]
        await self.raw("\r\n".join([*lines, "", ""]).encode())

    async def part(self, data: bytes) -> None:
        if data and self._is_chunked:
            data = f"{len(data):x}\r\n".encode() + data + b"\r\n"
        await self.raw(data)

    async def end(self) -> None:
        if self._is_chunked:
            await self.raw(b"0\r\n\r\n")

    async def raw(self, data: bytes) -> None:
        await self._may_write.wait()
        if self._gone.is_set() or self._transport is None or self._transport.is_closing():
            raise ClientLeftError
        self._transport.write(data)

    async def wait(self, seconds: float) -> None:
        try:
            await asyncio.wait_for(self._gone.wait(), seconds)
        except TimeoutError:
            return
        raise ClientLeftError

    async def wait_for(self, event: threading.Event) -> None:
        while not event.is_set():
            await self.wait(0.005)

    def hang_up(self) -> None:
        self._request = None
        if self._transport is not None:
            self._transport.close()


def main(arguments: list[str] | None = None) -> None:
    """Serve as a process of its own until interrupted."""
    parser = argparse.ArgumentParser(description="A stub OpenAI-compatible server.")
    parser.add_argument("--port", type=int, default=9099)
    parser.add_argument("--delay-ms", type=float, default=0.0, help="before the first token")
    parser.add_argument("--between-ms", type=float, default=0.0, help="between tokens")
    parser.add_argument("--tokens", type=int, default=8, help="deltas of an answer without --echo")
    parser.add_argument("--echo", action="store_true", help="answer with the last user message")
    options = parser.parse_args(arguments)
    server = FakeOpenAI(port=options.port)
    server.answer_with(lambda body: _bench_reply(body, options))
    sys.stdout.write(f"listening on {server.base_url}\n")
    sys.stdout.flush()
    try:
        asyncio.run(server.serve())
    except KeyboardInterrupt:
        return


def _bench_reply(body: Json, options: argparse.Namespace) -> Reply:
    delays = {
        "first_delay_seconds": options.delay_ms / 1000,
        "delay_seconds": options.between_ms / 1000,
    }
    if not options.echo:
        return Answer(deltas=["word "] * options.tokens, **delays)
    answer = echo(body)
    assert isinstance(answer, Answer)
    return text("".join(answer.deltas), **delays)


if __name__ == "__main__":
    main()
