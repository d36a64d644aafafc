"""Case 35: the time an answer takes does not tell a foreign id from one that was never given."""

from __future__ import annotations

import time
from statistics import median

import pytest

from memory.ids import new_id
from tests.threads.api.client import Place

ROUNDS = 250


@pytest.mark.req("B17")
def test_case_35_foreign_and_unknown_ids_take_alike_long(a: Place, b: Place) -> None:
    """In turn, so that whatever else the machine does falls on both; a ratio, no seconds."""
    took: dict[str, list[float]] = {"foreign": [], "unknown": []}
    for _ in range(ROUNDS):
        for name, wanted in (("foreign", a.thread.pk), ("unknown", new_id("th"))):
            began = time.perf_counter()
            answer = b.api.get(f"/v1/threads/{wanted}")
            took[name].append(time.perf_counter() - began)
            assert answer.status_code == 404
    ratio = median(took["foreign"]) / median(took["unknown"])
    assert 0.67 < ratio < 1.5
