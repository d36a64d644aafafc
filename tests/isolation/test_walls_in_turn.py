"""Each wall of DESIGN section 3 alone: what the others must hold is taken away first.

Attack cases 20, 22 and 32 of the isolation list, over every walled table there is: a model added
later is in here without a line, and fails until the worlds hold a row of it.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from django.db import IntegrityError, ProgrammingError, connection, connections, models, transaction

from governance.models import CoreCandidate
from memory.errors import ScopeError, UndecidedQueryError
from memory.ids import new_id
from memory.models import (
    CoreFact,
    EndUser,
    Entity,
    IndexEntry,
    MemoryItem,
    MemoryItemVersion,
    RecallEntry,
    Shelf,
)
from memory.rls import composite_keys, scoped_transaction
from memory.scope import Scope
from tests.isolation.conftest import Worlds
from tests.isolation.learned_rows import OWNED
from tests.isolation.worlds import (
    RolledBackError,
    World,
    dump,
    every_walled_model,
    insert_copy,
    read_row,
    rows_of,
    tenants_in,
)
from threads.models import Message, ThreadSummary

MODELS = every_walled_model()
FENCES = [(model, *key) for model in MODELS for key in composite_keys(model)]
# A trigger sees what row-level security shows and may refuse a row before the policy does.
HELD = (
    "only a succeeded run is recalled|only a succeeded run teaches|a fact needs a confirmed candidate"
    "|an entity needs an approved candidate"
)
REFUSED = f"new row violates row-level security policy|{HELD}"
REFUSALS = (ProgrammingError, IntegrityError)
# What is learned points where its run does, or its candidate: a trigger refuses anything else
# before the key.
HELD_BY_TRIGGER: dict[type[models.Model], frozenset[str]] = {
    RecallEntry: frozenset({"run_id", "thread_id", "end_user_id"}),
    MemoryItem: frozenset({"run_id", "end_user_id"}),
    MemoryItemVersion: frozenset({"run_id", "end_user_id"}),
    CoreCandidate: frozenset({"run_id", "end_user_id"}),
    CoreFact: frozenset({"run_id", "end_user_id", "candidate_id"}),
    Entity: frozenset({"candidate_id"}),
}
by_table = pytest.mark.parametrize("model", MODELS, ids=lambda model: model._meta.db_table)


@pytest.fixture
def rolled_back() -> Callable[..., Any]:
    """A transaction on an alias that is always undone."""

    class Undone(transaction.Atomic):
        def __exit__(self, *error: Any) -> None:
            super().__exit__(RolledBackError, RolledBackError(), None)

    return lambda using="default": Undone(using=using, savepoint=True, durable=False)


def seen_owners(world: World, model: Any) -> set[str | None]:
    """Whose rows the first person sees: their own, and where rows are shared, the tenant's."""
    own = world.people[0].row.id
    is_shared = model.walls.team and model._meta.db_table not in OWNED
    return {own, None} if is_shared else {own}


def sees(world: World, model: type[models.Model]) -> Scope:
    """The narrowest scope under which the first person's rows of a model are seen."""
    walls = model.walls  # type: ignore[attr-defined]
    thread = world.people[0].thread if walls.session else None
    return world.scope(0 if walls.user else None, thread=thread)


@by_table
@pytest.mark.req("B18")
def test_worlds_hold_rows_of_every_table_and_canaries_in_texts(worlds: Worlds, model: Any) -> None:
    """Without a row of A, "nothing of A is seen" would prove nothing."""
    rows = dump(model, using="maint")
    assert {world.tenant.id for world in worlds} <= tenants_in(model, rows)
    if model.personal:
        for world in worlds:
            own = [row for row in rows if row[model.walls.tenant] == world.tenant.id]
            assert world.mark in str(own)


# Wall 2 off: queries without a condition, in raw SQL and unscoped. Row-level security holds.


@by_table
@pytest.mark.req("B18")
@pytest.mark.req("B17")
def test_queryset_wall_off_row_level_security_hides(worlds: Worlds, model: Any) -> None:
    a, b, _ = worlds
    scope = sees(b, model)
    with scoped_transaction(scope):
        rows = dump(model)
        unscoped = list(rows_of(model).unscoped(reason="test: the wall is off"))
    assert tenants_in(model, rows) == {b.tenant.id}
    assert len(unscoped) == len(rows)
    assert a.mark not in str(rows)
    if model.walls.user:
        assert {row[model.walls.user] for row in rows} == seen_owners(b, model)
    if model.walls.session:
        assert {row[model.walls.session] for row in rows} == {b.people[0].thread.id}


