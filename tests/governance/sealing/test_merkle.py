"""Merkle trees: every bit of every leaf counts, every place can be proved, and nothing else."""

from __future__ import annotations

import hashlib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from governance.sealing.merkle import is_in, leaf_hash, proof_of, root_of

contents = st.lists(st.binary(max_size=40), min_size=1, max_size=40)


def by_halves(leaves: list[str]) -> str:
    """The definition of RFC 6962: split at the largest power of two below the number."""
    if len(leaves) == 1:
        return leaves[0]
    half = 1
    while half * 2 < len(leaves):
        half *= 2
    left, right = bytes.fromhex(by_halves(leaves[:half])), bytes.fromhex(by_halves(leaves[half:]))
    return hashlib.sha256(b"\x01" + left + right).hexdigest()


@given(contents)
def test_root_is_that_of_the_standard(texts: list[bytes]) -> None:
    leaves = [leaf_hash(text) for text in texts]
    assert root_of(leaves) == by_halves(leaves)


@given(contents, st.data())
def test_root_of_one_changed_bit_is_another(texts: list[bytes], data: st.DataObject) -> None:
    leaves = [leaf_hash(text) for text in texts]
    place = data.draw(st.integers(0, len(leaves) - 1))
    raw = bytearray(bytes.fromhex(leaves[place]))
    raw[data.draw(st.integers(0, 31))] ^= 1 << data.draw(st.integers(0, 7))
    changed = [*leaves[:place], raw.hex(), *leaves[place + 1 :]]
    assert root_of(changed) != root_of(leaves)


@given(contents, st.data())
def test_proof_of_each_place_leads_to_the_root(texts: list[bytes], data: st.DataObject) -> None:
    leaves = [leaf_hash(text) for text in texts]
    place = data.draw(st.integers(0, len(leaves) - 1))
    proof = proof_of(leaves, place)
    assert is_in(leaf=leaves[place], proof=proof, root=root_of(leaves))
    assert not is_in(leaf=leaf_hash(b"another"), proof=proof, root=root_of(leaves))


def test_no_leaves_have_no_root_and_no_place_outside() -> None:
    with pytest.raises(ValueError, match="leaves"):
        root_of([])
    with pytest.raises(IndexError):
        proof_of([leaf_hash(b"a")], 1)


def test_an_inner_node_is_no_leaf() -> None:
    """A second preimage would let two rows pass for four."""
    leaves = [leaf_hash(text) for text in (b"a", b"b", b"c", b"d")]
    inner = [root_of(leaves[:2]), root_of(leaves[2:])]
    assert root_of(inner) == root_of(leaves)
    left, right = bytes.fromhex(leaves[0]), bytes.fromhex(leaves[1])
    assert leaf_hash(left + right) != inner[0]
