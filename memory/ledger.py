"""The ledger: the account of how the token budget was spent, per section and item. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

# In prompt order; DESIGN section 4 gives both orders.
POSITIONS: Final[Mapping[str, int]] = {
    name: position
    for position, name in enumerate(
        (
            "guidelines",
            "preferences",
            "facts",
            "core",
            "thread",
            "related",
            "reference",
            "continue",
            "request",
        ),
        start=1,
    )
}
PRIORITIES: Final[Mapping[str, int]] = {
    "request": 0,
    "preferences": 1,
    "facts": 2,
    "core": 3,
    "thread": 4,
    "continue": 5,
    "reference": 6,
    "related": 7,
    "guidelines": 8,
}

# Behaviour samples follow the agent's own words in the system prompt, before every section, and are
# as irreducible as the request.
BEHAVIOUR: Final = "behaviour"
_FIRST: Final = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Dropped:
    """Something that was wanted and left out; `reason` is a stable word.

    section_cap: no room in its section. awaiting_summary: a turn whose turn it is not yet. cut: the
    item is there, but `tokens` of it are not.
    """

    kind: str
    id: str
    tokens: int
    reason: str


CUT: Final = "cut"


@dataclass(frozen=True, slots=True, kw_only=True)
class SectionRow:
    """What one section wanted and got, in tokens: granted and all of `dropped` make up `wanted`."""

    name: str
    cap: int
    wanted: int
    granted: int
    items: int
    dropped: Sequence[Dropped] = ()

    @property
    def position(self) -> int:
        """Its place in the prompt."""
        return _FIRST if self.name == BEHAVIOUR else POSITIONS[self.name]

    @property
    def priority(self) -> int:
        """Its rank where room is short, lowest first."""
        return _FIRST if self.name == BEHAVIOUR else PRIORITIES[self.name]

    @property
    def candidates(self) -> int:
        """How many items wanted in: those that are there, whole or cut, and those left out."""
        return self.items + sum(gone.reason != CUT for gone in self.dropped)


@dataclass(frozen=True, slots=True, kw_only=True)
class Ledger:
    """The whole account of one prompt, in tokens.

    Attributes:
        decision: pass, trim, compress or reject.
        current_tokens: The estimate with every candidate; it decided.
        prompt_tokens: The estimate of the prompt as sent; 0 if it was refused.
        target_budget: What the prompt may cost.
        context_window: The model's window.
        candidate_count: How many items were candidates.
        sections: One row a section that exists.
        retrieval: How the search for what is remembered went, where there was one: how many items
            it kept, and in which ways it was degraded.
    """

    decision: str
    current_tokens: int
    prompt_tokens: int
    target_budget: int
    context_window: int
    candidate_count: int
    sections: Sequence[SectionRow] = field(default=())
    retrieval: Mapping[str, Any] | None = None

    def as_json(self) -> dict[str, Any]:
        """Return the `context` object of API.md, and how retrieval went where it was asked."""
        searched = {} if self.retrieval is None else {"retrieval": dict(self.retrieval)}
        return {
            "decision": self.decision,
            "current_tokens": self.current_tokens,
            "prompt_tokens": self.prompt_tokens,
            "target_budget": self.target_budget,
            "context_window": self.context_window,
            "candidate_count": self.candidate_count,
            "sections": [_row(row) for row in self.sections],
            **searched,
        }


def _row(row: SectionRow) -> dict[str, Any]:
    return {
        "name": row.name,
        "position": row.position,
        "priority": row.priority,
        "cap": row.cap,
        "wanted": row.wanted,
        "granted": row.granted,
        "items": row.items,
        "dropped": [
            {"kind": gone.kind, "id": gone.id, "tokens": gone.tokens, "reason": gone.reason}
            for gone in row.dropped
        ],
    }


_ORDER: Final = tuple(
    "decision current_tokens prompt_tokens target_budget context_window candidate_count sections"
    " retrieval degraded name position priority cap wanted granted items dropped kind id tokens"
    " reason kept".split()
)


def in_order(account: Any) -> Any:
    """Return a stored account with its names in the order of `as_json`, which jsonb forgets."""
    if isinstance(account, list):
        return [in_order(part) for part in account]
    if not isinstance(account, Mapping):
        return account
    known = [name for name in _ORDER if name in account]
    others = [name for name in account if name not in _ORDER]
    return {name: in_order(account[name]) for name in (*known, *others)}


def target_budget(*, context_window: int, max_output_tokens: int) -> int:
    """Return what a prompt may cost: 80% of the window, and room for the answer (DESIGN 4)."""
    return min(context_window * 8 // 10, context_window - max_output_tokens)
