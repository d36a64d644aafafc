"""A text that may be remembered: what the gate let through, and what it knows about it.

Only `governance.gate` makes one (tests/test_gate_walk.py holds that); whatever is written to
long-term memory is typed as one, so that no path can pass by the gate unseen.
"""

from __future__ import annotations

from dataclasses import dataclass, replace


@dataclass(frozen=True, slots=True, kw_only=True)
class PiiSpan:
    """Something personal that stays in a text: its kind and its characters, end exclusive.

    Offsets count Python characters (code points) of the stored text.
    """

    kind: str
    start: int
    end: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Cleared:
    """A text as it may be remembered.

    Attributes:
        text: Without secrets, and without what policy has masked.
        tier: How far it may be trusted; `untrusted` where it carries orders or markers.
        pii: What is personal and stays, in order.
        removed: Kinds of what was taken out or masked, sorted.
        markers: Names of the rules that its orders or markers fire, sorted.
        is_held: Whether a person has to look at it before it takes effect.
    """

    text: str
    tier: str
    pii: tuple[PiiSpan, ...] = ()
    removed: tuple[str, ...] = ()
    markers: tuple[str, ...] = ()
    is_held: bool = False

    def part(self, *, start: int, end: int) -> Cleared:
        """Return a stretch of this text, end exclusive, with what is personal in it."""
        spans = tuple(
            PiiSpan(
                kind=span.kind, start=max(span.start, start) - start, end=min(span.end, end) - start
            )
            for span in self.pii
            if span.start < end and span.end > start
        )
        return replace(self, text=self.text[start:end], pii=spans)

    def pii_json(self) -> list[dict[str, str | int]]:
        """Return the spans as the JSON columns `pii` keep them."""
        return [{"kind": span.kind, "start": span.start, "end": span.end} for span in self.pii]
