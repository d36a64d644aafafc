"""Marks that every text of the soak carries, so that one can tell whose text it is, wherever it turns up."""

from __future__ import annotations

import base64
import binascii
import re
import zlib
from collections.abc import Iterator
from dataclasses import dataclass

SHARED = "all0"
_MARK = re.compile(r"CNRY-([a-z])-([a-z]{2,4}\d)-(\d{1,9})", re.IGNORECASE)
_BASE64 = re.compile(rb"[A-Za-z0-9+/_-]{24,}={0,2}")


@dataclass(frozen=True, slots=True)
class Canary:
    """One mark: the tenant, the person (or SHARED) and the number of the text."""

    tenant: str
    person: str
    number: int

    def __str__(self) -> str:
        return f"CNRY-{self.tenant}-{self.person}-{self.number}"


def found_in(text: str) -> set[Canary]:
    """Every mark of a text, in any case."""
    found = _MARK.findall(text)
    return {Canary(tenant.lower(), person.lower(), int(number)) for tenant, person, number in found}


def found_in_bytes(data: bytes) -> set[Canary]:
    """Every mark of some bytes: as they stand, unpacked, and in what base64 hides (two levels)."""
    found: set[Canary] = set()
    for level in _levels(data, depth=2):
        found |= found_in(level.decode("utf-8", errors="ignore"))
    return found


def _levels(data: bytes, *, depth: int) -> Iterator[bytes]:
    yield data
    if depth == 0:
        return
    for piece in _BASE64.findall(data):
        plain = _unbase64(piece)
        if plain:
            yield from _levels(_unpacked(plain), depth=depth - 1)


def _unbase64(piece: bytes) -> bytes:
    padded = piece.rstrip(b"=") + b"=" * (-len(piece.rstrip(b"=")) % 4)
    try:
        return base64.urlsafe_b64decode(padded.replace(b"+", b"-").replace(b"/", b"_"))
    except (binascii.Error, ValueError):
        return b""


def _unpacked(data: bytes) -> bytes:
    try:
        return zlib.decompress(data)
    except zlib.error:
        return data
