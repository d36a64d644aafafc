"""The socket goes where the check looked, and nowhere else."""

from __future__ import annotations

import asyncio
import ssl
from typing import Any

import httpcore2
import pytest

from memory.providers.errors import ProviderRefusedHostError
from memory.providers.network import HostRule
from memory.providers.sockets import PinnedBackend, SilentCloseError, WatchedStream

pytestmark = pytest.mark.req("A28")


class Sockets(httpcore2.AsyncNetworkBackend):
    """Remembers where it was asked to connect; `dead` addresses refuse."""

    def __init__(self, *dead: str, stream: httpcore2.AsyncNetworkStream | None = None) -> None:
        self.dead = dead
        self.asked: list[tuple[str, int]] = []
        self.stream = stream or httpcore2.AsyncMockStream([])

    async def connect_tcp(
        self,
        host: str,
        port: int,
        timeout: float | None = None,  # noqa: ASYNC109
        local_address: str | None = None,
        socket_options: Any = None,
    ) -> httpcore2.AsyncNetworkStream:
        self.asked.append((host, port))
        if host in self.dead:
            raise httpcore2.ConnectError
        return self.stream


def pinned(sockets: Sockets, addresses: list[str], locality: str = "local") -> PinnedBackend:
    backend = PinnedBackend(
        rule=HostRule(locality=locality, allowed_hosts=("*",)),
        connect_seconds=5,
        resolve=lambda host, port: addresses,
    )
    backend._sockets = sockets  # type: ignore[assignment]
    return backend


def test_connection_goes_to_a_checked_address_never_to_the_name() -> None:
    sockets = Sockets("10.0.0.1")
    backend = pinned(sockets, ["10.0.0.1", "10.0.0.2"])
    asyncio.run(backend.connect_tcp("llm.internal", 8000))
    assert sockets.asked == [("10.0.0.1", 8000), ("10.0.0.2", 8000)]


def test_nothing_is_connected_when_an_address_is_refused() -> None:
    sockets = Sockets()
    backend = pinned(sockets, ["10.0.0.1", "8.8.8.8"])
    with pytest.raises(ProviderRefusedHostError):
        asyncio.run(backend.connect_tcp("llm.internal", 8000))
    with pytest.raises(ProviderRefusedHostError):
        asyncio.run(backend.connect_unix_socket("/var/run/docker.sock"))
    assert sockets.asked == []


def test_all_addresses_dead_is_a_connect_error() -> None:
    with pytest.raises(httpcore2.ConnectError):
        asyncio.run(pinned(Sockets("10.0.0.1"), ["10.0.0.1"]).connect_tcp("llm", 1))


class Tls(httpcore2.AsyncMockStream):
    name: str | None = None

    async def start_tls(
        self,
        ssl_context: ssl.SSLContext,
        server_hostname: str | None = None,
        timeout: float | None = None,  # noqa: ASYNC109
    ) -> httpcore2.AsyncNetworkStream:
        self.name = server_hostname
        return self


def test_tls_keeps_the_name_while_the_socket_has_the_address() -> None:
    stream = Tls([b"HTTP/1.1 204 No Content\r\n\r\n"])
    sockets = Sockets(stream=stream)

    async def get() -> None:
        backend = pinned(sockets, ["93.184.216.34"], "cloud")
        context = ssl.create_default_context()
        async with httpcore2.AsyncConnectionPool(
            ssl_context=context, network_backend=backend
        ) as pool:
            await pool.request("GET", "https://api.example.com/")

    asyncio.run(get())
    assert stream.name == "api.example.com"
    assert sockets.asked == [("93.184.216.34", 443)]


def test_watched_stream_tells_silence_from_a_broken_answer() -> None:
    async def read_all() -> None:
        silent = WatchedStream(httpcore2.AsyncMockStream([]))
        await silent.write(b"GET /")
        with pytest.raises(SilentCloseError):
            await silent.read(10)
        broken = WatchedStream(httpcore2.AsyncMockStream([b"HT"]))
        await broken.write(b"GET /")
        assert await broken.read(10) == b"HT"
        assert await broken.read(10) == b""

    asyncio.run(read_all())
