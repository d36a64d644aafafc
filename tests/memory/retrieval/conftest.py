"""Each test starts without copies of shelves."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from memory.retrieval.copies import process_cache


@pytest.fixture(autouse=True)
def _no_copies() -> Iterator[None]:
    process_cache().clear()
    yield
    process_cache().clear()
