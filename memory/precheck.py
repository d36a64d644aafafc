"""The precheck: may this prompt be sent as it is, after trimming, after compressing, or not. Pure.

Source: the rules and their order are those of the design seed (B, section 2.3) and DESIGN 4.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

Decision = Literal["pass", "trim", "compress", "reject"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Demand:
    """What the parts of a prompt want, in tokens.

    Attributes:
        target: What the prompt may cost.
        irreducible: System prompt, tools, behaviour samples, preferences, request, framing.
        needed: What may be compressed but not cut: the thread's past as its strategy shows it,
            and what comes before it by priority.
        optional: What may be cut, item by item.
        is_anything_cut: Whether a section's own cap leaves something out.
    """

    target: int
    irreducible: int
    needed: int
    optional: Sequence[int] = ()
    is_anything_cut: bool = False


def decide(demand: Demand) -> Decision:
    """Return the first decision that holds, in the stated order."""
    if demand.irreducible > demand.target:
        return "reject"
    whole = demand.irreducible + demand.needed
    if whole + sum(demand.optional) <= demand.target:
        return "trim" if demand.is_anything_cut else "pass"
    return "trim" if whole <= demand.target else "compress"
