"""What is known of how a model counts, read with its agent and learned from what answers report."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import Any, Final

from django.db.models import OuterRef, Subquery

from memory.querysets import ScopedQuerySet
from memory.scope import Scope
from memory.tokens.calibration import Fit
from threads.counting import Counter, Observation
from threads.models import Agent, TokenFit

_STATE: Final = "token_fit_state"


def with_token_fit(rows: ScopedQuerySet[Agent], *, scope: Scope) -> ScopedQuerySet[Agent]:
    """Return the agents' query with what is known of their models; no query of its own."""
    known = TokenFit.objects.in_scope(scope).filter(
        provider_id=OuterRef("provider_id"), model=OuterRef("model")
    )
    return rows.annotate(**{_STATE: Subquery(known.values("state")[:1])})


def counter_of(agent: Agent) -> Counter:
    """Return the counter of an agent that was read by `with_token_fit`; otherwise a fresh one."""
    state = getattr(agent, _STATE, None)
    fit = Fit.from_json(state if isinstance(state, dict) else None, model=agent.model)
    return Counter(model=agent.model, fit=fit)


def learn(
    *, scope: Scope, agent: Agent, observations: Sequence[Observation], now: datetime
) -> None:
    """Learn from reported usage, inside the caller's transaction.

    A row that another run is learning into right now is left alone: one report more or less
    teaches nothing. Cost: nothing without observations, else up to three statements.
    """
    if not observations:
        return
    rows = TokenFit.objects.in_scope(scope)
    mine: dict[str, Any] = {"provider_id": agent.provider_id, "model": agent.model}
    stored = rows.select_for_update(skip_locked=True).filter(**mine).first()
    if stored is None:
        fit = _learned(Fit.start(agent.model), observations)
        row = TokenFit(tenant_id=scope.tenant_id, **mine, **_columns(fit, now))
        TokenFit.objects.bulk_create([row], ignore_conflicts=True)
        return
    fit = _learned(Fit.from_json(stored.state, model=agent.model), observations)
    rows.filter(pk=stored.pk).update(**_columns(fit, now))


def _learned(fit: Fit, observations: Sequence[Observation]) -> Fit:
    for seen in observations:
        fit = fit.learned(seen.features, seen.reported)
    return fit


def _columns(fit: Fit, now: datetime) -> dict[str, Any]:
    return {"state": fit.as_json(), "runs": fit.learned_count, "updated_at": now}
