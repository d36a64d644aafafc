"""Which hosts and addresses a provider may live at, and a socket that goes to no other.

The name is resolved once for each connection, every address it has is checked, and the TCP
connection goes to an address that was checked, so a name that changes its mind in between
(DNS rebinding) gains nothing. TLS still verifies the name.
"""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from ipaddress import IPv4Address, IPv6Address, ip_address, ip_network
from typing import TypeAlias
from urllib.parse import SplitResult, urlsplit

import httpcore2

from memory.providers.errors import ProviderMisconfiguredError, ProviderRefusedHostError

Address: TypeAlias = IPv4Address | IPv6Address
SocketOption: TypeAlias = (
    tuple[int, int, int] | tuple[int, int, bytes | bytearray] | tuple[int, int, None, int]
)
Resolve: TypeAlias = Callable[[str, int], Sequence[str]]

ANY_HOST = "*"
LOOPBACK = "loopback"
_DEFAULT_PORTS = {"http": 80, "https": 443}
_PRIVATE = tuple(
    ip_network(block)
    for block in ("10.0.0.0/8", "172.16.0.0/12", "192.168.0.0/16", "fc00::/7", "127.0.0.0/8", "::1")
)
# Metadata services of clouds that do not live in the link-local range.
_METADATA = frozenset(
    ip_address(text)
    for text in ("fd00:ec2::254", "100.100.100.200", "168.63.129.16", "192.0.0.192")
)
_NAT64 = ip_network("64:ff9b::/96")
_IPV4_COMPATIBLE = ip_network("::/96")


@dataclass(frozen=True, slots=True, kw_only=True)
class HostRule:
    """What one provider may reach: the operator's list, and the promise its locality makes."""

    locality: str
    allowed_hosts: tuple[str, ...]

    def check_host(self, *, host: str, port: int) -> None:
        """Pass if the operator's list names `host`, with or without `port`.

        Raises:
            ProviderRefusedHostError: when it does not.
        """
        name = _folded(host)
        accepted = {name, _with_port(name, port)}
        if accepted & self._entries() or ANY_HOST in self.allowed_hosts:
            return
        if LOOPBACK in self._entries() and _names_loopback(name):
            return
        raise ProviderRefusedHostError("The provider's host is not on the operator's list.")

    def check_addresses(self, addresses: Iterable[str]) -> tuple[str, ...]:
        """Return the addresses, all of which must be fit for this locality.

        Raises:
            ProviderRefusedHostError: when one is not, or there is none.
        """
        checked = tuple(dict.fromkeys(addresses))
        if not checked:
            raise ProviderRefusedHostError("The provider's host has no address.")
        for text in checked:
            self._check_address(_unwrapped(ip_address(text.partition("%")[0])))
        return checked

    def _check_address(self, address: Address) -> None:
        if _is_never_allowed(address):
            raise ProviderRefusedHostError("The provider's host has a forbidden address.")
        is_private = any(address in block for block in _PRIVATE)
        if self.locality == "local":
            if not is_private:
                raise ProviderRefusedHostError("A local provider must have a private address.")
            return
        if address.is_loopback and self._allows_loopback():
            return
        if is_private or not address.is_global:
            raise ProviderRefusedHostError("A cloud provider must not have a private address.")

    def _allows_loopback(self) -> bool:
        return any(
            entry == LOOPBACK or _names_loopback(_without_port(entry)) for entry in self._entries()
        )

    def _entries(self) -> frozenset[str]:
        return frozenset(_folded(entry) for entry in self.allowed_hosts)


def check_base_url(base_url: str | None, *, rule: HostRule) -> str:
    """Return `base_url` if it is a plain http(s) URL whose host is on the list. No network.

    Raises:
        ProviderMisconfiguredError: when it is no usable URL.
        ProviderRefusedHostError: when the list does not name its host, or it is an address that
            the locality forbids.
    """
    host, port = _endpoint(base_url)
    rule.check_host(host=host, port=port)
    if _is_address(host):
        rule.check_addresses([host])
    return str(base_url)


