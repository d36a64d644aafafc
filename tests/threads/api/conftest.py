"""Two tenants, a stranger to each other."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tests.threads.api.client import Place, make_place


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
