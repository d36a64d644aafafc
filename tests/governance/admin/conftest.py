"""The two worlds of the admin's tests, and clients signed in to them."""

from __future__ import annotations

from typing import Any

import pytest
from django.test import Client

from tests.governance.admin.worlds import World, make_world, signed_in


@pytest.fixture(autouse=True)
def _admin_alone(settings: Any) -> None:
    """The admin's URLs and Django's own middleware: what is under test, and nothing beside it."""
    settings.ROOT_URLCONF = "tests.governance.admin.urls"
    settings.MIDDLEWARE = [
        name for name in settings.MIDDLEWARE if name.startswith(("django.", "axes."))
    ]


@pytest.fixture
def alpha(db: None) -> World:
    """The tenant whose strings are canaries."""
    return make_world("canary-alpha")


@pytest.fixture
def beta(db: None) -> World:
    """The tenant of the staff that looks."""
    return make_world("harmless-beta")


@pytest.fixture
def client_of_beta(beta: World) -> Client:
    """A browser signed in as staff (role admin) of beta alone."""
    return signed_in(beta.staff)
