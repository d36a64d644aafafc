"""Merkle trees as certificate transparency has them: roots, and proofs that a leaf is in one.

Hashes are hexadecimal SHA-256. Leaves and inner nodes are hashed with different first bytes, so
that no node can pass for a leaf.
Source: RFC 6962, section 2.1 (Merkle Hash Trees, Audit Paths).
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from typing import Final

_LEAF: Final = b"\x00"
_NODE: Final = b"\x01"


def leaf_hash(content: bytes) -> str:
    """Return the hash of one leaf."""
    return hashlib.sha256(_LEAF + content).hexdigest()


def root_of(leaves: Sequence[str]) -> str:
    """Return the root over the hashes of leaves, in order. Cost: one hash a leaf.

    Raises:
        ValueError: There is none.
    """
    if not leaves:
        raise ValueError("a tree has leaves")
    level = list(leaves)
    while len(level) > 1:
        pairs = zip(level[::2], level[1::2], strict=False)
        above = [_node(left, right) for left, right in pairs]
        # The last of an odd number goes up as it is: the same tree as by halving at powers of two.
        level = [*above, level[-1]] if len(level) % 2 else above
    return level[0]


def proof_of(leaves: Sequence[str], position: int) -> list[tuple[str, str]]:
    """Return the path from a leaf to the root: (side, hash) of each neighbour, lowest first.

    `side` is `left` or `right`, where the neighbour stands.

    Raises:
        IndexError: There is no such leaf.
    """
    if not 0 <= position < len(leaves):
        raise IndexError(position)
    path: list[tuple[str, str]] = []
    level = list(leaves)
    while len(level) > 1:
        beside = position ^ 1
        if beside < len(level):
            path.append(("left" if beside < position else "right", level[beside]))
        pairs = zip(level[::2], level[1::2], strict=False)
        above = [_node(left, right) for left, right in pairs]
        level = [*above, level[-1]] if len(level) % 2 else above
        position //= 2
    return path


def is_in(*, leaf: str, proof: Sequence[tuple[str, str]], root: str) -> bool:
    """Say whether a path leads from a leaf's hash to the root."""
    found = leaf
    for side, beside in proof:
        found = _node(beside, found) if side == "left" else _node(found, beside)
    return found == root


def _node(left: str, right: str) -> str:
    return hashlib.sha256(_NODE + bytes.fromhex(left) + bytes.fromhex(right)).hexdigest()
