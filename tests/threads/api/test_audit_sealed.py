"""`GET /v1/audit`: each row says whether the chain has it."""

from __future__ import annotations

from governance.sealing import seal_pending
from tests.factories import NOW
from tests.threads.api.client import Place, make_place


def sealed_of(place: Place) -> dict[str, bool]:
    rows = place.api.get("/v1/audit").json()["results"]
    return {row["id"]: row["sealed"] for row in rows}


def test_rows_turn_sealed_when_the_sealer_was_there(committed_db: None) -> None:
    one, other = make_place("A"), make_place("B")
    for place in (one, other):
        place.api.post("/v1/teams", {"name": "数学组", "members": ["老师"]})
        before = sealed_of(place)
        assert before
        assert not any(before.values())
    assert seal_pending(now=NOW) > 0
    for place in (one, other):
        assert all(sealed_of(place).values())
    old = set(sealed_of(one))
    one.api.post("/v1/teams", {"name": "second", "members": []})
    rows = sealed_of(one)
    assert {row_id for row_id, is_sealed in rows.items() if not is_sealed} == set(rows) - old
    assert set(rows) > old
    seal_pending(now=NOW)
    assert all(sealed_of(one).values())
