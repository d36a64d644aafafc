"""Finding what is remembered: the question is embedded first, then searched for in its scope.

Embedding holds no transaction: it may ask an endpoint. Whatever goes wrong with it makes the search
one by words alone, never a failure; only a scope that names no single person is refused.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime
from time import perf_counter
from typing import Final

from django.utils import timezone

from governance.entities.expansion import expansion_of
from governance.policy_rules import Policy
from memory.errors import ScopeError
from memory.providers.breaker import CircuitBreaker
from memory.providers.embeddings.base import EmbeddingError
from memory.providers.embeddings.registry import embedder
from memory.retrieval.codes import Vector
from memory.retrieval.counts import count_search
from memory.retrieval.expansion import Expansion
from memory.retrieval.ranking import usual_cosine_of
from memory.retrieval.results import (
    EMBEDDING_UNAVAILABLE,
    SCOPE_MISSING,
    RecallQuery,
    Retrieval,
    Settings,
)
from memory.retrieval.search import search
from memory.rls import scoped_transaction
from memory.scope import Scope
from threads.models import Agent
from threads.recall.models_in_use import (
    ActiveModel,
    active_model,
    may_embed,
    may_embed_for_tenant,
)

QUERY_SECONDS: Final = 1.0
_MOST_ASKED: Final = 4000
_log = logging.getLogger("credence.retrieval")
_breaker = CircuitBreaker()
_UNAVAILABLE: Final = (EMBEDDING_UNAVAILABLE,)


@dataclass(frozen=True, slots=True, kw_only=True)
class QuestionVector:
    """A question as one model puts it, or without a vector: then it is searched by words alone.

    Attributes:
        model_kind: How that model is reached.
        degraded: Why there is none, where there should be one.
        ms: How long it took.
    """

    vector: Vector | None = None
    model_id: str | None = None
    model_kind: str = ""
    degraded: tuple[str, ...] = ()
    ms: float = 0.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Wanted:
    """What is to be found; as memory.retrieval.results.RecallQuery has it.

    Attributes:
        tool: Who asks: run, search, memory_search, kb_search; for the trace.
        min_relevance: None for the policy's.
        named: The entities that the text names; None to look them up.
    """

    tool: str
    text: str
    kinds: tuple[str, ...]
    limit: int
    limit_by_kind: Mapping[str, int] = field(default_factory=dict)
    role: str | None = None
    min_relevance: float | None = None
    most_tokens: int | None = None
    as_of: datetime | None = None
    named: Expansion | None = None


def asked_text(text: str) -> str:
    """Return what is searched for: all of a question, of a very long one its two ends."""
    if len(text) <= _MOST_ASKED:
        return text
    half = _MOST_ASKED // 2
    return f"{text[:half]}\n{text[-half:]}"


def embed_question(
    *, scope: Scope, text: str, agent_id: str | None = None, seconds: float = QUERY_SECONDS
) -> QuestionVector:
    """Return the question's vector by the tenant's active model, if that may see it and answers.

    Call it with no transaction open. The agent's locality decides where the text may go, without
    an agent that of the tenant's strictest. Cost: nothing to look the model up for two seconds, then
    one short transaction, one more for an endpoint; and the model's time.
    """
    began = perf_counter()
    model = active_model(scope=scope) if text.strip() else None
    if model is None:
        return QuestionVector()
    is_allowed = _may_see(model, scope, agent_id)
    made = _embedded(model, asked_text(text), seconds) if is_allowed else None
    ms = round((perf_counter() - began) * 1000, 3)
    if made is None:
        return QuestionVector(degraded=_UNAVAILABLE, ms=ms)
    return QuestionVector(vector=made, model_id=model.id, model_kind=model.config.kind, ms=ms)


def _may_see(model: ActiveModel, scope: Scope, agent_id: str | None) -> bool:
    """Say whether the text may go to the model; only of an endpoint the agent must be asked for."""
    if agent_id is None:
        return may_embed_for_tenant(scope=scope, model=model)
    if model.config.endpoint is None:
        return not model.is_switched_off
    with scoped_transaction(scope):
        rows = Agent.objects.in_scope(scope).select_related("provider")
        agent = rows.filter(pk=agent_id).first()
    return agent is not None and may_embed(agent=agent, model=model)


def _embedded(model: ActiveModel, text: str, seconds: float) -> Vector | None:
    """Return the vector, None if there is none; an endpoint that fails again and again rests."""
    is_watched = model.config.endpoint is not None
    if is_watched and _breaker.is_open(provider_id=model.id, now=timezone.now()):
        return None
    try:
        vector = embedder(model.config).query(text, seconds=seconds)
    except EmbeddingError:
        if is_watched:
            _breaker.failed(provider_id=model.id, now=timezone.now())
        return None
    _breaker.succeeded(provider_id=model.id)
    return vector


def settings_of(policy: Policy) -> Settings:
    """Return the policy's numbers of retrieval."""
    dimensions = ("relevance", "recency", "credence", "frequency")
    kinds = ("recall", "item", "knowledge", "message")
    tiers = ("fact", "approved", "stated", "observed", "material", "derived", "untrusted")
    return Settings(
        weights={name: policy.share(f"weight_{name}") for name in dimensions},
        half_life_days={kind: policy.count(f"half_life_{kind}_days") for kind in kinds},
        credence={tier: policy.share(f"credence_{tier}") for tier in tiers},
        freshness_days={
            kind: policy.count(f"freshness_{kind}_days") for kind in ("recall", "knowledge")
        },
        exact_rows=policy.count("exact_search_rows"),
        limit_ms=policy.count("retrieval_limit_ms"),
    )


def find(
    *, scope: Scope, wanted: Wanted, asked: QuestionVector, policy: Policy, now: datetime
) -> Retrieval:
    """Return what is remembered, best first, with its trace; degradations are logged and counted.

    Inside the caller's transaction, which is turned to `scope`: one person of one tenant, with the
    teams of that person (governance.access.with_teams). Cost: as memory.retrieval.search.

    Raises:
        ScopeError: The scope names no person, or several tenants.
    """
    if scope.user_id is None or len(scope.tenant_ids) != 1:
        raise ScopeError
    least = policy.share("min_relevance")
    text = asked_text(wanted.text)
    named = expansion_of(scope=scope, text=text) if wanted.named is None else wanted.named
    query = RecallQuery(
        text=text,
        now=now,
        settings=settings_of(policy),
        vector=asked.vector,
        model_id=asked.model_id,
        kinds=wanted.kinds,
        role=wanted.role,
        min_relevance=least if wanted.min_relevance is None else wanted.min_relevance,
        limit=wanted.limit,
        limit_by_kind=wanted.limit_by_kind,
        most_tokens=wanted.most_tokens,
        as_of=wanted.as_of,
        degraded=asked.degraded,
        usual_cosine=usual_cosine_of(asked.model_kind) if asked.model_kind else None,
        expansion=named,
    )
    found = search(scope=scope, query=query)
    note_search(tool=wanted.tool, degraded=found.trace.degraded)
    if SCOPE_MISSING in found.trace.degraded:
        raise ScopeError
    return replace(found, trace=replace(found.trace, tool=wanted.tool))


def note_search(*, tool: str, degraded: tuple[str, ...]) -> None:
    """Count a search; each way in which it was degraded is a line of the log, without any text."""
    count_search(degraded=degraded)
    for code in degraded:
        _log.warning("retrieval_degraded", extra={"code": code, "tool": tool})
