"""Charts as drawings of the server: SVG attributes and classes, no script and no style. Pure.

A drawing is stretched to whatever width it gets, so lines do not scale their strokes and words stand
beside it as HTML. Everything a chart shows is also there as a table.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from math import ceil, floor, log10
from typing import Final

from django.utils.functional import Promise
from django.utils.html import escape
from django.utils.safestring import SafeString

HEIGHT: Final = 100.0
STEP: Final = 10.0
_GAP: Final = 0.22  # share of a step that is left free between two bars
_MOST_LABELS: Final = 7
_COLUMNS: Final = 6
_MOST_DOTS: Final = 31
_NICE: Final = (1, 1.5, 2, 3, 4, 5, 6, 8, 10)

Text = str | Promise
Show = Callable[[float], str]


@dataclass(frozen=True, slots=True, kw_only=True)
class Series:
    """One row of numbers over the places of a chart.

    Attributes:
        name: Short word, part of a class in the page: it gives the colour.
        values: A number for each place; None where there is nothing to tell.
    """

    name: str
    title: Text
    values: Sequence[float | None]


@dataclass(frozen=True, slots=True, kw_only=True)
class Box:
    """A rectangle of a series, in units of the drawing."""

    name: str
    x: str
    y: str
    width: str
    height: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Place:
    """One place of the horizontal axis: where it is, and what is told of it."""

    x: str
    width: str
    told: str
    boxes: tuple[Box, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Curve:
    """A series as lines: a path for its stretches, one for its dots."""

    name: str
    line: str
    dots: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Chart:
    """A drawing with its words.

    Attributes:
        name: Unique on the page.
        description: One sentence for those who do not see the drawing.
        unit: What the vertical axis counts.
        ticks: Labels of the vertical axis, from above.
        labels: Labels of the horizontal axis, each over an equal share of it.
        is_centred: Whether each label stands under its one place.
        head: Headings of the table.
        rows: Its rows.
    """

    name: str
    title: Text
    description: Text
    unit: Text
    width: str
    height: str
    places: tuple[Place, ...]
    curves: tuple[Curve, ...]
    legend: tuple[Series, ...]
    ticks: tuple[str, ...]
    labels: tuple[str, ...]
    is_centred: bool
    head: tuple[Text, ...]
    rows: tuple[tuple[str, ...], ...]

    @property
    def drawing(self) -> SafeString:
        """What stands inside the svg element; a template takes ten times as long for small parts."""
        parts = (*map(_as_group, self.places), *map(_as_paths, self.curves))
        return SafeString("".join(parts))

    @property
    def table(self) -> SafeString:
        """The rows of the table, the first cell of each its heading."""
        return SafeString("".join(map(_as_row, self.rows)))


@dataclass(frozen=True, slots=True, kw_only=True)
class Words:
    """The words of a chart; see there. `show` writes a number, `corner` heads the places."""

    name: str
    title: Text
    description: Text
    unit: Text
    corner: Text
    show: Show = field(default=lambda value: f"{value:,.0f}")


def stacked_bars(*, words: Words, labels: Sequence[str], series: Sequence[Series]) -> Chart:
    """Return bars of the series, one on the other, over the labels; linear."""
    sums = [sum(one.values[n] or 0 for one in series) for n in range(len(labels))]
    top = nice_top(max(sums, default=0))
    places = tuple(
        Place(
            x=_number(n * STEP),
            width=_number(STEP),
            told=_told(words, labels[n], series, n),
            boxes=tuple(_boxes(series, n, top)),
        )
        for n in range(len(labels))
    )
    return _chart(words, labels, series, top, places=places)


def lines(*, words: Words, labels: Sequence[str], series: Sequence[Series]) -> Chart:
    """Return the series as lines over the labels; where one has nothing, its line is broken."""
    known = [value for one in series for value in one.values if value is not None]
    top = nice_top(max(known, default=0))
    places = tuple(
        Place(x=_number(n * STEP), width=_number(STEP), told=_told(words, labels[n], series, n))
        for n in range(len(labels))
    )
    return _chart(words, labels, series, top, places=places, curves=tuple(_curves(series, top)))


def nice_top(most: float) -> float:
    """Return the number an axis ends at: a round one, not far above `most`."""
    if most <= 0:
        return 1.0
    power = 10.0 ** floor(log10(most))
    return next(float(step * power) for step in _NICE if step * power >= most * (1 - 1e-9))


def _chart(
    words: Words,
    labels: Sequence[str],
    series: Sequence[Series],
    top: float,
    *,
    places: tuple[Place, ...],
    curves: tuple[Curve, ...] = (),
) -> Chart:
    is_centred = len(labels) <= _MOST_LABELS + 3
    shown = labels if is_centred else _spread(labels)
    rows = tuple(
        (label, *("–" if (value := one.values[n]) is None else words.show(value) for one in series))
        for n, label in enumerate(labels)
    )
    return Chart(
        name=words.name,
        title=words.title,
        description=words.description,
        unit=words.unit,
        width=_number(len(labels) * STEP or STEP),
        height=_number(HEIGHT),
        places=places,
        curves=curves,
        legend=tuple(series),
        ticks=_ticks(words.show, top),
        labels=tuple(shown),
        is_centred=is_centred,
        head=(words.corner, *(one.title for one in series)),
        rows=rows,
    )


def _ticks(show: Show, top: float) -> tuple[str, str, str]:
    """Return the labels of top, middle and ground; a middle that reads like another is left out."""
    above, middle, ground = (show(top * share) for share in (1, 0.5, 0))
    return above, "" if middle in (above, ground) else middle, ground


def _spread(labels: Sequence[str]) -> Sequence[str]:
    """Return the first label of each of six equal stretches."""
    return [labels[ceil(n * len(labels) / _COLUMNS)] for n in range(_COLUMNS)]


def _told(words: Words, label: str, series: Sequence[Series], n: int) -> str:
    parts = [
        f"{one.title} {words.show(value)}"
        for one in series
        if (value := one.values[n]) is not None and (value or len(series) == 1)
    ]
    return f"{label}: {', '.join(parts) or '–'}"


def _boxes(series: Sequence[Series], n: int, top: float) -> Iterator[Box]:
    below = 0.0
    for one in series:
        value = one.values[n] or 0
        if value <= 0:
            continue
        height = HEIGHT * value / top
        yield Box(
            name=one.name,
            x=_number(n * STEP + STEP * _GAP / 2),
            y=_number(HEIGHT - below - height),
            width=_number(STEP * (1 - _GAP)),
            height=_number(height),
        )
        below += height


def _curves(series: Sequence[Series], top: float) -> Iterator[Curve]:
    for one in series:
        points = [
            None
            if value is None
            else f"{_number((n + 0.5) * STEP)} {_number(HEIGHT - HEIGHT * value / top)}"
            for n, value in enumerate(one.values)
        ]
        parts = [
            f"{'L' if n and points[n - 1] else 'M'}{point}"
            for n, point in enumerate(points)
            if point
        ]
        # A line of no length with round ends is a dot that keeps its shape however it is stretched.
        # Few points are all marked; of many, those that no line touches.
        alone = [n for n in range(len(points)) if len(points) <= _MOST_DOTS or _is_alone(points, n)]
        dots = " ".join(f"M{points[n]}h0" for n in alone if points[n])
        yield Curve(name=one.name, line=" ".join(parts), dots=dots)


def _is_alone(points: Sequence[str | None], n: int) -> bool:
    return not (n and points[n - 1]) and not (n + 1 < len(points) and points[n + 1])


def _as_group(place: Place) -> str:
    boxes = "".join(
        f'<rect class="s-{box.name}" x="{box.x}" y="{box.y}" width="{box.width}"'
        f' height="{box.height}"/>'
        for box in place.boxes
    )
    return (
        f'<g class="place"><title>{escape(place.told)}</title><rect class="ground" x="{place.x}"'
        f' y="0" width="{place.width}" height="{_number(HEIGHT)}"/>{boxes}</g>'
    )


def _as_paths(curve: Curve) -> str:
    return (
        f'<path class="line s-{curve.name}" d="{curve.line}"/>'
        f'<path class="dots s-{curve.name}" d="{curve.dots}"/>'
    )


def _as_row(cells: Sequence[str]) -> str:
    head, *rest = map(escape, cells)
    numbers = "".join(f'<td class="number">{cell}</td>' for cell in rest)
    return f'<tr><th scope="row">{head}</th>{numbers}</tr>'


def _number(value: float) -> str:
    """Return a number as SVG reads it, whatever the reader's language writes."""
    return f"{value:.2f}".rstrip("0").rstrip(".")
