"""Agents and the providers behind them."""

from __future__ import annotations

from typing import cast

from django.utils import timezone
from rest_framework.request import Request
from rest_framework.response import Response

from governance.models import KeyScope
from threads import agents, catalogue, providers
from threads.agents import AgentValues
from threads.api.once import idempotent
from threads.api.schema import operation
from threads.api.serializers.administration import (
    AgentAnswer,
    AgentPatchBody,
    NewAgentBody,
    NewProviderBody,
    ProviderAnswer,
    ProviderPatchBody,
)
from threads.api.views.base import PAGING, ApiView
from threads.providers import ProviderValues


class AgentsView(ApiView):
    """GET, POST /v1/agents."""

    key_scopes = {"GET": KeyScope.ADMIN, "POST": KeyScope.ADMIN}
    parameters = {"GET": PAGING}

    @operation(
        "list_agents",
        tag="Administration",
        summary="List agents, newest first",
        answer=AgentAnswer,
        is_paged=True,
        problems=(400,),
    )
    def get(self, request: Request) -> Response:
        """Return a page; deactivated agents are in it, marked so."""
        rows = catalogue.agents_of(scope=self.scope)
        return self.paged(rows, order=("-created_at", "-id"), answer=AgentAnswer)

    @operation(
        "create_agent",
        tag="Administration",
        summary="Make an agent",
        body=NewAgentBody,
        answer=AgentAnswer,
        status=201,
        problems=(409,),
        is_idempotent=True,
    )
    @idempotent()
    def post(self, request: Request) -> Response:
        """Make an agent."""
        values = cast("AgentValues", self.checked(NewAgentBody))
        agent = agents.create_agent(scope=self.scope, values=values, now=timezone.now())
        return Response(AgentAnswer(agent).data, status=201)


class AgentView(ApiView):
    """GET, PATCH, DELETE /v1/agents/{agent_id}."""

    key_scopes = {"GET": KeyScope.ADMIN, "PATCH": KeyScope.ADMIN, "DELETE": KeyScope.ADMIN}

    @operation("read_agent", tag="Administration", summary="Read an agent", answer=AgentAnswer)
    def get(self, request: Request, agent_id: str) -> Response:
        """Return the agent."""
        agent = agents.read_agent(scope=self.scope, agent_id=agent_id)
        return Response(AgentAnswer(agent).data)

    @operation(
        "update_agent",
        tag="Administration",
        summary="Change an agent",
        body=AgentPatchBody,
        answer=AgentAnswer,
        problems=(409,),
    )
    def patch(self, request: Request, agent_id: str) -> Response:
        """Change what is named."""
        values = cast("AgentValues", self.checked(AgentPatchBody))
        agent = agents.update_agent(
            scope=self.scope, agent_id=agent_id, values=values, now=timezone.now()
        )
        return Response(AgentAnswer(agent).data)

    @operation(
        "delete_agent",
        tag="Administration",
        summary="Delete an agent",
        description="204 if nothing is left of it; an agent with threads or runs is deactivated"
        " instead, and 200 shows it.",
        answer=AgentAnswer,
        also={204: "Nothing is left of it"},
    )
    def delete(self, request: Request, agent_id: str) -> Response:
        """Delete or deactivate."""
        agent = agents.delete_agent(scope=self.scope, agent_id=agent_id, now=timezone.now())
        if agent is None:
            return Response(status=204)
        return Response(AgentAnswer(agent).data)


class ProvidersView(ApiView):
    """GET, POST /v1/providers."""

    key_scopes = {"GET": KeyScope.ADMIN, "POST": KeyScope.ADMIN}
    parameters = {"GET": PAGING}

    @operation(
        "list_providers",
        tag="Administration",
        summary="List providers, newest first",
        answer=ProviderAnswer,
        is_paged=True,
        problems=(400,),
    )
    def get(self, request: Request) -> Response:
        """Return a page."""
        rows = providers.providers_of(scope=self.scope)
        return self.paged(rows, order=("-created_at", "-id"), answer=ProviderAnswer)

    @operation(
        "create_provider",
        tag="Administration",
        summary="Make a provider",
        body=NewProviderBody,
        answer=ProviderAnswer,
        status=201,
        problems=(409,),
        is_idempotent=True,
    )
    @idempotent()
    def post(self, request: Request) -> Response:
        """Make a provider; its host is looked up and checked."""
        values = cast("ProviderValues", self.checked(NewProviderBody))
        provider = providers.create_provider(scope=self.scope, values=values, now=timezone.now())
        return Response(ProviderAnswer(provider).data, status=201)


class ProviderView(ApiView):
    """PATCH /v1/providers/{provider_id}."""

    key_scopes = {"PATCH": KeyScope.ADMIN}

    @operation(
        "update_provider",
        tag="Administration",
        summary="Change a provider",
        description="A move to another host needs the API key again: it does not follow.",
        body=ProviderPatchBody,
        answer=ProviderAnswer,
        problems=(409,),
    )
    def patch(self, request: Request, provider_id: str) -> Response:
        """Change what is named."""
        values = cast("ProviderValues", self.checked(ProviderPatchBody))
        provider = providers.update_provider(
            scope=self.scope, provider_id=provider_id, values=values, now=timezone.now()
        )
        return Response(ProviderAnswer(provider).data)
