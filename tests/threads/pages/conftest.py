"""Two tenants with a person each, and who sits before a chat page of theirs."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import timedelta
from typing import Any

import pytest
from django.contrib.auth.models import User
from django.test import Client
from django.utils import timezone

from tests.factories import make_staff, scope_of
from tests.governance.admin.worlds import signed_in
from tests.threads.api.client import Place, make_place
from threads.chat_links import link_path, open_seat


@dataclass
class Sitter:
    """A browser in a seat."""

    client: Client
    seat: str

    def at(self, tail: str = "") -> str:
        """An address of the seat."""
        return f"/chat/{self.seat}/{tail}"

    def get(self, tail: str = "", **options: Any) -> Any:
        """GET below the seat."""
        return self.client.get(self.at(tail), **options)

    def post(self, tail: str, data: dict[str, Any] | None = None, **options: Any) -> Any:
        """POST a form below the seat, as the script does."""
        headers = {"X-Credence-Fragment": "1"} | options.pop("headers", {})
        return self.client.post(self.at(tail), data or {}, headers=headers, **options)


def by_link(place: Place, client: Client | None = None, **values: Any) -> Sitter:
    """Whoever opened a link of the place's person."""
    key = open_seat(
        scope=scope_of(place.tenant),
        agent_id=values.get("agent_id", place.agent.pk),
        user_id=values.get("user_id", place.person.user_id),
        now=timezone.now(),
        lasts=values.get("lasts", timedelta(hours=1)),
        is_shared=False,
    )
    client = client or Client()
    answer = client.get(link_path(key))
    assert answer.status_code == 302, answer.content
    return Sitter(client, key.pk)


def sit(staff: User, place: Place, user_id: str = "") -> Any:
    """What comes of a member of staff that chooses an agent."""
    body = {"agent_id": place.agent.pk, "user_id": user_id}
    client = signed_in(staff)
    return client, client.post("/chat/", body)


@pytest.fixture
def a(db: None) -> Place:
    """The tenant whose strings are canaries."""
    return make_place("a")


@pytest.fixture
def b(db: None) -> Place:
    """Another one."""
    return make_place("b")


@pytest.fixture
def sitter(a: Place) -> Sitter:
    """A's person, by a link."""
    return by_link(a)


@pytest.fixture
def staff(a: Place) -> User:
    """An admin of a's tenant."""
    return make_staff(a.tenant)
