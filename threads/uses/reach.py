"""How far somebody may look for uses: a tenant, perhaps one person of it, perhaps some agents."""

from __future__ import annotations

from dataclasses import dataclass

from governance import access
from governance.access import Principal
from governance.permissions import Permission
from memory.errors import NotFoundError
from memory.rls import scoped_transaction
from memory.scope import Scope
from threads.models import Agent


@dataclass(frozen=True, slots=True, kw_only=True)
class Reach:
    """A scope of one tenant, and the only agent whose threads may be looked at, if any."""

    scope: Scope
    agent_id: str | None = None

    def covers(self, agent_id: str | None) -> bool:
        """Say whether what belongs to this agent, or to none, may be looked at."""
        return self.agent_id is None or agent_id in (None, self.agent_id)


def reach_of(*, principal: Principal) -> Reach:
    """Return how far a key reaches. Cost: no query, for a key of one agent up to four.

    Raises:
        NotFoundError: It may act for nobody, or run no agent: to it nothing is there.
    """
    if principal.end_user_id is None and Permission.ACT_FOR not in principal.permissions:
        raise NotFoundError
    scope = access.tenant_scope(principal)
    if principal.agent_id is None:
        if Permission.RUN_AGENT not in principal.permissions:
            raise NotFoundError
        return Reach(scope=scope)
    with scoped_transaction(scope):
        agent = Agent.objects.in_scope(scope).filter(pk=principal.agent_id).first()
        if agent is None:
            raise NotFoundError
        access.require_agent(principal=principal, agent=agent, agent_id=agent.pk)
    return Reach(scope=scope, agent_id=agent.pk)
