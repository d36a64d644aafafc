"""TCP connections that go only where the rules of `network` allow.

The name is resolved once for each connection, every address it has is checked, and the TCP
connection goes to an address that was checked, so a name that changes its mind in between
(DNS rebinding) gains nothing. TLS still verifies the name.
"""

from __future__ import annotations

import asyncio
import socket
import ssl
from collections.abc import Iterable, Sequence
from typing import TypeAlias

import httpcore2

from memory.providers.errors import ProviderRefusedHostError
from memory.providers.network import HostRule, Resolve, is_address

SocketOption: TypeAlias = (
    tuple[int, int, int] | tuple[int, int, bytes | bytearray] | tuple[int, int, None, int]
)


class PinnedBackend(httpcore2.AsyncNetworkBackend):
    """Opens TCP connections only to addresses that the rule has seen and accepted.

    `connect_seconds` bounds name lookup and all tries together. Nothing else is passed on: no
    Unix sockets, no local address.
    """

    def __init__(
        self, *, rule: HostRule, connect_seconds: float, resolve: Resolve | None = None
    ) -> None:
        """Keep the rule; `resolve` (blocking, called in a thread) is for tests."""
        self._rule = rule
        self._connect_seconds = connect_seconds
        self._resolve = resolve
        self._sockets = httpcore2.AnyIOBackend()

    async def connect_tcp(
        self,
        host: str,
        port: int,
        timeout: float | None = None,  # noqa: ASYNC109 - the signature is httpcore's
        local_address: str | None = None,
        socket_options: Iterable[SocketOption] | None = None,
    ) -> httpcore2.AsyncNetworkStream:
        """Resolve, check, connect; addresses are tried in the resolver's order."""
        self._rule.check_host(host=host, port=port)
        try:
            async with asyncio.timeout(self._connect_seconds):
                addresses = self._rule.check_addresses(await self._addresses(host, port))
                return WatchedStream(await self._first_open(addresses, port, socket_options))
        except TimeoutError:
            raise httpcore2.ConnectTimeout from None

    async def _addresses(self, host: str, port: int) -> Sequence[str]:
        if is_address(host):
            return [host.strip("[]")]
        loop = asyncio.get_running_loop()
        try:
            if self._resolve is not None:
                return await loop.run_in_executor(None, self._resolve, host, port)
            found = await loop.getaddrinfo(host, port, type=socket.SOCK_STREAM)
        except (OSError, UnicodeError) as error:
            raise httpcore2.ConnectError("The name cannot be resolved.") from error
        return [str(entry[4][0]) for entry in found]

    async def _first_open(
        self, addresses: Sequence[str], port: int, options: Iterable[SocketOption] | None
    ) -> httpcore2.AsyncNetworkStream:
        failure: Exception = httpcore2.ConnectError("There is no address.")
        for address in addresses:
            try:
                return await self._sockets.connect_tcp(address, port, socket_options=options)
            except httpcore2.ConnectError as error:
                failure = error
        raise failure

    async def connect_unix_socket(
        self,
        path: str,
        timeout: float | None = None,  # noqa: ASYNC109 - the signature is httpcore's
        socket_options: Iterable[SocketOption] | None = None,
    ) -> httpcore2.AsyncNetworkStream:
        """Refuse: a provider is reached over TCP."""
        raise ProviderRefusedHostError("A provider is not reached over a Unix socket.")

    async def sleep(self, seconds: float) -> None:
        """Wait between httpcore's own tries, of which there are none."""
        await asyncio.sleep(seconds)


class SilentCloseError(httpcore2.ReadError):
    """The other side closed before it sent one byte of an answer, so asking again is safe."""


class WatchedStream(httpcore2.AsyncNetworkStream):
    """A connection that knows whether the other side has answered since we last wrote."""

    def __init__(self, inner: httpcore2.AsyncNetworkStream) -> None:
        """Wrap an open connection."""
        self._inner = inner
        self._has_answered = False

    async def read(self, max_bytes: int, timeout: float | None = None) -> bytes:  # noqa: ASYNC109
        """Read up to `max_bytes`; a close before the first byte is a `SilentCloseError`."""
        try:
            data = await self._inner.read(max_bytes, timeout)
        except httpcore2.ReadError as error:
            if self._has_answered:
                raise
            raise SilentCloseError from error
        if not data and not self._has_answered:
            raise SilentCloseError
        self._has_answered = True
        return data

    async def write(self, buffer: bytes, timeout: float | None = None) -> None:  # noqa: ASYNC109
        """Write, after which an answer is awaited anew."""
        self._has_answered = False
        await self._inner.write(buffer, timeout)

    async def aclose(self) -> None:
        """Close the connection."""
        await self._inner.aclose()

    async def start_tls(
        self,
        ssl_context: ssl.SSLContext,
        server_hostname: str | None = None,
        timeout: float | None = None,  # noqa: ASYNC109
    ) -> httpcore2.AsyncNetworkStream:
        """Upgrade to TLS for `server_hostname`, which stays the name and not the address."""
        stream = await self._inner.start_tls(ssl_context, server_hostname, timeout)
        return WatchedStream(stream)

    def get_extra_info(self, info: str) -> object:
        """Pass on what the socket says of itself."""
        return self._inner.get_extra_info(info)
