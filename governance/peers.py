"""Whose connection it is: the address that limits are counted by."""

from __future__ import annotations

from ipaddress import ip_address, ip_network
from typing import Final

from django.http import HttpRequest

from memory.conf import trusted_proxies

# One customer of a network has a whole /64, and may take a new address of it for each request.
_PREFIX_OF_IPV6: Final = 64
_NOBODY: Final = "0.0.0.0"  # noqa: S104 - no address to listen at; a Unix socket has none to tell


def address_of(request: HttpRequest) -> str:
    """Return the address of a request: the connection's own, or what our own proxies say.

    X-Forwarded-For is read from its end, one entry for each trusted proxy: what stands before
    those was written by the client. Of IPv6 the first 64 bits count.
    """
    meta = request.META
    steps = [
        step.strip() for step in meta.get("HTTP_X_FORWARDED_FOR", "").split(",") if step.strip()
    ]
    proxies = trusted_proxies()
    is_told = 0 < proxies <= len(steps)
    return _plain(steps[-proxies]) if is_told else _plain(meta.get("REMOTE_ADDR", ""))


def _plain(address: str) -> str:
    try:
        found = ip_address(address)
    except ValueError:
        return _NOBODY
    if found.version == 4:
        return str(found)
    if found.ipv4_mapped is not None:
        return str(found.ipv4_mapped)
    return str(ip_network((int(found), _PREFIX_OF_IPV6), strict=False).network_address)
