"""Rows of a person, of a team and of the whole tenant in one table: who sees which.

Both walls by themselves: querysets as the role that every policy lets through, and row-level
security against raw SQL without a condition.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any

import pytest
from django.db import IntegrityError, ProgrammingError, connection, connections, models, transaction

from memory.models import Team, TeamMember, Tenant
from memory.rls import scoped_transaction
from memory.scope import Scope
from tests.conftest import empty_tables
from tests.factories import make_end_user, make_tenant, scope_of
from tests.isolation.learned_rows import OWNED, item_of
from tests.isolation.recall_rows import fill_owner, make_model
from tests.isolation.worlds import dump, every_walled_model, insert_copy, read_row, rows_of

SHARED = [model for model in every_walled_model() if model.walls.team]  # type: ignore[attr-defined]
by_table = pytest.mark.parametrize("model", SHARED, ids=lambda model: model._meta.db_table)


@dataclass(frozen=True, slots=True, kw_only=True)
class Company:
    """A tenant with two people, each in a team of their own; rows of all five owners."""

    tenant: Tenant
    people: tuple[str, str]
    teams: tuple[str, str]

    def scope(self, *, teams: tuple[str, ...] = ()) -> Scope:
        """The first person's scope."""
        person = replace(scope_of(self.tenant), user_id=self.people[0])
        return replace(person, team_ids=teams)

    @property
    def everyone(self) -> set[tuple[str | None, str | None]]:
        """All owners, as (person, team)."""
        return {
            (None, None),
            *((person, None) for person in self.people),
            *((None, team) for team in self.teams),
        }


def make_company() -> Company:
    tenant = make_tenant()
    people = [make_end_user(tenant) for _ in range(2)]
    with scoped_transaction(scope_of(tenant)):
        teams = [Team.objects.create(tenant=tenant, name=f"team {n}") for n in range(2)]
        for person, team in zip(people, teams, strict=True):
            TeamMember.objects.create(tenant=tenant, team=team, end_user=person)
        model = make_model(tenant, "m")
        owners: list[dict[str, Any]] = [{}]
        owners += ({"end_user": person} for person in people)
        owners += ({"team": team} for team in teams)
        for owner in owners:
            fill_owner({"tenant": tenant, **owner}, model, f"{tenant.slug} ")
            if owner:
                item_of({"tenant": tenant, **owner}, f"{tenant.slug} ")
    return Company(
        tenant=tenant,
        people=(people[0].pk, people[1].pk),
        teams=(teams[0].pk, teams[1].pk),
    )


Companies = tuple[Company, Company]
Owners = set[tuple[str | None, str | None]]


@pytest.fixture(scope="module")
def _committed(
    django_db_setup: None, django_db_blocker: Any, superuser_url: str
) -> Iterator[Companies]:
    with django_db_blocker.unblock():
        made = (make_company(), make_company())
    yield made
    with django_db_blocker.unblock():
        connections.close_all()
    empty_tables(superuser_url)


@pytest.fixture
def companies(_committed: Companies, django_db_blocker: Any) -> Iterator[Companies]:
    with django_db_blocker.unblock():
        yield _committed


def owners(rows: list[dict[str, Any]]) -> Owners:
    return {(row["end_user_id"], row["team_id"]) for row in rows}


def expected(model: Any, owners: Owners) -> Owners:
    """The owners whose rows a table can hold."""
    return owners - {(None, None)} if model._meta.db_table in OWNED else owners


def by_queryset(model: type[models.Model], scope: Scope) -> list[dict[str, Any]]:
    """What the queryset lets through where no policy hides anything."""
    return list(rows_of(model, using="maint").in_scope(scope).values())


def by_policy(model: type[models.Model], scope: Scope) -> list[dict[str, Any]]:
    """What the policy lets through where no queryset asks."""
    with scoped_transaction(scope):
        return dump(model)


by_wall = pytest.mark.parametrize("look", [by_queryset, by_policy])


def test_seven_tables_are_shared() -> None:
    assert {model._meta.db_table for model in SHARED} >= {
        "memory_embedding",
        "memory_indexentry",
        "memory_knowledgechunk",
        "memory_knowledgedocument",
        "memory_memoryitem",
        "memory_memoryitemversion",
        "memory_shelf",
    }


@by_table
@by_wall
@pytest.mark.req("B17", "B18")
def test_person_sees_own_the_tenants_and_their_teams_rows(
    companies: Companies, model: Any, look: Any
) -> None:
    mine, _ = companies
    person, team = mine.people[0], mine.teams[0]
    assert owners(look(model, mine.scope())) == expected(model, {(person, None), (None, None)})
    with_team = owners(look(model, mine.scope(teams=(team,))))
    assert with_team == expected(model, {(person, None), (None, None), (None, team)})
    with_both = owners(look(model, mine.scope(teams=mine.teams)))
    assert with_both == expected(model, mine.everyone - {(mine.people[1], None)})


@by_table
@by_wall
@pytest.mark.req("B17", "B18")
def test_scope_without_a_person_sees_the_whole_tenant(
    companies: Companies, model: Any, look: Any
) -> None:
    for company in companies:
        found = owners(look(model, scope_of(company.tenant)))
        assert found == expected(model, company.everyone)


@by_table
@by_wall
@pytest.mark.req("B17", "B18")
def test_another_tenants_team_in_a_scope_opens_nothing(
    companies: Companies, model: Any, look: Any
) -> None:
    mine, other = companies
    rows = look(model, mine.scope(teams=other.teams))
    assert owners(rows) == expected(model, {(mine.people[0], None), (None, None)})
    assert {row["tenant_id"] for row in rows} == {mine.tenant.pk}


@by_table
@pytest.mark.req("B18")
@pytest.mark.parametrize("whose", ["another person", "another team"])
def test_person_can_write_no_row_of_others(companies: Companies, model: Any, whose: str) -> None:
    mine, _ = companies
    owner: dict[str, str | None] = (
        {"end_user_id": mine.people[1], "team_id": None}
        if whose == "another person"
        else {"end_user_id": None, "team_id": mine.teams[1]}
    )
    table = model._meta.db_table
    column, value = next((name, value) for name, value in owner.items() if value)
    with connections["maint"].cursor() as cursor:
        row = read_row(cursor, table, column, value)
    scope = mine.scope(teams=mine.teams[:1])
    with (
        pytest.raises((ProgrammingError, IntegrityError), match="row-level security"),
        scoped_transaction(scope),
        connection.cursor() as cursor,
    ):
        insert_copy(cursor, model, row)
    with scoped_transaction(scope), connection.cursor() as cursor:
        cursor.execute(f'UPDATE "{table}" SET tenant_id = tenant_id WHERE id = %s', [row["id"]])
        assert cursor.rowcount == 0
        cursor.execute(f'DELETE FROM "{table}" WHERE id = %s', [row["id"]])
        assert cursor.rowcount == 0
        transaction.set_rollback(True)
