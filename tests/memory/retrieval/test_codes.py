"""Codes: how near the cosines stay, and what a missing one is."""

from __future__ import annotations

import numpy as np
import pytest
from numpy.typing import NDArray

from memory.retrieval.codes import code_dtype, code_of, cosines_of, dimensions_of, missing_code


def units(count: int, dimensions: int, seed: int = 3) -> NDArray[np.float32]:
    made = np.random.default_rng(seed).normal(size=(count, dimensions))
    found: NDArray[np.float32] = made / np.linalg.norm(made, axis=1, keepdims=True)
    return found.astype(np.float32)


@pytest.mark.parametrize("dimensions", [3, 64, 384, 512, 1_536])
def test_cosines_of_codes_are_near_those_of_vectors(dimensions: int) -> None:
    vectors = units(700, dimensions)
    codes = np.frombuffer(b"".join(map(code_of, vectors)), dtype=code_dtype(dimensions))
    found = cosines_of(codes, vectors[5])
    assert np.abs(found - vectors @ vectors[5]).max() < 0.004 + (dimensions < 64) * 0.01
    assert int(found.argmax()) == 5
    assert dimensions_of(codes) == dimensions


def test_missing_code_has_no_cosine() -> None:
    vectors = units(2, 8)
    raw = code_of(vectors[0]) + missing_code(8) + code_of(vectors[1])
    found = cosines_of(np.frombuffer(raw, dtype=code_dtype(8)), vectors[1])
    assert np.isnan(found).tolist() == [False, True, False]
    assert found[2] == pytest.approx(1, abs=0.01)


def test_vector_of_another_length_is_refused() -> None:
    codes = np.frombuffer(code_of(units(1, 8)[0]), dtype=code_dtype(8))
    with pytest.raises(ValueError, match="match"):
        cosines_of(codes, units(1, 9)[0])
