"""A scripted model server, and a tenant whose agent asks it; files that need others make their own."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from tests.factories import make_agent, make_key, make_tenant
from tests.fakes.openai_server import FakeOpenAI
from tests.talking import fake_provider

QUICK = {"connect": 2, "first_token": 0.4, "between": 0.4, "total": 2}


@pytest.fixture
def server() -> Iterator[FakeOpenAI]:
    """A scripted server over real HTTP."""
    with FakeOpenAI() as running:
        yield running


@pytest.fixture
def world(committed_db: None, server: FakeOpenAI) -> Any:
    """A tenant, a key and an agent on that server, with short timeouts."""
    tenant = make_tenant()
    provider = fake_provider(tenant, server, timeouts=QUICK)
    return tenant, make_key(tenant), make_agent(tenant, provider=provider, model="fake-1")
