"""How long a search takes beside bare SQL on the same rows, and what a growing tenant adds.

`make bench TESTARGS="-k recall_speed"`. Tenants of 100,000 memories and, with
CREDENCE_BENCH_MEMORIES=1000000 (about five minutes), as many as that says. The embedding of the
question is not in the figures: its vector is given.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from statistics import median
from typing import Any

import psycopg
import pytest
from django.db import connection

from memory.models import EmbeddingModel, Tenant
from memory.models.base import Walls
from memory.retrieval.copies import process_cache
from memory.retrieval.results import RecallQuery
from memory.retrieval.search import search
from memory.retrieval.words import words_of
from memory.rls import policy_sql, scoped_transaction
from memory.scope import Scope
from tests.benchmarks import recall_rows
from tests.benchmarks.recall_rows import Pool
from tests.factories import NOW, make_tenant
from tests.shelving import SETTINGS, make_model

pytestmark = [
    pytest.mark.bench,
    pytest.mark.filterwarnings("ignore"),
    pytest.mark.timeout(1_800),
]
EACH = 5_000
MOST = int(os.environ.get("CREDENCE_BENCH_MEMORIES", "100000"))
ROUNDS = 40
_NEAREST = """
    SELECT id, said FROM bench_plain WHERE tenant_id = %s AND end_user_id = %s
    ORDER BY vector <=> %s::halfvec(512) LIMIT 20
"""
_KEYWORDS = """
    SELECT id, said FROM bench_plain
    WHERE tenant_id = %s AND end_user_id = %s AND terms @@ %s::tsquery
    ORDER BY ts_rank(terms, %s::tsquery) DESC LIMIT 20
"""


@dataclass(frozen=True)
class House:
    """A tenant with people of 5,000 turns each, and the pool these are of."""

    url: str
    tenant: Tenant
    model: EmbeddingModel
    pool: Pool


@pytest.fixture
def house(committed_db: None, superuser_url: str) -> Iterator[House]:
    tenant = make_tenant()
    model = make_model(tenant, 512)
    made = House(superuser_url, tenant, model, recall_rows.make_pool(superuser_url, count=EACH))
    process_cache().clear()
    yield made
    process_cache().clear()
    recall_rows.drop_pool(superuser_url)


def fill(house: House, *, first: int, people: int, each: int = EACH) -> None:
    recall_rows.fill(
        house.url,
        tenant=house.tenant.id,
        model=house.model.id,
        first=first,
        people=people,
        each=each,
    )


def fill_plain(house: House, *groups: tuple[int, int, int]) -> None:
    """What somebody without us would have: one table, behind the same walls, indexed.

    Each group is the number of its first person, how many people, and how many turns each has.
    """
    with psycopg.connect(house.url, autocommit=True) as superuser:
        superuser.execute(recall_rows.PLAIN)
        for first, people, each in groups:
            values = {"first": first, "last": first + people - 1, "each": each}
            superuser.execute(recall_rows.PLAIN_ROWS, values | {"tenant": house.tenant.id})
        superuser.execute("CREATE INDEX ON bench_plain (tenant_id, end_user_id)")
        superuser.execute("CREATE INDEX ON bench_plain USING gin (terms)")
        for statement in policy_sql(table="bench_plain", walls=Walls(user="end_user_id")):
            superuser.execute(statement)
        superuser.execute("VACUUM ANALYZE bench_plain")


def scope_of_person(house: House, number: int) -> Scope:
    return Scope(
        tenant_ids=(house.tenant.id,),
        principal_id="bench",
        user_id=recall_rows.person_id(number),
    )


def queries(house: House, count: int = ROUNDS) -> list[RecallQuery]:
    """Questions of five words of some turn, with that turn's vector a little moved."""
    found = []
    for place in range(count):
        at = place * 11 % 500
        found.append(
            RecallQuery(
                text=" ".join(house.pool.texts[at].split()[:5]),
                vector=house.pool.vectors[at],
                model_id=house.model.id,
                now=NOW,
                settings=SETTINGS,
            )
        )
    return found


@dataclass(frozen=True)
class Spent:
    """Milliseconds of a step: the median, and the least, which other work on the machine spares."""

    median: float
    least: float

    def __str__(self) -> str:
        return f"{self.median:.2f} ms (least {self.least:.2f})"


def timed(step: Callable[[Any], object], given: list[Any]) -> Spent:
    """Time a step once for each of what it is given."""
    spent = []
    for one in given:
        started = time.perf_counter()
        step(one)
        spent.append((time.perf_counter() - started) * 1000)
    return Spent(median(spent), min(spent))


