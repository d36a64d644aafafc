"""How far a context item may be believed, and what it says of itself: tier, source, dates. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Final

# Strongest first (DESIGN section 5).
TIERS: Final = (
    "system",
    "fact",
    "approved",
    "stated",
    "observed",
    "material",
    "derived",
    "untrusted",
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Source:
    """Where an item comes from: a run, a thread, a request, an agent; by its id, if it has one."""

    kind: str
    id: str | None = None
    external_id: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ContextItem:
    """One thing a prompt shows, and the answer to "who put this line in".

    Attributes:
        section: Its section in the ledger.
        kind: What it is: fact, material, summary, node, turn, preference, artifact, guideline …
        id: Its id, or its place among those handed in.
        tier: One of TIERS.
        content: The text as the prompt shows it.
        tokens: What that costs.
        source: Where it comes from.
        created_at: When it came to be; approved_at and as_of where it has them.
        confidence: 0 to 1, where somebody gave one; weight and score likewise.
        stale: Whether it is older than its kind stays fresh, or past its end.
    """

    section: str
    kind: str
    id: str
    tier: str
    content: str
    tokens: int = 0
    source: Source | None = None
    created_at: datetime | None = None
    approved_at: datetime | None = None
    as_of: datetime | None = None
    confidence: float | None = None
    weight: float | None = None
    score: float | None = None
    stale: bool = False

    def as_json(self) -> dict[str, Any]:
        """Return the Item of API.md."""
        return {
            "section": self.section,
            "kind": self.kind,
            "id": self.id,
            "tier": self.tier,
            "source": _source(self.source),
            "created_at": _time(self.created_at),
            "approved_at": _time(self.approved_at),
            "as_of": _time(self.as_of),
            "confidence": self.confidence,
            "weight": self.weight,
            "stale": self.stale,
            "tokens": self.tokens,
            "score": self.score,
            "content": self.content,
        }


def _source(source: Source | None) -> Mapping[str, str | None] | None:
    if source is None:
        return None
    return {"kind": source.kind, "id": source.id, "external_id": source.external_id}


def _time(at: datetime | None) -> str | None:
    return at.isoformat() if at else None
