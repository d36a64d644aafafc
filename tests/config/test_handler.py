"""The ASGI handler: bodies, deferred answers, streams and clients that leave."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, MutableMapping
from typing import Any

import pytest
from django.http import HttpResponse, StreamingHttpResponse
from django.test import override_settings
from django.urls import path

from config import handler
from config.handler import PooledHandler
from threads.api.deferred import DeferredResponse

LEFT: list[str] = []
FINISHED: list[str] = []


def echo(request):
    return HttpResponse(request.body, content_type="text/plain")


def deferred(request):
    async def finish() -> HttpResponse:
        await asyncio.sleep(0.05)
        FINISHED.append("yes")
        return HttpResponse("later", status=201, content_type="text/plain")

    return DeferredResponse(finish)


def endless(request) -> StreamingHttpResponse:
    async def parts() -> AsyncIterator[bytes]:
        try:
            while True:
                yield b"tick"
                await asyncio.sleep(0.01)
        finally:
            LEFT.append("closed")

    return StreamingHttpResponse(parts())


def deferred_endless(request):
    async def finish() -> StreamingHttpResponse:
        return endless(request)

    return DeferredResponse(finish)


def plain_stream(request):
    return StreamingHttpResponse(iter([b"a", b"b"]))


urlpatterns = [
    path("echo", echo),
    path("deferred", deferred),
    path("endless", endless),
    path("deferred-endless", deferred_endless),
    path("plain", plain_stream),
]


class Wire:
    """One request over ASGI: what the client sends, and what it got."""

    def __init__(self, url: str, *chunks: bytes, headers: dict[str, str] | None = None) -> None:
        self.scope: dict[str, Any] = {
            "type": "http",
            "method": "POST",
            "path": url,
            "query_string": b"",
            "headers": [(k.encode(), v.encode()) for k, v in (headers or {}).items()],
        }
        self.chunks = list(chunks) or [b""]
        self.gone = asyncio.Event()
        self.sent: list[dict[str, Any]] = []

    async def receive(self) -> dict[str, Any]:
        if self.chunks:
            body = self.chunks.pop(0)
            return {"type": "http.request", "body": body, "more_body": bool(self.chunks)}
        await self.gone.wait()
        return {"type": "http.disconnect"}

    async def send(self, message: MutableMapping[str, Any]) -> None:
        self.sent.append(dict(message))

    @property
    def status(self) -> int:
        return int(self.sent[0]["status"])

    @property
    def body(self) -> bytes:
        return b"".join(message.get("body", b"") for message in self.sent)

    @property
    def headers(self) -> dict[str, str]:
        return {name.decode(): value.decode() for name, value in self.sent[0]["headers"]}


@pytest.fixture
def app(django_db_blocker):
    """The handler on the views above; its pool may hold connections of tests before."""
    LEFT.clear()
    FINISHED.clear()
    with django_db_blocker.unblock(), override_settings(ROOT_URLCONF=__name__, MIDDLEWARE=[]):
        yield PooledHandler()


def serve(app: PooledHandler, url: str, *chunks: bytes, **headers: str) -> Wire:
    async def go() -> Wire:
        wire = Wire(url, *chunks, headers=headers)
        await app(wire.scope, wire.receive, wire.send)
        return wire

    return asyncio.run(go())


def test_body_in_chunks_without_length_is_read_whole_case_110(app):
    wire = serve(app, "/echo", b"one ", b"two ", "三".encode())
    assert (wire.status, wire.body.decode()) == (200, "one two 三")


def test_stated_length_over_limit_is_refused_before_reading_case_109(app):
    wire = serve(app, "/echo", b"x", **{"content-length": str(4 * 1024 * 1024)})
    assert wire.status == 413
    assert json.loads(wire.body)["code"] == "body_too_large"
    assert wire.chunks == [b"x"]


def test_chunks_over_limit_are_refused_case_109(app):
    wire = serve(app, "/echo", *([b"x" * 1024 * 1024] * 4))
    assert wire.status == 413
    assert wire.headers["x-request-id"] == json.loads(wire.body)["request_id"]


def test_long_headers_are_refused(app):
    wire = serve(app, "/echo", **{"x-big": "a" * 40_000})
    assert (wire.status, json.loads(wire.body)["code"]) == (431, "headers_too_large")


@pytest.mark.parametrize(("path", "query"), [("/echo" + "a" * 8200, 0), ("/echo", 8200)])
def test_long_urls_are_refused_before_anything_is_read(app, path, query):
    async def go() -> Wire:
        wire = Wire(path, b"x")
        wire.scope["query_string"] = b"q=" + b"a" * query
        await app(wire.scope, wire.receive, wire.send)
        return wire

    wire = asyncio.run(go())
    assert (wire.status, json.loads(wire.body)["code"]) == (414, "uri_too_long")
    assert wire.headers["content-type"] == "application/problem+json"
    assert wire.chunks == [b"x"]


def test_slow_body_is_given_up_case_128(app, monkeypatch):
    monkeypatch.setattr(handler, "BODY_SECONDS", 0.05)

    async def go() -> Wire:
        wire = Wire("/echo", b"one", b"two")
        first = wire.receive

        async def dribble() -> dict[str, Any]:
            if len(wire.chunks) == 1:
                await asyncio.Event().wait()
            return await first()

        await app(wire.scope, dribble, wire.send)
        return wire

    assert asyncio.run(go()).status == 408


def test_client_that_leaves_while_sending_gets_nothing(app):
    async def go() -> Wire:
        wire = Wire("/echo")

        async def gone() -> dict[str, Any]:
            return {"type": "http.disconnect"}

        await app(wire.scope, gone, wire.send)
        return wire

    assert asyncio.run(go()).sent == []


def test_deferred_answer_is_sent_when_it_is_there(app):
    wire = serve(app, "/deferred")
    assert (wire.status, wire.body) == (201, b"later")


def test_deferred_work_outlives_a_client_that_leaves(app):
    async def go() -> None:
        wire = Wire("/deferred")
        task = asyncio.create_task(app(wire.scope, wire.receive, wire.send))
        await asyncio.sleep(0.02)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        async with asyncio.timeout(5):
            while not FINISHED:
                await asyncio.sleep(0.01)

    asyncio.run(go())
    assert FINISHED == ["yes"]


def test_stream_ends_and_closes_when_the_client_leaves(app):
    async def go() -> Wire:
        wire = Wire("/endless")
        task = asyncio.create_task(app(wire.scope, wire.receive, wire.send))
        async with asyncio.timeout(5):
            while len(wire.sent) < 3:
                await asyncio.sleep(0.01)
            wire.gone.set()
            await task
        return wire

    wire = asyncio.run(go())
    assert wire.body.startswith(b"tick")
    assert LEFT == ["closed"]


def test_reader_that_takes_nothing_is_given_up_case_128(app, monkeypatch):
    monkeypatch.setattr(handler, "SEND_SECONDS", 0.05)

    async def go() -> None:
        wire = Wire("/endless")

        async def stuck(message: MutableMapping[str, Any]) -> None:
            if message["type"] == "http.response.body":
                await asyncio.Event().wait()

        async with asyncio.timeout(5):
            await app(wire.scope, wire.receive, stuck)

    asyncio.run(go())
    assert LEFT == ["closed"]


def test_plain_iterator_is_streamed(app):
    assert serve(app, "/plain").body == b"ab"


def test_deferred_stream_closes_when_the_client_leaves(app):
    async def go() -> None:
        wire = Wire("/deferred-endless")
        task = asyncio.create_task(app(wire.scope, wire.receive, wire.send))
        async with asyncio.timeout(5):
            while len(wire.sent) < 3:
                await asyncio.sleep(0.01)
            wire.gone.set()
            await task

    asyncio.run(go())
    assert LEFT == ["closed"]
