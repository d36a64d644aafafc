"""A weight over time as a small drawing: plain SVG attributes, no script and no style."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from memory.models import EntityEvent

WIDTH: Final = 640
HEIGHT: Final = 120
_EDGE: Final = 8


@dataclass(frozen=True, slots=True, kw_only=True)
class Curve:
    """Steps of a weight, in units of the drawing.

    Attributes:
        points: As the attribute `points` of a polyline has them.
        dots: Where each event is, and what it was.
    """

    width: int
    height: int
    points: str
    dots: tuple[tuple[str, str, EntityEvent], ...]


def curve_of(events: Sequence[EntityEvent]) -> Curve | None:
    """Return the curve of events in order of time; None for fewer than two. Pure; linear."""
    if len(events) < 2:
        return None
    first, last = events[0].at, events[-1].at
    seconds = (last - first).total_seconds() or 1.0
    most = max(event.weight_after for event in events) or 1.0
    places = [
        (
            _EDGE + (WIDTH - 2 * _EDGE) * (event.at - first).total_seconds() / seconds,
            HEIGHT - _EDGE - (HEIGHT - 2 * _EDGE) * event.weight_after / most,
        )
        for event in events
    ]
    steps: list[tuple[float, float]] = []
    for x, y in places:
        if steps:
            steps.append((x, steps[-1][1]))  # the weight stays until the event
        steps.append((x, y))
    return Curve(
        width=WIDTH,
        height=HEIGHT,
        points=" ".join(f"{x:.1f},{y:.1f}" for x, y in steps),
        dots=tuple(
            (f"{x:.1f}", f"{y:.1f}", event) for (x, y), event in zip(places, events, strict=True)
        ),
    )