def check_endpoint(
    base_url: str | None, *, rule: HostRule, resolve: Resolve | None = None
) -> tuple[str, ...]:
    """Check a provider's URL with its addresses, as when it is saved; blocks on one name lookup.

    Raises:
        ProviderMisconfiguredError: when it is no usable URL.
        ProviderRefusedHostError: when host or an address is not allowed, or there is none.
    """
    check_base_url(base_url, rule=rule)
    host, port = _endpoint(base_url)
    try:
        return rule.check_addresses((resolve or _resolve)(host, port))
    except OSError:
        raise ProviderRefusedHostError("The provider's host cannot be resolved.") from None


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
        if _is_address(host):
            return [host.strip("[]")]
        loop = asyncio.get_running_loop()
        try:
            if self._resolve is not None:
                return await loop.run_in_executor(None, self._resolve, host, port)
            found = await loop.getaddrinfo(host, port, type=socket.SOCK_STREAM)
        except OSError as error:
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
        ssl_context: object,
        server_hostname: str | None = None,
        timeout: float | None = None,  # noqa: ASYNC109
    ) -> httpcore2.AsyncNetworkStream:
        """Upgrade to TLS for `server_hostname`, which stays the name and not the address."""
        stream = await self._inner.start_tls(ssl_context, server_hostname, timeout)  # type: ignore[arg-type]
        return WatchedStream(stream)

    def get_extra_info(self, info: str) -> object:
        """Pass on what the socket says of itself."""
        return self._inner.get_extra_info(info)


def _endpoint(base_url: str | None) -> tuple[str, int]:
    parts = _split(base_url or "")
    if parts.scheme not in _DEFAULT_PORTS or not parts.hostname:
        raise ProviderMisconfiguredError("The base URL must begin with http:// or https://.")
    if parts.username or parts.password or parts.query or parts.fragment:
        raise ProviderMisconfiguredError("The base URL must be scheme, host, port and path only.")
    return parts.hostname, parts.port or _DEFAULT_PORTS[parts.scheme]


def _split(base_url: str) -> SplitResult:
    try:
        parts = urlsplit(base_url)
        _ = parts.port  # an impossible port raises only when it is asked for
    except ValueError:
        raise ProviderMisconfiguredError("The base URL cannot be read.") from None
    return parts


def _resolve(host: str, port: int) -> Sequence[str]:
    found = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)
    return [str(entry[4][0]) for entry in found]


def _folded(host: str) -> str:
    name = host.strip().lower().rstrip(".")
    try:
        return name if name.isascii() else name.encode("idna").decode("ascii")
    except UnicodeError:
        return name


def _with_port(name: str, port: int) -> str:
    return f"[{name.strip('[]')}]:{port}" if ":" in name else f"{name}:{port}"


def _without_port(entry: str) -> str:
    if entry.startswith("["):
        return entry[1:].partition("]")[0]
    return entry.partition(":")[0] if entry.count(":") == 1 else entry


def _is_address(host: str) -> bool:
    try:
        ip_address(host.strip("[]"))
    except ValueError:
        return False
    return True


def _names_loopback(name: str) -> bool:
    if name == "localhost" or name.endswith(".localhost"):
        return True
    return _is_address(name) and _unwrapped(ip_address(name.strip("[]"))).is_loopback


def _unwrapped(address: Address) -> Address:
    """Return the IPv4 address that an IPv6 one merely carries, else the address itself."""
    if isinstance(address, IPv4Address):
        return address
    if address.ipv4_mapped or address.sixtofour:
        return address.ipv4_mapped or address.sixtofour or address
    if address.teredo:
        return address.teredo[1]
    carries_ipv4 = address in _NAT64 or (address in _IPV4_COMPATIBLE and int(address) > 1)
    return IPv4Address(int(address) & 0xFFFFFFFF) if carries_ipv4 else address


def _is_never_allowed(address: Address) -> bool:
    return (
        address.is_link_local
        or address.is_multicast
        or address.is_unspecified
        or (address.is_reserved and not address.is_loopback)
        or address in _METADATA
        or (isinstance(address, IPv4Address) and address in ip_network("0.0.0.0/8"))
    )
