"""Which hosts and addresses a provider may live at; `sockets` then goes to no other."""

from __future__ import annotations

import socket
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from ipaddress import IPv4Address, IPv6Address, ip_address, ip_network
from typing import TypeAlias
from urllib.parse import SplitResult, urlsplit

import httpx2

from memory.providers.errors import ProviderMisconfiguredError, ProviderRefusedHostError

Address: TypeAlias = IPv4Address | IPv6Address
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
    if is_address(host):
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
    except (OSError, UnicodeError):  # a label that is empty or too long has no IDNA form
        raise ProviderRefusedHostError("The provider's host cannot be resolved.") from None


def _endpoint(base_url: str | None) -> tuple[str, int]:
    _check_characters(base_url or "")
    parts = _split(base_url or "")
    if parts.scheme not in _DEFAULT_PORTS or not parts.hostname:
        raise ProviderMisconfiguredError("The base URL must begin with http:// or https://.")
    if parts.username or parts.password or parts.query or parts.fragment:
        raise ProviderMisconfiguredError("The base URL must be scheme, host, port and path only.")
    if not parts.hostname.isascii() and is_address(_folded(parts.hostname)):
        raise ProviderMisconfiguredError("The base URL's address must be in plain digits.")
    return parts.hostname, parts.port or _DEFAULT_PORTS[parts.scheme]


def _check_characters(base_url: str) -> None:
    """Refuse what `urlsplit` would drop without a word: line breaks, tabs, blanks at the ends."""
    if not base_url.isprintable() or any(letter.isspace() for letter in base_url):
        raise ProviderMisconfiguredError("The base URL must not hold blanks or control characters.")


def _split(base_url: str) -> SplitResult:
    try:
        parts = urlsplit(base_url)
        _ = parts.port  # an impossible port raises only when it is asked for
        httpx2.URL(base_url)  # the client's own reading is stricter
    except (ValueError, httpx2.InvalidURL):
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


def is_address(host: str) -> bool:
    """Return whether `host` is an IP address, in brackets or not, rather than a name."""
    try:
        ip_address(host.strip("[]"))
    except ValueError:
        return False
    return True


def _names_loopback(name: str) -> bool:
    if name == "localhost" or name.endswith(".localhost"):
        return True
    return is_address(name) and _unwrapped(ip_address(name.strip("[]"))).is_loopback


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
