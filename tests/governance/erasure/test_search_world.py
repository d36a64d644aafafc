"""I7: a person of a world with a row in every table is erased, and everything is searched."""

from __future__ import annotations

import pytest
from django.utils import timezone

from governance.erasure.verifying import verify_open
from tests.governance.erasure.scenes import clear_books, erase, read
from tests.governance.erasure.talks import failing
from tests.isolation.worlds import make_world


@pytest.mark.req("B19")
def test_search_after_erasing_a_person_with_a_row_in_every_table_finds_only_strays(
    committed_db: None,
) -> None:
    """I7: conversation, episodes, vectors, jobs, traces: every store is searched, and is empty."""
    world = make_world()
    make_world()
    clear_books(world)
    gone = erase(world.people[0].row)
    verify_open(now=timezone.now(), within_seconds=120)
    row = read(gone)
    # The world has two rows that nobody's erasure can know for the person's: a candidate without
    # any evidence that spells the person's term, and a model named as the person is.
    assert failing(row) == {("governance_entitycandidate", "term"), ("memory_memoryop", "model")}
    assert sum(row.receipt["search"]["needles"].values()) > 20