@by_table
@pytest.mark.req("B18")
def test_queryset_wall_off_writes_reach_own_rows_only(
    worlds: Worlds, rolled_back: Any, model: Any
) -> None:
    """An UPDATE without a condition, and an INSERT and an UPDATE into the other tenant."""
    a, b, _ = worlds
    table, tenant = model._meta.db_table, model.walls.tenant
    with connections["maint"].cursor() as cursor:
        foreign = read_row(cursor, table, tenant, a.tenant.id)
    scope = sees(b, model)
    with rolled_back(), scoped_transaction(scope), connection.cursor() as cursor:
        with pytest.raises(REFUSALS, match=REFUSED), transaction.atomic():
            insert_copy(cursor, model, foreign)
        if getattr(model, "is_append_only", False) or model is RecallEntry:
            return
        cursor.execute(f'UPDATE "{table}" SET "{tenant}" = "{tenant}"')
        assert cursor.rowcount == len(dump(model))
        cursor.execute(
            f'UPDATE "{table}" SET "{tenant}" = "{tenant}" WHERE "{tenant}" = %s', [a.tenant.id]
        )
        assert cursor.rowcount == 0


# Wall 4 off: as role maint, whose policies show everything. The queryset holds.


@by_table
@pytest.mark.req("B18")
@pytest.mark.req("B17")
def test_row_level_security_off_queryset_hides(worlds: Worlds, model: Any) -> None:
    a, b, _ = worlds
    everything = rows_of(model, using="maint").unscoped(reason="test: all there is")
    rows = list(rows_of(model, using="maint").in_scope(sees(b, model)).values())
    assert rows
    assert len(rows) < everything.count()
    assert tenants_in(model, rows) == {b.tenant.id}
    assert a.mark not in str(rows)
    if model.walls.user:
        assert {row[model.walls.user] for row in rows} == seen_owners(b, model)
    if model.walls.session:
        assert {row[model.walls.session] for row in rows} == {b.people[0].thread.id}


# Walls 2 and 4 off: raw SQL as maint. The composite keys hold.


@pytest.mark.req("B18")
@pytest.mark.parametrize("fence", FENCES, ids=lambda fence: fence[1])
def test_both_off_row_over_the_fence_refused_by_its_key(
    worlds: Worlds, rolled_back: Any, fence: Any
) -> None:
    """The same row is taken with its own tenant's reference and refused with the other's."""
    a, b, _ = worlds
    model, name, column, other_table, other_column = fence
    with rolled_back("maint"), connections["maint"].cursor() as cursor:
        row = read_row(cursor, model._meta.db_table, "tenant_id", b.tenant.id)
        spare, foreign = (
            world.distinct(model).get(column) or _target(world, other_table) for world in (b, a)
        )
        own = spare or row[column]
        if foreign is None:
            foreign = read_row(cursor, other_table, "tenant_id", a.tenant.id)[other_column]
            own = own or read_row(cursor, other_table, "tenant_id", b.tenant.id)[other_column]
        if model is Shelf and other_table == "memory_enduser":
            own = _newcomer(cursor, own=row[column], world=b)
        with transaction.atomic(using="maint"):
            insert_copy(cursor, model, row, **_beside(b, model, column, own))
            cursor.execute("SET CONSTRAINTS ALL IMMEDIATE")
            transaction.set_rollback(True, using="maint")
        over = _beside(b, model, column, foreign)
        if column in HELD_BY_TRIGGER.get(model, ()):
            with pytest.raises(IntegrityError, match=HELD):
                insert_copy(cursor, model, row, **over)
            return
        with transaction.atomic(using="maint"):
            insert_copy(cursor, model, row, **over)
            with pytest.raises(IntegrityError, match=name):
                cursor.execute("SET CONSTRAINTS ALL IMMEDIATE")
            transaction.set_rollback(True, using="maint")


def _beside(world: World, model: Any, column: str, value: str | None) -> dict[str, str | None]:
    """The references of a copy that has `value` in one column and breaks no other rule."""
    changes = {**world.distinct(model), column: value}
    if column == "team_id" and model.walls.team:
        changes["end_user_id"] = None
    if column == "end_user_id" and model.walls.team:
        changes["team_id"] = None
    if kind := {"chunk_id": "knowledge", "item_id": "item", "fact_id": "core"}.get(column):
        changes |= {"kind": kind, "recall_id": None} if model is IndexEntry else {}
    if column == "merged_into_id":
        changes |= {"status": "merged"}
    return changes


def _newcomer(cursor: Any, *, own: str, world: World) -> str:
    """A person of the tenant who has no shelf yet."""
    row = read_row(cursor, "memory_enduser", "id", own)
    newcomer = new_id("usr")
    insert_copy(cursor, EndUser, row, id=newcomer, user_id=f"{world.mark}newcomer")
    return newcomer


