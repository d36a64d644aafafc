"""A key's view of the API through Django's test client, and two tenants to look at."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from django.test import Client

from memory.models import EndUser, Tenant
from tests.factories import (
    NOW,
    MadeKey,
    make_agent,
    make_end_user,
    make_key,
    make_provider,
    make_tenant,
    make_thread,
    scope_of,
)
from threads.api.renderers import to_json
from threads.models import Agent, Provider, Run, Thread
from threads.turns import RecordedMessage, RecordedTurn, record_turn


class Api:
    """One key's requests; bodies are JSON."""

    def __init__(self, key: MadeKey | str | None) -> None:
        raw = key.secret if isinstance(key, MadeKey) else key
        self.client = Client()
        self.headers = {"Authorization": f"Bearer {raw}"} if raw is not None else {}

    def send(self, method: str, path: str, body: Any = None, **options: Any) -> Any:
        """Send a request; a body that is bytes goes as it is."""
        headers = self.headers | options.pop("headers", {})
        content_type = options.pop("content_type", "application/json")
        data = body if isinstance(body, bytes) else _json(body)
        return self.client.generic(
            method, path, data, content_type if data else "", headers=headers, **options
        )

    def get(self, path: str, query: Any = None, **options: Any) -> Any:
        """GET."""
        return self.send("GET", path, query_params=query, **options)

    def post(self, path: str, body: Any = None, **options: Any) -> Any:
        """POST."""
        return self.send("POST", path, body, **options)

    def patch(self, path: str, body: Any = None, **options: Any) -> Any:
        """PATCH."""
        return self.send("PATCH", path, body, **options)

    def delete(self, path: str, **options: Any) -> Any:
        """DELETE."""
        return self.send("DELETE", path, **options)


def _json(body: Any) -> bytes:
    return b"" if body is None else to_json(body).encode()


@dataclass
class Place:
    """One tenant with a person, an agent, a thread and a recorded turn; texts hold a canary."""

    tenant: Tenant
    provider: Provider
    agent: Agent
    person: EndUser
    thread: Thread
    run: Run
    message_id: str
    key: MadeKey
    canary: str

    @property
    def api(self) -> Api:
        """Requests with the key of all scopes."""
        return Api(self.key)


def make_place(name: str) -> Place:
    """Make one."""
    canary = f"CNRY-{name}-1"
    tenant = make_tenant()
    provider = make_provider(tenant, name=f"{canary}-provider")
    agent = make_agent(tenant, provider, name=f"{canary}-agent")
    person = make_end_user(tenant, f"{canary}-user")
    thread = make_thread(agent, person, title=f"{canary}-title")
    turn = RecordedTurn(
        input=f"{canary} 期末试卷什么时候交？",
        output=f"{canary} Friday.",
        created_at=NOW,
        messages=(
            RecordedMessage(role="user", content=f"{canary} 期末试卷什么时候交？"),
            RecordedMessage(role="assistant", content=f"{canary} Friday."),
        ),
    )
    run, _ = record_turn(scope=scope_of(tenant), thread_id=thread.pk, turn=turn, now=NOW)
    key = make_key(tenant)
    listed = Api(key).get(f"/v1/threads/{thread.pk}/messages").json()
    return Place(
        tenant=tenant,
        provider=provider,
        agent=agent,
        person=person,
        thread=thread,
        run=run,
        message_id=listed["results"][0]["id"],
        key=key,
        canary=canary,
    )


def agent_body(place: Place, **values: object) -> dict[str, object]:
    """A body for POST /v1/agents."""
    return {
        "name": "tutor",
        "provider_id": place.provider.pk,
        "model": "m",
        "context_window": 8192,
    } | values


def code_of(response: Any) -> tuple[int, str]:
    """Status and code of a problem."""
    return response.status_code, response.json()["code"]
