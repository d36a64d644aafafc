"""Two tenants, a stranger to each other."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.factories import make_agent, make_end_user, make_key, make_provider, make_tenant
from tests.fakes.openai_server import FakeOpenAI
from tests.threads.api.client import Place, make_place
from tests.threads.api.stage import Stage


@pytest.fixture(autouse=True)
def _collected_statics(settings: Any, tmp_path: Path) -> None:
    """A folder of collected static files, as a served instance has."""
    settings.STATIC_ROOT = tmp_path
    settings.WHITENOISE_USE_FINDERS = False


@pytest.fixture
def a(db: None) -> Place:
    """Tenant A."""
    return make_place("A")


@pytest.fixture
def b(db: None) -> Place:
    """Tenant B."""
    return make_place("B")


@pytest.fixture
def stage(committed_db: None) -> Iterator[Stage]:
    with FakeOpenAI() as server:
        tenant = make_tenant()
        provider = make_provider(
            tenant, kind="openai_compatible", base_url=server.base_url, locality="local"
        )
        agent = make_agent(tenant, provider, model="fake-1")
        yield Stage(server, tenant, agent, make_key(tenant), make_end_user(tenant, "teacher-7"))
