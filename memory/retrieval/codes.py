"""Vectors in one signed byte a dimension, for reading a whole shelf at once. Pure.

A code is a 4-byte scale and one signed byte a dimension; the scale of a missing vector is 0. The
cosine of two unit vectors moves by less than 0.004 (tests hold it).
"""

from __future__ import annotations

from typing import Final

import numpy as np
from numpy.typing import NDArray

Vector = NDArray[np.float32]
_MOST: Final = 127.0
SCALE_BYTES: Final = 4
# As many codes at a time as stay in the processor's own memory while they are widened.
_BLOCK_BYTES: Final = 131_072


def code_dtype(dimensions: int) -> np.dtype[np.void]:
    """Return the layout of a code."""
    return np.dtype([("scale", "<f4"), ("steps", "i1", (dimensions,))])


def code_of(vector: Vector) -> bytes:
    """Return the code of a unit vector."""
    scale = float(np.abs(vector).max()) / _MOST
    code = np.zeros(1, dtype=code_dtype(len(vector)))
    if scale > 0:
        code["scale"] = scale
        code["steps"] = np.rint(vector / scale)
    return code.tobytes()


def missing_code(dimensions: int) -> bytes:
    """Return the code that stands where there is no vector."""
    return bytes(SCALE_BYTES + dimensions)


def dimensions_of(codes: NDArray[np.void]) -> int:
    """Return how many dimensions the vectors behind codes have."""
    return codes.dtype.itemsize - SCALE_BYTES


def cosines_of(codes: NDArray[np.void], vector: Vector) -> NDArray[np.float32]:
    """Return the cosine of a unit vector with each code's, NaN where one is missing.

    Cost: about 0.25 ms for 1,000 vectors of 512 dimensions.

    Raises:
        ValueError: The vector has another length than the codes'.
    """
    steps, scales = codes["steps"], codes["scale"]
    found = np.empty(len(codes), dtype=np.float32)
    block = max(1, _BLOCK_BYTES // max(1, vector.size))
    wide = np.empty((block, dimensions_of(codes)), dtype=np.float32)
    for at in range(0, len(codes), block):
        part = steps[at : at + block]
        wide[: len(part)] = part
        np.matmul(wide[: len(part)], vector, out=found[at : at + len(part)])
    found *= scales
    found[scales == 0] = np.nan
    return found
