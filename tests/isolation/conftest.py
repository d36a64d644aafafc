"""Three filled tenants, committed once for each module of this folder."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from django.db import connections

from tests.conftest import empty_tables
from tests.isolation.worlds import World, make_world

Worlds = tuple[World, World, World]


@pytest.fixture(scope="module")
def _committed_worlds(
    django_db_setup: None, django_db_blocker: Any, superuser_url: str
) -> Iterator[Worlds]:
    with django_db_blocker.unblock():
        made = (make_world(), make_world(), make_world())
    yield made
    with django_db_blocker.unblock():
        connections.close_all()
    empty_tables(superuser_url)


@pytest.fixture
def worlds(_committed_worlds: Worlds, django_db_blocker: Any) -> Iterator[Worlds]:
    """Tenants A and B and a stranger C; a test that writes rolls back."""
    with django_db_blocker.unblock():
        yield _committed_worlds
