"""A person whose core memory is decided about."""

from __future__ import annotations

import pytest

from tests.governance.core.desks import Desk, make_desk


@pytest.fixture
def desk(db: None) -> Desk:
    return make_desk()
