"""A line chart as SVG, for light and dark pages; labels stand beside the lines."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from html import escape

_WIDTH, _HEIGHT = 760, 420
_LEFT, _RIGHT, _TOP, _BOTTOM = 78, 150, 48, 52
_STYLE = """
text { font: 13px system-ui, sans-serif; fill: #57606a; }
.title { font-size: 15px; font-weight: 600; }
.grid { stroke: #8c959f; stroke-opacity: .35; }
@media (prefers-color-scheme: dark) { text { fill: #b1bac4; } }
"""


@dataclass(frozen=True, kw_only=True)
class Line:
    """One line: its label, its colour, (x, y) points; `dashed` for what it is compared with."""

    label: str
    colour: str
    points: Sequence[tuple[float, float]]
    dashed: bool = False


def _ticks(low: float, high: float) -> list[float]:
    """Powers of ten that bound the values, and those between."""
    return [10.0**power for power in range(math.floor(low), math.ceil(high) + 1)]


def _plain(value: float) -> str:
    if value >= 1 or not value:
        return f"{value:,.0f}"
    return f"{value:.10f}".rstrip("0")


def line_chart(
    *, title: str, x_label: str, unit: str, lines: Sequence[Line], top: float | None = None
) -> str:
    """Return the chart as SVG text.

    The height is logarithmic, for positive values; with `top` it is linear, from 0 to there.
    """
    ticks, height = _heights(lines, top)
    floor, ceiling = height(ticks[0]), height(ticks[-1])
    most_x = max(x for line in lines for x, _ in line.points)

    def place(x: float, y: float) -> tuple[float, float]:
        across = (_WIDTH - _LEFT - _RIGHT) * x / most_x
        up = (_HEIGHT - _TOP - _BOTTOM) * (height(y) - floor) / (ceiling - floor)
        return _LEFT + across, _HEIGHT - _BOTTOM - up

    parts = [f'<text class="title" x="{_LEFT}" y="24">{escape(title)}</text>']
    for tick in ticks:
        _, y = place(0, tick)
        parts.append(
            f'<line class="grid" x1="{_LEFT}" x2="{_WIDTH - _RIGHT}" y1="{y:.1f}" y2="{y:.1f}"/>'
            f'<text x="{_LEFT - 8}" y="{y + 4:.1f}" text-anchor="end">{unit}{_plain(tick)}</text>'
        )
    for step in range(6):
        x, _ = place(most_x * step / 5, ticks[0])
        parts.append(
            f'<text x="{x:.1f}" y="{_HEIGHT - _BOTTOM + 20}" text-anchor="middle">'
            f"{_plain(most_x * step / 5)}</text>"
        )
    middle = (_LEFT + _WIDTH - _RIGHT) / 2
    parts.append(
        f'<text x="{middle}" y="{_HEIGHT - 12}" text-anchor="middle">{escape(x_label)}</text>'
    )
    taken: list[float] = []
    for line in sorted(lines, key=lambda one: -one.points[-1][1]):
        places = [place(x, y) for x, y in line.points]
        parts += [_drawn(line, places, taken)]
    body = "\n".join(parts)
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {_WIDTH} {_HEIGHT}" role="img"'
        f' aria-label="{escape(title)}">\n<style>{_STYLE}</style>\n{body}\n</svg>\n'
    )


def _heights(
    lines: Sequence[Line], top: float | None
) -> tuple[list[float], Callable[[float], float]]:
    """Return the values to mark, and how high a value stands."""
    if top is not None:
        return [top * step / 5 for step in range(6)], float
    powers = [math.log10(y) for line in lines for _, y in line.points]
    return _ticks(min(powers), max(powers)), math.log10


def _drawn(line: Line, places: Sequence[tuple[float, float]], taken: list[float]) -> str:
    """Return one line with its label, which goes below those already there."""
    path = " ".join(f"{x:.1f},{y:.1f}" for x, y in places)
    dashes = ' stroke-dasharray="6 4"' if line.dashed else ""
    x, y = places[-1]
    y = max([y + 4, *(other + 16 for other in taken)])
    taken.append(y)
    return (
        f'<polyline fill="none" stroke="{line.colour}" stroke-width="2"{dashes} points="{path}"/>'
        f'<text x="{x + 8:.1f}" y="{y:.1f}" style="fill:{line.colour}">{escape(line.label)}</text>'
    )
