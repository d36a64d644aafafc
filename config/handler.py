"""The way from ASGI into Django: the synchronous stack in a bounded pool, waiting on the loop.

Django's own ASGI handler makes a thread for each request and adapts each middleware; here the whole
synchronous stack of a request is one piece of work on a database thread (memory.db_threads), and
what waits for a model, a `DeferredResponse` or an asynchronous stream, holds no thread.
ADR 0003 has the measurement.
"""

from __future__ import annotations

import asyncio
import logging
import tempfile
from collections.abc import AsyncGenerator, Awaitable, Callable, MutableMapping
from contextlib import aclosing, suppress
from typing import Any, Final

from django.core.handlers.asgi import ASGIRequest
from django.core.handlers.base import BaseHandler
from django.http import HttpResponse, HttpResponseBase, StreamingHttpResponse
from django.urls import set_script_prefix

from memory.db_threads import in_database_thread
from threads.api.deferred import DeferredResponse
from threads.api.limits import body_limit
from threads.api.problems import Problem, early_refusal

Message = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[Message]]
Send = Callable[[Message], Awaitable[None]]

HEADER_BYTES: Final = 32 * 1024
TARGET_BYTES: Final = 8 * 1024
BODY_SECONDS: Final = 30.0
SEND_SECONDS: Final = 30.0
_OF_THE_BODY: Final = frozenset({"content-type", "content-length", "content-language"})
_SPOOL_BYTES: Final = 1024 * 1024
_log = logging.getLogger("credence.server")


class ClientGoneError(Exception):
    """The client closed the connection before its request was read."""


class PooledHandler(BaseHandler):
    """The ASGI application."""

    def __init__(self) -> None:
        """Load Django's middleware once, synchronous."""
        super().__init__()
        self.load_middleware(is_async=False)
        self._unfinished: set[asyncio.Task[None]] = set()

    async def __call__(self, scope: MutableMapping[str, Any], receive: Receive, send: Send) -> None:
        """Serve one request."""
        if scope["type"] != "http":
            return
        try:
            body = await read_body(scope, receive)
        except ClientGoneError:
            return
        if isinstance(body, HttpResponse):
            await _send_whole(body, send)
            return
        with body:
            request = ASGIRequest(scope, body)
            response = await in_database_thread(lambda: self._respond(request))
        if isinstance(response, DeferredResponse):
            await self._outlive_client(self._send_deferred(response, receive, send))
        elif isinstance(response, StreamingHttpResponse):
            await _stream_until_gone(response, receive, send)
        else:
            await _send_whole(response, send)
        await in_database_thread(response.close)

    def _respond(self, request: ASGIRequest) -> HttpResponseBase:
        set_script_prefix("/")
        return self.get_response(request)

    async def _send_deferred(
        self, deferred: DeferredResponse, receive: Receive, send: Send
    ) -> None:
        response = await deferred.finish()
        for name, value in deferred.items():
            if name.lower() not in _OF_THE_BODY:
                response[name] = value
        if isinstance(response, StreamingHttpResponse):
            await _stream_until_gone(response, receive, send)
            return
        with suppress(ConnectionError, OSError, TimeoutError):
            await _send_whole(response, send)

    async def _outlive_client(self, work: Any) -> None:
        """Await `work`, which goes on when this request's own task is cancelled."""
        task = asyncio.ensure_future(work)
        self._unfinished.add(task)
        task.add_done_callback(self._unfinished.discard)
        await asyncio.shield(task)


async def read_body(
    scope: MutableMapping[str, Any], receive: Receive
) -> tempfile.SpooledTemporaryFile[bytes] | HttpResponse:
    """Return the body, or the answer to a body that is too long or too slow.

    A URL, headers or a stated length over their limit are answered before anything is read.

    Raises:
        ClientGoneError: The client left while sending.
    """
    limit = body_limit(method=scope["method"], path=scope["path"])
    if len(scope["path"].encode()) + len(scope["query_string"]) > TARGET_BYTES:
        return _refusal(414, "uri_too_long", f"A URL is at most {TARGET_BYTES} bytes.")
    if sum(len(name) + len(value) for name, value in scope["headers"]) > HEADER_BYTES:
        return _refusal(431, "headers_too_large", f"Headers are at most {HEADER_BYTES} bytes.")
    stated = _stated_length(scope)
    if stated is not None and stated > limit:
        return _refusal(413, "body_too_large", f"A body is at most {limit} bytes.")
    try:
        async with asyncio.timeout(BODY_SECONDS):
            return await _collect(receive, limit)
    except TimeoutError:
        return _refusal(408, "body_too_slow", f"Send the body within {BODY_SECONDS:.0f} seconds.")


