"""A small tenant beside a large one: complete answers, and never the other's (attacks 13, 14; C11)."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import numpy as np
import pytest

from memory.retrieval.results import Retrieval
from tests.benchmarks.recall_rows import drop_pool, fill, make_pool
from tests.factories import make_tenant
from tests.shelving import SETTINGS, Person, ask, make_model, make_person, query_of, shelve

pytestmark = pytest.mark.req("B18")


@pytest.fixture
def pool_url(committed_db: None, superuser_url: str) -> Iterator[str]:
    yield superuser_url
    drop_pool(superuser_url)


def top(person: Person, model_id: str, vector: np.ndarray, exact_rows: int) -> Retrieval:
    settings = replace(SETTINGS, exact_rows=exact_rows)
    query = query_of("red tea", vector=vector, model_id=model_id, settings=settings)
    return ask(person.scope, replace(query, limit=20, min_relevance=0.0))


@pytest.mark.parametrize(
    ("people", "each"),
    [(10, 2_000), pytest.param(40, 5_000, marks=pytest.mark.slow)],
)
@pytest.mark.timeout(600)
def test_cases_13_and_14_crowd_beside_a_small_tenant_changes_nothing(
    pool_url: str, people: int, each: int
) -> None:
    """Bug report C11: 200 rows beside 20,000 (200,000 in the slow form), the question's
    near-duplicates among them."""
    small = make_person()
    model = make_model(small.tenant, 512)
    texts = [f"red tea {place}" for place in range(200)]
    shelve(small, texts, model=model)
    pool = make_pool(pool_url, count=each)
    vector = pool.vectors[3]
    before = [top(small, model.id, vector, rows) for rows in (20_000, 100)]
    crowded = make_tenant()
    crowd = make_model(crowded, 512)
    fill(pool_url, tenant=crowded.id, model=crowd.id, first=1, people=people, each=each)
    after = [top(small, model.id, vector, rows) for rows in (20_000, 100)]
    for found in (*before, *after):
        assert len(found.hits) == 20
    for one, other in zip(before, after, strict=True):
        assert [hit.id for hit in one.hits] == [hit.id for hit in other.hits]
    wanted = {hit.id for hit in after[0].hits}
    assert len(wanted & {hit.id for hit in after[1].hits}) >= 19
