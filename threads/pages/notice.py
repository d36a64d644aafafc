"""The notice before conversation text crosses to another vendor, given once and kept.

DESIGN 11: text of an agent may go to a memory fallback or an embedding endpoint of another vendor
only after consent. Consent is the tenant's, so it is given by staff who may set its policy; whoever
talks to the agent reads the notice, before and after.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime

from governance import audit
from memory.errors import NotFoundError
from memory.rls import scoped_transaction
from memory.scope import Scope
from threads.chat import may_fall_back
from threads.models import Agent, Locality
from threads.recall.models_in_use import may_embed, models_to_fill


@dataclass(frozen=True, slots=True, kw_only=True)
class Notice:
    """To whom text of an agent goes besides its own provider, once that is agreed to."""

    own: str
    others: tuple[str, ...]
    consented_at: datetime | None


def notice_for(*, scope: Scope, agent_id: str) -> Notice | None:
    """Return the notice of an agent, None where its text crosses to no other vendor.

    Cost: two queries, in a transaction of their own.

    Raises:
        NotFoundError: There is no such agent.
    """
    with scoped_transaction(scope):
        agent = _agent(scope, agent_id)
        others = tuple(dict.fromkeys(_others(scope, agent)))
    if not others:
        return None
    own = agent.provider.vendor or agent.provider.name
    return Notice(own=own, others=others, consented_at=agent.cross_vendor_consent_at)


def give_consent(*, scope: Scope, agent_id: str, now: datetime) -> None:
    """Keep that text of an agent may cross; again changes nothing. Audited.

    Raises:
        NotFoundError: There is no such agent, or its text crosses to nobody.
    """
    with scoped_transaction(scope):
        agent = _agent(scope, agent_id, is_locked=True)
        others = dict.fromkeys(_others(scope, agent))
        if not others:
            raise NotFoundError
        if agent.cross_vendor_consent_at is not None:
            return
        rows = Agent.objects.in_scope(scope).filter(pk=agent.pk)
        rows.update(cross_vendor_consent_at=now, updated_at=now)
        audit.record(
            scope=scope,
            action="cross_vendor_consent_given",
            target_kind="agent",
            target_id=agent.pk,
            now=now,
            detail={"vendors": len(others)},
        )


def _agent(scope: Scope, agent_id: str, *, is_locked: bool = False) -> Agent:
    rows = Agent.objects.in_scope(scope).filter(pk=agent_id)
    rows = rows.select_related("provider", "memory_fallback_provider")
    if is_locked:
        rows = rows.select_for_update(of=("self",))
    agent = rows.first()
    if agent is None:
        raise NotFoundError
    return agent


def _others(scope: Scope, agent: Agent) -> Iterator[str]:
    """Yield the vendors that text of this agent reaches by consent, and not without."""
    own, fallback = agent.provider, agent.memory_fallback_provider
    without = Agent(provider=own, cross_vendor_consent_at=None)
    with_it = Agent(provider=own, cross_vendor_consent_at=agent.created_at)
    if fallback is not None and fallback.pk != own.pk and fallback.locality == Locality.CLOUD:
        reached = [may_fall_back(one, own=own, fallback=fallback) for one in (without, with_it)]
        if reached == [False, True]:
            yield fallback.vendor or fallback.name
    for model in models_to_fill(scope=scope):
        reached = [may_embed(agent=one, model=model) for one in (without, with_it)]
        if reached == [False, True] and model.config.endpoint is not None:
            yield model.config.endpoint.vendor or model.config.name