async def _collect(
    receive: Receive, limit: int
) -> tempfile.SpooledTemporaryFile[bytes] | HttpResponse:
    body: tempfile.SpooledTemporaryFile[bytes]
    body = tempfile.SpooledTemporaryFile(max_size=_SPOOL_BYTES)  # noqa: SIM115 - handed on
    try:
        is_within = await _fill(body, receive, limit)
    except BaseException:
        body.close()
        raise
    if not is_within:
        body.close()
        return _refusal(413, "body_too_large", f"A body is at most {limit} bytes.")
    body.seek(0)
    return body


async def _fill(body: tempfile.SpooledTemporaryFile[bytes], receive: Receive, limit: int) -> bool:
    """Read the body into a file; False as soon as it is over the limit."""
    size = 0
    while True:
        message = await receive()
        if message["type"] == "http.disconnect":
            raise ClientGoneError
        chunk = message.get("body", b"")
        size += len(chunk)
        if size > limit:
            return False
        body.write(chunk)
        if not message.get("more_body", False):
            return True


def _stated_length(scope: MutableMapping[str, Any]) -> int | None:
    for name, value in scope["headers"]:
        if name == b"content-length" and value.isdigit():
            return int(value)
    return None


def _refusal(status: int, code: str, detail: str) -> HttpResponse:
    return early_refusal(Problem(status=status, code=code, detail=detail))


def _start(response: HttpResponseBase) -> Message:
    headers = [
        (name.lower().encode("ascii"), value.encode("latin1")) for name, value in response.items()
    ]
    headers += [
        (b"set-cookie", morsel.OutputString().encode("ascii"))
        for morsel in response.cookies.values()
    ]
    return {"type": "http.response.start", "status": response.status_code, "headers": headers}


async def _send_whole(response: HttpResponseBase, send: Send) -> None:
    await send(_start(response))
    content = getattr(response, "content", b"")
    await send({"type": "http.response.body", "body": content, "more_body": False})


async def _stream(response: StreamingHttpResponse, send: Send) -> None:
    """Send a stream; a reader that takes nothing for SEND_SECONDS is given up."""
    await send(_start(response))
    async with aclosing(_chunks(response)) as chunks:
        async for chunk in chunks:
            async with asyncio.timeout(SEND_SECONDS):
                await send({"type": "http.response.body", "body": chunk, "more_body": True})
    await send({"type": "http.response.body", "body": b"", "more_body": False})


async def _chunks(response: StreamingHttpResponse) -> AsyncGenerator[bytes, None]:
    content: Any = response.streaming_content
    if response.is_async:
        async with aclosing(content) as parts:
            async for part in parts:
                yield part
        return
    rest = iter(content)
    while (piece := await in_database_thread(lambda: next(rest, None))) is not None:
        yield piece


async def _stream_until_gone(response: StreamingHttpResponse, receive: Receive, send: Send) -> None:
    """Send a stream and stop it, generators closed, as soon as the client is gone."""
    sending = asyncio.ensure_future(_stream(response, send))
    leaving = asyncio.ensure_future(_gone(receive))
    try:
        await asyncio.wait({sending, leaving}, return_when=asyncio.FIRST_COMPLETED)
    finally:
        leaving.cancel()
        if not sending.done():
            sending.cancel()
        with suppress(asyncio.CancelledError, ConnectionError, TimeoutError, OSError):
            await sending


async def _gone(receive: Receive) -> None:
    while (await receive())["type"] != "http.disconnect":
        pass
