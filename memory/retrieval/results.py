"""What goes into a search and what comes out: the query, the hits with their parts, the trace. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, Final

from memory.retrieval.codes import Vector
from memory.retrieval.expansion import NOBODY, Expansion
from memory.retrieval.signals import Usual
from memory.trust import Source

# The six ways a search gets less than it asked for (DESIGN section 7), as answers name them.
EMBEDDING_UNAVAILABLE: Final = "embedding_unavailable"  # keyword only
VECTOR_INDEX_UNUSABLE: Final = "vector_index_unusable"  # exact scan
KEYWORD_UNAVAILABLE: Final = "keyword_unavailable"  # vector only
TIME_LIMIT: Final = "time_limit"  # the most recent in scope
RESULTS_CUT: Final = "results_cut"  # too large for the gates
SCOPE_MISSING: Final = "scope_missing"  # nothing, and the run is refused


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    """The policy numbers of retrieval (DESIGN section 13).

    Attributes:
        weights: Of relevance, recency, credence, frequency; they sum to 1.
        half_life_days: By kind: recall, item, knowledge, message.
        credence: By tier, 0 to 1.
        freshness_days: By kind: recall, knowledge; a hit older than that is stale.
        exact_rows: Up to how many entries all vectors are compared.
        limit_ms: Time after which the most recent are returned.
    """

    weights: Mapping[str, float]
    half_life_days: Mapping[str, float]
    credence: Mapping[str, float]
    freshness_days: Mapping[str, float]
    exact_rows: int
    limit_ms: int


@dataclass(frozen=True, slots=True, kw_only=True)
class RecallQuery:
    """A question to the memory of one scope.

    Attributes:
        text: The question, free of secrets.
        vector: Its unit vector by the model `model_id`; None to search by words alone.
        kinds: What may be found: recall, item, core, knowledge.
        role: Only entries of this role and of none; None for all.
        min_relevance: Gate 1: what is not above it is left out.
        limit: Gate 2: how many are returned at most.
        limit_by_kind: How many of each kind at most, where kinds are counted apart; `limit` is then
            their sum.
        most_tokens: Gate 3: what they may cost together; None for any.
        as_of: Only what was so by then.
        skip_thread_id: A thread whose turns are left out (a prompt has them already).
        degraded: What went wrong before the search.
        usual_cosine: Mean and spread of cosines of unrelated texts by the model; None for the
            default model's.
        expansion: The entities that the question names, with their other names.
    """

    text: str
    now: datetime
    settings: Settings
    vector: Vector | None = None
    model_id: str | None = None
    kinds: tuple[str, ...] = ("recall", "item", "core", "knowledge")
    role: str | None = None
    min_relevance: float = 0.2
    limit: int = 10
    limit_by_kind: Mapping[str, int] = field(default_factory=dict)
    most_tokens: int | None = None
    as_of: datetime | None = None
    skip_thread_id: str | None = None
    degraded: tuple[str, ...] = ()
    usual_cosine: Usual | None = None
    expansion: Expansion = NOBODY

    @property
    def groups(self) -> tuple[tuple[frozenset[str], int], ...]:
        """Kinds that are counted together, each with how many hits are wanted of them."""
        if not self.limit_by_kind:
            return ((frozenset(self.kinds), self.limit),)
        return tuple((frozenset({kind}), most) for kind, most in self.limit_by_kind.items())


@dataclass(frozen=True, slots=True, kw_only=True)
class Scores:
    """The four dimensions of a score, each 0 to 1."""

    relevance: float
    recency: float
    credence: float
    frequency: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Hit:
    """Something found, and why.

    Attributes:
        id: Of the recall entry or chunk it leads to.
        entry_id: Of its index entry.
        score: The weighted sum of `scores`, which orders hits.
        parts: What relevance is made of, by name; they sum to the relevance before its calibration.
        said_at: The time of what it says.
        title: Of a document; empty otherwise.
    """

    id: str
    entry_id: str
    kind: str
    content: str
    score: float
    scores: Scores
    parts: Mapping[str, float]
    tier: str
    source: Source
    said_at: datetime
    confidence: float | None = None
    stale: bool = False
    title: str = ""
    thread_id: str | None = None
    tokens: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class RetrievalTrace:
    """How a search went; ToolTrace of DESIGN section 7, with no text in it.

    Attributes:
        query_hash: Keyed hash of the question.
        stages_ms: Time of each stage, by name.
        candidates: By leg: vector, keyword.
        dropped: By gate: duplicate, relevance, top_k, budget.
        entities: How many entities the question names.
    """

    tool: str
    query_hash: str
    scope: Mapping[str, str | None]
    stages_ms: Mapping[str, float]
    candidates: Mapping[str, int]
    kept: int
    dropped: Mapping[str, int]
    degraded: tuple[str, ...]
    top_score: float | None
    tokens: int
    entities: int = 0

    def as_json(self) -> dict[str, Any]:
        """Return the trace as a step's data."""
        return {
            "tool": self.tool,
            "query_hash": self.query_hash,
            "scope": dict(self.scope),
            "stages_ms": dict(self.stages_ms),
            "candidates": dict(self.candidates),
            "kept": self.kept,
            "dropped": dict(self.dropped),
            "degraded": list(self.degraded),
            "top_score": self.top_score,
            "tokens": self.tokens,
            "entities": self.entities,
        }


@dataclass(frozen=True, slots=True, kw_only=True)
class Retrieval:
    """The hits, best first, and how they were found."""

    hits: tuple[Hit, ...]
    trace: RetrievalTrace