def ours(scope: Scope) -> Callable[[RecallQuery], object]:
    def step(query: RecallQuery) -> object:
        with scoped_transaction(scope):
            found = search(scope=scope, query=query)
        assert found.hits
        assert not found.trace.degraded
        return found

    return step


def cold(scope: Scope) -> Callable[[RecallQuery], object]:
    def step(query: RecallQuery) -> object:
        process_cache().clear()
        return ours(scope)(query)

    return step


def bare(scope: Scope) -> Callable[[RecallQuery], object]:
    """The two statements somebody would write by hand, in the same scope."""

    def step(query: RecallQuery) -> object:
        assert query.vector is not None
        listed = "[" + ",".join(f"{x:.5g}" for x in query.vector.tolist()) + "]"
        words = " | ".join(words_of(query.text))
        with scoped_transaction(scope), connection.cursor() as cursor:
            cursor.execute(_NEAREST, [scope.tenant_id, scope.user_id, listed])
            found = cursor.fetchall()
            cursor.execute(_KEYWORDS, [scope.tenant_id, scope.user_id, words, words])
            return found + cursor.fetchall()

    return step


def stages(scope: Scope, given: list[RecallQuery]) -> str:
    """The median of each stage in ms."""
    traces = []
    for query in given:
        with scoped_transaction(scope):
            traces.append(search(scope=scope, query=query).trace.stages_ms)
    return " ".join(f"{name} {median(t[name] for t in traces):.2f}" for name in traces[0])


def report(capsys, *lines: str) -> None:
    with capsys.disabled():
        print()
        for line in lines:
            print(line)


def side_by_side(house: House, capsys, *, name: str, first: int) -> None:
    scope, given = scope_of_person(house, first), queries(house)
    ours(scope)(given[0])
    bare(scope)(given[0])
    warm, by_hand, unread = (
        timed(ours(scope), given),
        timed(bare(scope), given),
        timed(cold(scope), given[:10]),
    )
    report(
        capsys,
        f"{name}: warm {warm}, cold {unread}, bare SQL {by_hand},"
        f" warm / bare {warm.median / by_hand.median:.2f} ({warm.least / by_hand.least:.2f})",
        f"  stages (ms): {stages(scope, given)}",
    )


def test_recall_speed_beside_bare_sql(house, capsys):
    """(a) one of 20 people of 5,000; (b) people of 590 turns in the same tenant."""
    fill(house, first=1, people=20)
    fill(house, first=101, people=5, each=590)
    fill_plain(house, (1, 20, EACH), (101, 5, 590))
    side_by_side(house, capsys, name="5,000 of 100,000", first=3)
    side_by_side(house, capsys, name="590 of 100,000", first=103)


def test_recall_speed_while_the_tenant_grows(house, capsys):
    """(c) the same person's search while the tenant grows tenfold, or as far as MOST."""
    scope, given = scope_of_person(house, 1), queries(house)
    sizes = (MOST // 10, MOST)
    spent, people = [], 0
    for size in sizes:
        fill(house, first=people + 1, people=size // EACH - people)
        people = size // EACH
        ours(scope)(given[0])
        spent.append((timed(ours(scope), given), timed(cold(scope), given[:10])))
        report(capsys, f"tenant of {size:,}: warm {spent[-1][0]}, cold {spent[-1][1]}")
    (warm, unread), (last_warm, last_unread) = spent
    report(
        capsys,
        f"growth: warm x {last_warm.median / warm.median:.2f}"
        f" (least x {last_warm.least / warm.least:.2f}),"
        f" cold x {last_unread.median / unread.median:.2f}",
    )


def test_recall_speed_beside_a_crowd(house, capsys):
    """(d) attack 13: a tenant of 200 rows beside the crowd gets its twenty, as fast as before."""
    fill(house, first=1, people=MOST // EACH)
    small = make_tenant()
    model = make_model(small, 512)
    recall_rows.fill(house.url, tenant=small.id, model=model.id, first=9_001, people=1, each=200)
    scope = Scope(
        tenant_ids=(small.id,), principal_id="bench", user_id=recall_rows.person_id(9_001)
    )
    found = []
    for query in queries(house):
        asked = replace(query, model_id=model.id, limit=20, min_relevance=0.0)
        started = time.perf_counter()
        with scoped_transaction(scope):
            hits = search(scope=scope, query=asked).hits
        found.append((len(hits), (time.perf_counter() - started) * 1000))
    report(
        capsys,
        f"200 rows beside {MOST:,}: fewest hits {min(count for count, _ in found)} of 20,"
        f" median {median(ms for _, ms in found):.2f} ms",
    )
