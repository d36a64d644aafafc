"""The HTTP client under the `openai` client: pinned, bounded, without proxies or redirects."""

from __future__ import annotations

import ssl
from collections.abc import AsyncIterator, Callable
from functools import lru_cache, partial
from typing import Final

import httpcore2
import httpx2

from memory.providers.base import ProviderConfig
from memory.providers.errors import ProviderError
from memory.providers.network import HostRule, Resolve
from memory.providers.sockets import PinnedBackend

BODY: Final = "credence.body"
_MIB = 1024 * 1024
MAX_STREAM_BYTES = 32 * _MIB
MAX_JSON_BYTES = 8 * _MIB
MAX_ERROR_BYTES = 64 * 1024
STREAMS_PER_POOL = 64
IDLE_PER_POOL = 32
IDLE_SECONDS = 30.0
_DONE = b"\ndata: [DONE]"
_DONE_TIGHT = b"\ndata:[DONE]"
# What goes out. The `openai` client adds platform details and whatever OPENAI_* variables say.
_SENT_HEADERS = ("host", "content-type", "content-length")


class Pools(httpx2.AsyncBaseTransport):
    """Connection pools of at most 64 streams each, filled one after the other.

    A pool walks through all its connections whenever a request comes or goes; with 1,000 open
    streams in one pool that is 5 ms a call.
    """

    def __init__(self, make: Callable[[], httpx2.AsyncBaseTransport]) -> None:
        """Make pools with `make` as they are needed."""
        self._make = make
        self._pools: list[httpx2.AsyncBaseTransport] = []
        self._streams: list[int] = []

    async def handle_async_request(self, request: httpx2.Request) -> httpx2.Response:
        """Send a request through the first pool with room."""
        at = self._first_with_room()
        self._streams[at] += 1
        try:
            response = await self._pools[at].handle_async_request(request)
        except BaseException:
            self._streams[at] -= 1
            raise
        assert isinstance(response.stream, httpx2.AsyncByteStream)  # noqa: S101 - typing only
        response.stream = _Counted(response.stream, on_close=partial(self._released, at))
        return response

    async def aclose(self) -> None:
        """Close every connection."""
        for pool in self._pools:
            await pool.aclose()

    def _first_with_room(self) -> int:
        for at, streams in enumerate(self._streams):
            if streams < STREAMS_PER_POOL:
                return at
        self._pools.append(self._make())
        self._streams.append(0)
        return len(self._pools) - 1

    def _released(self, at: int) -> None:
        self._streams[at] -= 1


class _Counted(httpx2.AsyncByteStream):
    def __init__(self, inner: httpx2.AsyncByteStream, *, on_close: Callable[[], None]) -> None:
        self._inner = inner
        self._on_close = on_close
        self._is_closed = False

    def __aiter__(self) -> AsyncIterator[bytes]:
        return aiter(self._inner)

    async def aclose(self) -> None:
        if not self._is_closed:
            self._is_closed = True
            self._on_close()
        await self._inner.aclose()


class BoundedBody(httpx2.AsyncByteStream):
    """A body that ends at `limit` bytes: cut there if it is an error's, else a failure."""

    def __init__(self, inner: httpx2.AsyncByteStream, *, limit: int, is_cut: bool) -> None:
        """Wrap the body `inner`."""
        self._inner = inner
        self._limit = limit
        self._is_cut = is_cut
        self.saw_done = False
        self._tail = b"\n"

    async def __aiter__(self) -> AsyncIterator[bytes]:
        """Pass the parts on, counting, and note the line that ends a complete event stream.

        Raises:
            ProviderError: when the body is longer than the limit.
        """
        size = 0
        async for part in self._inner:
            size += len(part)
            if size > self._limit:
                if self._is_cut:
                    return
                raise ProviderError("The provider's answer is too large.")
            self._note(part)
            yield part

    def _note(self, part: bytes) -> None:
        seen = self._tail + part
        self.saw_done = self.saw_done or _DONE in seen or _DONE_TIGHT in seen
        self._tail = seen[-len(_DONE) :]

    async def aclose(self) -> None:
        """Close the connection, or give it back if the body was read to its end."""
        await self._inner.aclose()


