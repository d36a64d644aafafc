"""Ridge regression that grows row by row, forgets slowly and is not spoiled by false rows."""

from __future__ import annotations

import base64
import math
import struct
from collections.abc import Sequence
from dataclasses import dataclass
from operator import mul
from statistics import median
from typing import TypeAlias

Row: TypeAlias = tuple[float, ...]

_RECENT = 10
_KEPT_SHARE = 0.99
_CAREFUL_AT = 3.0
_COMMON_MISSES = 3.0
_CONTRADICTION = 2.5
_LEAST_PIVOT = 1e-9
_MOST = 1e12


@dataclass(frozen=True, slots=True, kw_only=True)
class Evidence:
    """What has been seen: the latest rows as they were, all older ones as one sum.

    A row says "the weights times `row[:-1]` gave `row[-1]`", in units of the noise; the weights
    are deviations from what was expected, in units of their standard deviation. A row is judged
    anew as long as it is among the latest, so that a false one is found out by those after it.
    Older rows that most of the latest contradict are dropped: what they told of has changed.

    Attributes:
        size: Number of weights.
        matrix: Lower triangle, row by row, of the older rows' products.
        target: The older rows times what they gave.
        recent: The latest rows, at most ten.
    """

    size: int
    matrix: Row = ()
    target: Row = ()
    recent: tuple[Row, ...] = ()

    def with_row(self, row: Row) -> tuple[Evidence, Row]:
        """Return the evidence with one more row, and the weights that follow from all of it.

        Cost: one to four milliseconds for 15 weights.
        """
        recent = (*self.recent, row)
        weights, trusts = self._solve(recent)
        misses = [abs(_dot(one, weights) - one[-1]) for one in recent]
        if self.matrix and median(misses) > _CONTRADICTION:
            return self.without_older().with_row(row)
        if len(recent) <= _RECENT:
            return self._with(self.matrix, self.target, recent), weights
        matrix = [_KEPT_SHARE * value for value in self.matrix or self._zeros()]
        target = [_KEPT_SHARE * value for value in self.target or [0.0] * self.size]
        _add(matrix, target, recent[0], trusts[0])
        return self._with(tuple(matrix), tuple(target), recent[1:]), weights

    def without_older(self) -> Evidence:
        """Return the latest rows alone."""
        return Evidence(size=self.size, recent=self.recent)

    def packed(self) -> str:
        """Return all of it as text: 32-bit floats in base64, at most 1.6 KB for 15 weights."""
        values = [*(self.matrix or self._zeros()), *(self.target or [0.0] * self.size)]
        for row in self.recent:
            values.extend(row)
        return base64.b64encode(struct.pack(f"<{len(values)}f", *values)).decode("ascii")

    @classmethod
    def unpacked(cls, text: str, *, size: int) -> Evidence:
        """Return the evidence that `packed` wrote for `size` weights.

        Raises:
            ValueError: It is something else.
        """
        data = base64.b64decode(text, validate=True)
        older, width = size * (size + 3) // 2, size + 1
        rows, rest = divmod(len(data) // 4 - older, width)
        if len(data) % 4 or rest or not 0 <= rows <= _RECENT:
            raise ValueError("not the evidence of so many weights")
        values = struct.unpack(f"<{len(data) // 4}f", data)
        if not all(abs(value) < _MOST for value in values):
            raise ValueError("not the evidence of anything")
        starts = range(older, len(values), width)
        return cls(
            size=size,
            matrix=values[: older - size],
            target=values[older - size : older],
            recent=tuple(values[start : start + width] for start in starts),
        )

    def _with(self, matrix: Row, target: Row, recent: tuple[Row, ...]) -> Evidence:
        return Evidence(size=self.size, matrix=matrix, target=target, recent=recent)

    def _zeros(self) -> list[float]:
        return [0.0] * (self.size * (self.size + 1) // 2)

    def _solve(self, recent: Sequence[Row]) -> tuple[Row, list[float]]:
        """Return the weights, and how far each recent row is trusted (0 to 1).

        A row's miss is measured against what the others leave open, so that it cannot vouch for
        itself. Rows that stick out lose trust, first only the worst, then by a finer measure.
        Source: studentised residuals; graduated non-convexity with the Geman-McClure function.
        """
        trusts = [1.0] * len(recent)
        scale = math.inf
        while True:
            triangle, weights = self._weigh(recent, trusts)
            misses = [
                _miss(row, weights, _spread(triangle, row), trust)
                for row, trust in zip(recent, trusts, strict=True)
            ]
            finest = max(_CAREFUL_AT, _COMMON_MISSES * median(misses))
            if scale <= finest:
                return weights, trusts
            scale = max(finest, min(max(misses), scale) / 2)
            trusts = [(1 / (1 + (miss / scale) ** 2)) ** 2 for miss in misses]

    def _weigh(
        self, recent: Sequence[Row], trusts: Sequence[float]
    ) -> tuple[list[list[float]], Row]:
        """Return the most likely weights given the trusts, and the factor they come from."""
        matrix = list(self.matrix) or self._zeros()
        target = list(self.target) or [0.0] * self.size
        for index in range(self.size):
            matrix[index * (index + 3) // 2] += 1.0
        for row, trust in zip(recent, trusts, strict=True):
            _add(matrix, target, row, trust)
        triangle = _factor(matrix, self.size)
        return triangle, _backward(triangle, _forward(triangle, target))


def _add(matrix: list[float], target: list[float], row: Row, trust: float) -> None:
    """Add the products of `row` to a lower triangle and its target, in place."""
    at = 0
    for index in range(len(target)):
        scaled = trust * row[index]
        if scaled:
            target[index] += scaled * row[-1]
            for column in range(index + 1):
                matrix[at + column] += scaled * row[column]
        at += index + 1


def _dot(row: Row, weights: Row) -> float:
    """Return the weights times the row; what the row gave is left out."""
    return sum(value * weight for value, weight in zip(row, weights, strict=False))


def _miss(row: Row, weights: Row, spread: float, trust: float) -> float:
    """Return how far the row is from what the others say, in units of what they leave open."""
    own = _dot(row, weights) - row[-1]
    # The rows' own share is taken out: with h = trust * spread, the others miss it by own / (1 - h)
    # and know it to within sqrt(1 + spread / (1 - h)).
    left = max(1 - trust * spread, 1e-9)
    return abs(own) / left / math.sqrt(1 + spread / left)


def _spread(triangle: list[list[float]], row: Row) -> float:
    """Return the variance of the weights' prediction for `row`."""
    return sum(value * value for value in _forward(triangle, row[:-1]))


def _factor(matrix: Sequence[float], size: int) -> list[list[float]]:
    """Return the Cholesky factor of a lower triangle; a pivot lost to rounding counts as 1."""
    rows: list[list[float]] = []
    for index in range(size):
        start = index * (index + 1) // 2
        row = list(matrix[start : start + index + 1])
        for column, above in enumerate(rows):
            row[column] = (row[column] - sum(map(mul, row[:column], above))) / above[column]
        pivot = row[index] - sum(value * value for value in row[:index])
        row[index] = math.sqrt(pivot) if pivot > _LEAST_PIVOT else 1.0
        rows.append(row)
    return rows


def _forward(triangle: list[list[float]], target: Sequence[float]) -> list[float]:
    """Solve the lower triangle."""
    result: list[float] = []
    for index, row in enumerate(triangle):
        result.append((target[index] - sum(map(mul, row, result))) / row[index])
    return result


def _backward(triangle: list[list[float]], target: Sequence[float]) -> Row:
    """Solve the transposed triangle."""
    result = list(target)
    for index in reversed(range(len(result))):
        row = triangle[index]
        result[index] /= row[index]
        for column in range(index):
            result[column] -= row[column] * result[index]
    return tuple(result)