def _target(world: World, table: str) -> str | None:
    """The row to point at: a spare one where the table that points has one row a target."""
    spare = {
        "threads_thread": world.people[0].spare_thread.id,
        "threads_run": world.people[0].spare_run.id,
        "memory_team": world.spare_team.id,
        "memory_knowledgechunk": world.spares.chunk.id,
    }
    return spare.get(table)


def test_fences_are_those_of_the_design() -> None:
    """The list is made by a function; one that forgot a table would test nothing."""
    assert len(FENCES) >= 26
    names = {fence[1] for fence in FENCES}
    assert {
        "message_run_id_same_tenant",
        "thread_end_user_id_same_tenant",
        "agent_memory_fallback_provider_id_same_tenant",
        "apikey_agent_id_same_tenant",
        "job_thread_id_same_tenant",
    } <= names


# No scope at all.


@by_table
@pytest.mark.req("B18")
def test_no_scope_no_rows_and_no_inserts(worlds: Worlds, rolled_back: Any, model: Any) -> None:
    """Attack case 32: a shell or a command that forgot. Also after a scope was set and ended."""
    with connections["maint"].cursor() as cursor:
        row = read_row(cursor, model._meta.db_table, model.walls.tenant, worlds[1].tenant.id)
    with scoped_transaction(sees(worlds[1], model)):
        assert dump(model)
    assert dump(model) == []
    with rolled_back(), connection.cursor() as cursor:
        assert dump(model) == []
        with pytest.raises(REFUSALS, match=REFUSED), transaction.atomic():
            insert_copy(cursor, model, row)
    with pytest.raises(UndecidedQueryError):
        list(rows_of(model).all())


# Inside a tenant: the user wall and the session wall.


@pytest.mark.req("B18")
@pytest.mark.req("B17")
@pytest.mark.parametrize(
    "model",
    [model for model in MODELS if model.walls.user],  # type: ignore[attr-defined]
    ids=lambda model: model._meta.db_table,
)
def test_user_wall_hides_and_refuses_the_other_person(
    worlds: Worlds, rolled_back: Any, model: Any
) -> None:
    _, b, _ = worlds
    _, second = b.people
    walls = model.walls
    with connections["maint"].cursor() as cursor:
        row = read_row(cursor, model._meta.db_table, walls.user, second.row.id)
    thread = second.thread if walls.session else None
    with (
        rolled_back(),
        scoped_transaction(b.scope(0, thread=thread)),
        connection.cursor() as cursor,
    ):
        assert second.row.id not in {seen[walls.user] for seen in dump(model)}
        assert "-2-" not in str(dump(model))
        with pytest.raises(REFUSALS, match=REFUSED), transaction.atomic():
            insert_copy(cursor, model, row)
    found = rows_of(model, using="maint").in_scope(b.scope(0, thread=thread))
    assert second.row.id not in set(found.values_list(walls.user, flat=True))


@pytest.mark.req("B18")
@pytest.mark.req("A05")
def test_session_wall_hides_summary_from_same_persons_other_thread(worlds: Worlds) -> None:
    _, b, _ = worlds
    person = b.people[0]
    own = b.scope(0, thread=person.thread)
    with scoped_transaction(own):
        assert [row["thread_id"] for row in dump(ThreadSummary)] == [person.thread.id]
    for scope in (b.scope(0, thread=person.spare_thread), b.scope(0), b.scope()):
        with scoped_transaction(scope):
            assert dump(ThreadSummary) == []
    for scope in (b.scope(0), b.scope()):
        with pytest.raises(ScopeError):
            rows_of(ThreadSummary, using="maint").in_scope(scope)
    other = rows_of(ThreadSummary, using="maint").in_scope(b.scope(0, thread=person.spare_thread))
    assert other.count() == 0
    with scoped_transaction(b.scope(0)):
        assert {row["thread_id"] for row in dump(Message)} == {person.thread.id}


# A scope never outlives its transaction.


@by_table
@pytest.mark.req("B18")
def test_staff_scope_over_two_tenants_sees_exactly_both(worlds: Worlds, model: Any) -> None:
    a, b, stranger = worlds
    both = Scope(tenant_ids=(a.tenant.id, b.tenant.id), principal_id="staff:1")
    with scoped_transaction(both):
        rows = dump(model)
        if model.walls.session:
            assert rows == []
            return
        found = list(rows_of(model).in_scope(both).values())
    assert tenants_in(model, rows) == {a.tenant.id, b.tenant.id}
    assert tenants_in(model, found) == {a.tenant.id, b.tenant.id}
    assert len(found) == len(rows)
    assert stranger.mark not in str(rows)