class GuardedTransport(httpx2.AsyncBaseTransport):
    """Sends only the headers we mean to, adds the key last, and bounds what comes back."""

    def __init__(self, inner: httpx2.AsyncBaseTransport, *, api_key: str | None) -> None:
        """Wrap `inner`; the key lives here alone, so no error of the client can show it."""
        self._inner = inner
        self._api_key = api_key

    async def handle_async_request(self, request: httpx2.Request) -> httpx2.Response:
        """Send one request.

        Raises:
            ProviderError: when the answer is compressed, which was not asked for and would undo
                the bound on its size.
        """
        sent = httpx2.Request(
            method=request.method,
            url=request.url,
            headers=self._headers(request.headers),
            stream=request.stream,
            extensions=request.extensions,
        )
        response = await self._inner.handle_async_request(sent)
        if response.headers.get("content-encoding", "identity").strip().lower() != "identity":
            await response.aclose()
            raise ProviderError("The provider compressed its answer without being asked.")
        assert isinstance(response.stream, httpx2.AsyncByteStream)  # noqa: S101 - typing only
        body = BoundedBody(
            response.stream, limit=_limit(response), is_cut=response.status_code >= 300
        )
        return httpx2.Response(
            status_code=response.status_code,
            headers=response.headers,
            stream=body,
            extensions={**response.extensions, BODY: body},
        )

    async def aclose(self) -> None:
        """Close every connection."""
        await self._inner.aclose()

    def _headers(self, headers: httpx2.Headers) -> httpx2.Headers:
        kept = {name: headers[name] for name in _SENT_HEADERS if name in headers}
        kept |= {
            "accept": "text/event-stream, application/json",
            "accept-encoding": "identity",
            "user-agent": "credence",
        }
        if self._api_key:
            kept["authorization"] = f"Bearer {self._api_key}"
        return httpx2.Headers(kept)


def http_client(config: ProviderConfig, *, resolve: Resolve | None = None) -> httpx2.AsyncClient:
    """Build the client of one provider; it belongs to the event loop that first uses it.

    Cost: about a millisecond; the TLS context (tens of milliseconds) is made once a process.
    """
    rule = HostRule(locality=config.locality, allowed_hosts=config.allowed_hosts)
    backend = PinnedBackend(
        rule=rule, connect_seconds=config.timeouts.connect_seconds, resolve=resolve
    )
    pools = Pools(partial(_pool, backend))
    return httpx2.AsyncClient(
        transport=GuardedTransport(pools, api_key=config.api_key),
        timeout=httpx2.Timeout(None, connect=config.timeouts.connect_seconds),
        trust_env=False,
        follow_redirects=False,
    )


def _pool(backend: PinnedBackend) -> httpx2.AsyncHTTPTransport:
    transport = httpx2.AsyncHTTPTransport(verify=_tls_context(), trust_env=False)
    # The transport takes no network backend, so its pool is replaced before first use.
    transport._pool = httpcore2.AsyncConnectionPool(  # noqa: SLF001
        ssl_context=_tls_context(),
        max_connections=None,
        max_keepalive_connections=IDLE_PER_POOL,
        keepalive_expiry=IDLE_SECONDS,
        network_backend=backend,
    )
    return transport


@lru_cache(maxsize=1)
def _tls_context() -> ssl.SSLContext:
    # The environment may name the operator's own certificate authority; proxies it may not.
    return httpx2.create_ssl_context(trust_env=True)


def _limit(response: httpx2.Response) -> int:
    if response.status_code >= 300:
        return MAX_ERROR_BYTES
    is_stream = "event-stream" in response.headers.get("content-type", "")
    return MAX_STREAM_BYTES if is_stream else MAX_JSON_BYTES
