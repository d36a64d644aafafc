"""Erasing everything of one person: all of theirs goes, and nothing of anybody else's."""

from __future__ import annotations

import psycopg
import pytest
from psycopg import sql

from governance.erasure.requests import preview
from governance.models.erasure import ErasureStatus
from memory.models import EndUser
from memory.rls import scoped_transaction
from tests.factories import scope_of
from tests.governance.erasure.scenes import clear_books, erase, fingerprints, rows_naming, values
from tests.isolation.worlds import World, make_world

pytestmark = pytest.mark.usefixtures("committed_db")


@pytest.fixture
def worlds(committed_db: None) -> tuple[World, World]:
    """Two tenants, each with two people and rows in every table."""
    found = make_world(), make_world()
    for world in found:
        clear_books(world)
    return found


def ids_of(world: World, number: int) -> str:
    person = world.people[number]
    mark = f"CNRY-{world.tenant.slug}-{number + 1}-|{person.row.pk}|{person.row.pk[-6:]} "
    return f"{mark}|{world.key.id}" if number == 0 else mark


def of_others(url: str, world: World) -> dict[str, str]:
    """Fingerprints of all that is not the first person's, nor their key's."""
    found = fingerprints(url, without=ids_of(world, 0))
    with psycopg.connect(url) as connection:
        for table in ("governance_tenantusergrant", "governance_agentusergrant"):
            rows = connection.execute(
                sql.SQL(
                    "SELECT t::text FROM {} AS t WHERE user_id NOT IN"
                    " (SELECT id FROM auth_user WHERE username = %s) ORDER BY 1"
                ).format(sql.Identifier(table)),
                [f"service:{world.key.id}"],
            )
            found[table] = repr(rows.fetchall())
    return found


@pytest.mark.req("B19")
@pytest.mark.req("E06")
def test_erasing_leaves_nothing_of_the_person_and_all_of_everybody_else(
    worlds: tuple[World, World], superuser_url: str
) -> None:
    """Bug report I7: all stores; two tenants and a stranger, bit for bit."""
    ours, theirs = worlds
    person = ours.people[0].row
    theirs_before = of_others(superuser_url, ours)
    done = erase(person)
    assert done.status == ErasureStatus.DONE, done.error_code
    # By ids alone, in the books that stay; the world wrote its mark for a model's name.
    left = rows_naming(superuser_url, f"CNRY-{ours.tenant.slug}-1-", person.pk)
    assert set(left) == {
        "governance_auditentry",
        "governance_disclosure",
        "governance_erasure",
        "governance_legalhold",
        "memory_memoryop",
    }
    assert of_others(superuser_url, ours) == theirs_before
    assert done.counts["messages"] == 2
    assert done.counts["persons"] == 1
    assert theirs.people[0].row.pk


def test_a_preview_counts_what_the_act_then_erases(
    worlds: tuple[World, World], superuser_url: str
) -> None:
    """Case 161: the same counts, and nothing written but an audit row."""
    person = worlds[0].people[0].row
    scope = scope_of(worlds[0].tenant)
    before = fingerprints(superuser_url, without="nothing at all is left out")
    told = preview(scope=scope, person=person, mode="all")
    assert fingerprints(superuser_url, without="nothing at all is left out") == before
    done = erase(person)
    assert {name: n for name, n in sorted(told.counts.items()) if n} == values(done)


def test_who_was_erased_is_found_no_more(worlds: tuple[World, World]) -> None:
    world = worlds[0]
    person = world.people[0].row
    erase(person)
    scope = scope_of(world.tenant)
    with scoped_transaction(scope):
        assert not EndUser.objects.in_scope(scope).filter(pk=person.pk).exists()
