"""Every named constraint and trigger of the three apps' tables, each broken once in raw SQL.

A constraint without an entry here fails the walk. Rows are copies of good ones, changed in one
place, so that nothing but the constraint meant can refuse them.
"""

from __future__ import annotations

from collections.abc import Iterator
from datetime import timedelta
from itertools import product
from typing import Any

import pytest
from django.apps import apps
from django.db import DataError, IntegrityError, connections, models, transaction

from governance.models import CoreCandidate, EntityCandidate
from memory.models import (
    CoreFact,
    Entity,
    EntityMerge,
    IndexEntry,
    MemoryItem,
    MemoryItemVersion,
    RecallEntry,
    TenantModel,
)
from memory.rls import scoped_transaction
from tests.conftest import empty_tables
from tests.factories import (
    NOW,
)
from tests.isolation.worlds import World, insert_copy, make_world, read_row
from tests.threads.constraint_cases import CHECKS, KEPT
from threads.models import FINAL, Run, RunStatus, Thread
from threads.runs import end

# Broken in tests of their own below.
CHECKS_ELSEWHERE = {"entitymerge_of_two"}
ELSEWHERE = {
    "entitymerge_pair_uniq",
    "indexentry_chunk_uniq",
    "indexentry_fact_uniq",
    "indexentry_item_uniq",
}
MOVES = {
    "queued": {"running", "failed", "cancelled", "rejected"},
    "running": {"succeeded", "failed", "cancelled", "rejected"},
}
STATUSES = [str(status) for status in RunStatus]
ILLEGAL = [
    (old, new)
    for old, new in product(STATUSES, STATUSES)
    if old != new and new not in MOVES.get(old, set())
]
LEGAL = [(old, new) for old, after in MOVES.items() for new in sorted(after)]


def constraints(kind: type[models.BaseConstraint]) -> dict[str, type[models.Model]]:
    return {
        constraint.name: model
        for label in ("memory", "governance", "threads")
        for model in apps.get_app_config(label).get_models()
        for constraint in model._meta.constraints
        if isinstance(constraint, kind)
    }


ALL_CHECKS = constraints(models.CheckConstraint)
ALL_UNIQUES = constraints(models.UniqueConstraint)
FENCE_TARGETS = sorted(name for name in ALL_UNIQUES if name.endswith("_tenant_id_uniq"))


@pytest.fixture(scope="module")
def _world(django_db_setup: None, django_db_blocker: Any, superuser_url: str) -> Iterator[World]:
    with django_db_blocker.unblock():
        made = make_world()
    yield made
    with django_db_blocker.unblock():
        connections.close_all()
    empty_tables(superuser_url)


@pytest.fixture
def world(_world: World, django_db_blocker: Any) -> Iterator[World]:
    """A filled tenant inside a transaction of role maint that is undone."""
    with django_db_blocker.unblock(), transaction.atomic(using="maint"):
        yield _world
        transaction.set_rollback(True, using="maint")


def copy(world: World, model: Any, /, *, kept: tuple[str, ...] = (), **changes: Any) -> None:
    """Insert a copy of the tenant's first row of a table."""
    table = model._meta.db_table
    with transaction.atomic(using="maint"), connections["maint"].cursor() as cursor:
        row = read_row(cursor, table, model.walls.tenant, world.tenant.id)
        same = {name: row[name] for name in kept}
        insert_copy(cursor, model, row, **{**world.distinct(model), **same, **changes})


def test_every_constraint_has_its_case() -> None:
    assert ALL_CHECKS.keys() == CHECKS.keys() | CHECKS_ELSEWHERE
    assert ALL_UNIQUES.keys() == {*KEPT, *FENCE_TARGETS, *ELSEWHERE}


@pytest.mark.parametrize("name", CHECKS)
def test_check_broken_refused(world: World, name: str) -> None:
    model: Any = ALL_CHECKS[name]
    copy(world, model)
    with pytest.raises(IntegrityError, match=f'check constraint "{name}"'):
        copy(world, model, **{**_again(model), **CHECKS[name]})


def _again(model: Any) -> dict[str, Any]:
    """Keep the second copy of a test apart from its first."""
    changes: dict[str, dict[str, Any]] = {
        "memory_embeddingmodel": {"name": "third"},
        "threads_agent": {"name": "third"},
        "threads_provider": {"name": "third"},
        "threads_run": {"seq": 78},
        "threads_thread": {"external_key": "third"},
        "threads_message": {"position": 78},
        "memory_tenant": {"slug": "third"},
        "governance_corecandidate": {"fact_key": "third"},
        "governance_entitycandidate": {"term_key": "third"},
        "memory_behavioursample": {"sample_key": "third"},
        "memory_corefact": {"fact_key": "third"},
        "memory_entity": {"term_key": "third"},
        "memory_entityevent": {"day": NOW.date() + timedelta(days=2)},
        "memory_memoryitem": {"key": "third"},
        "memory_memoryitemversion": {"version": 78},
        "governance_apikey": {"prefix": "yy8yy8yy"},
    }
    return changes.get(model._meta.db_table, {})


@pytest.mark.parametrize("name", KEPT)
def test_unique_broken_refused(world: World, name: str) -> None:
    model: Any = ALL_UNIQUES[name]
    if name != "tenantpolicy_one_per_tenant":
        copy(world, model)
    fresh = _again(model)
    again = {key: value for key, value in fresh.items() if key not in KEPT[name]}
    with pytest.raises(IntegrityError, match=f'unique constraint "{name}"'):
        copy(world, model, kept=KEPT[name], **again)


@pytest.mark.parametrize("name", FENCE_TARGETS)
def test_id_taken_refused(world: World, name: str) -> None:
    """The target of composite keys: the same id again, in any tenant, is refused."""
    model: Any = ALL_UNIQUES[name]
    with pytest.raises(IntegrityError, match="duplicate key"):
        copy(world, model, kept=("id",))


@pytest.mark.parametrize(
    ("name", "again"),
    [
        ("job_dedupe_unfinished_uniq", {"status": "done"}),
        ("agent_active_name_uniq", {"is_active": False}),
        ("embeddingmodel_one_active", {"status": "retired"}),
        ("behavioursample_once", {"status": "retired", "decided_at": NOW}),
        ("corecandidate_fact_uniq", {"status": "confirmed", "decided_at": NOW}),
        ("corefact_holds_once", {"valid_to": NOW, "end_reason": "evicted"}),
        ("entitycandidate_term_uniq", {"status": "approved", "decided_at": NOW}),
        ("run_external_id_uniq", {"external_id": None}),
        ("thread_external_key_uniq", {"external_key": None}),
    ],
)
def test_partial_unique_lets_pass_what_it_leaves_out(
    world: World, name: str, again: dict[str, Any]
) -> None:
    """Finished jobs, retired agents and rows without an outside name repeat freely."""
    model: Any = ALL_UNIQUES[name]
    kept = tuple(column for column in KEPT[name] if column not in again)
    copy(world, model, kept=kept, **again)


def test_columns_refuse_what_does_not_fit(world: World) -> None:
    """Attack case 34: the reason names a column's type and no row's value."""
    with pytest.raises(DataError) as error:
        copy(world, Thread, title="x" * 201)
    assert "CNRY" not in str(error.value)
    with pytest.raises(IntegrityError, match="null value"):
        copy(world, Run, tenant_id=None)


def test_chunk_is_led_to_once(world: World) -> None:
    columns: dict[str, Any] = {
        "kind": "knowledge",
        "recall_id": None,
        "chunk_id": world.spares.chunk.pk,
    }
    copy(world, IndexEntry, **columns)
    with pytest.raises(IntegrityError, match='unique constraint "indexentry_chunk_uniq"'):
        copy(world, IndexEntry, **columns)


@pytest.mark.parametrize(
    ("kind", "column", "model"), [("item", "item_id", MemoryItem), ("core", "fact_id", CoreFact)]
)
def test_item_and_fact_are_led_to_once(
    world: World, kind: str, column: str, model: type[TenantModel]
) -> None:
    with connections["maint"].cursor() as cursor:
        led_to = read_row(cursor, model._meta.db_table, "tenant_id", world.tenant.id)["id"]
    columns: dict[str, Any] = {"kind": kind, "recall_id": None, "chunk_id": None, column: led_to}
    copy(world, IndexEntry, **columns)
    with pytest.raises(IntegrityError, match=f'unique constraint "indexentry_{column[:-3]}_uniq"'):
        copy(world, IndexEntry, **columns)


def test_merge_is_of_two_entities_and_proposed_once(world: World) -> None:
    with connections["maint"].cursor() as cursor:
        row = read_row(cursor, "memory_entitymerge", "tenant_id", world.tenant.id)
    with pytest.raises(IntegrityError, match='check constraint "entitymerge_of_two"'):
        copy(world, EntityMerge, source_id=row["target_id"])
    with pytest.raises(IntegrityError, match='unique constraint "entitymerge_pair_uniq"'):
        copy(world, EntityMerge, status=row["status"])
    copy(world, EntityMerge, status="undone")


# What is learned demands a succeeded run, and what takes effect somebody's decision.


@pytest.mark.req("B13", "B21")
@pytest.mark.parametrize("status", [status for status in STATUSES if status != "succeeded"])
@pytest.mark.parametrize("model", [MemoryItem, MemoryItemVersion, CoreFact, CoreCandidate])
def test_run_that_has_not_succeeded_teaches_nothing(world: World, model: Any, status: str) -> None:
    run_id = put(world, status)
    with pytest.raises(IntegrityError, match="only a succeeded run teaches"):
        copy(world, model, run_id=run_id)


@pytest.mark.req("B13")
@pytest.mark.parametrize("model", [MemoryItem, MemoryItemVersion, CoreFact, CoreCandidate])
def test_run_teaches_about_its_own_person_only(world: World, model: Any) -> None:
    with pytest.raises(IntegrityError, match="only a succeeded run teaches"):
        copy(world, model, run_id=world.people[1].run.pk)
    with pytest.raises(IntegrityError, match="only a succeeded run teaches"):
        copy(world, model, run_id="run_gone")


@pytest.mark.req("A19")
@pytest.mark.parametrize("status", ["pending", "rejected"])
def test_fact_needs_a_confirmed_candidate_of_its_person(world: World, status: str) -> None:
    decided_at = None if status == "pending" else NOW
    copy(world, CoreCandidate, status=status, decided_at=decided_at, id="ccand_probe")
    for candidate_id in ("ccand_probe", None, "ccand_gone"):
        with pytest.raises(IntegrityError, match="a fact needs a confirmed candidate"):
            copy(world, CoreFact, candidate_id=candidate_id)
    other = world.people[1].row.pk
    with pytest.raises(IntegrityError, match="a fact needs a confirmed candidate"):
        copy(world, CoreFact, end_user_id=other, run_id=None, origin="api")


@pytest.mark.req("D11")
def test_entity_needs_an_approved_candidate(world: World) -> None:
    copy(world, EntityCandidate, id="ecand_probe")
    for candidate_id in ("ecand_probe", None, "ecand_gone"):
        with pytest.raises(IntegrityError, match="an entity needs an approved candidate"):
            copy(world, Entity, candidate_id=candidate_id)


# What a recall entry demands of its run.


@pytest.mark.req("B13", "B21")
@pytest.mark.parametrize("status", [status for status in STATUSES if status != "succeeded"])
def test_run_that_has_not_succeeded_is_not_recalled(world: World, status: str) -> None:
    run_id = put(world, status)
    with pytest.raises(IntegrityError, match="only a succeeded run is recalled"):
        copy(world, RecallEntry, run_id=run_id, thread_id=world.people[0].thread.pk)


@pytest.mark.req("B13")
def test_run_is_recalled_for_its_own_thread_and_person_only(world: World) -> None:
    first, second = world.people
    copy(world, RecallEntry)
    wrong: list[dict[str, Any]] = [
        {"thread_id": first.thread.pk},
        {"end_user_id": second.row.pk},
        {"run_id": "run_gone"},
        {"run_id": second.fresh_run.pk},
    ]
    for columns in wrong:
        with pytest.raises(IntegrityError, match="only a succeeded run is recalled"):
            copy(world, RecallEntry, **columns)


def test_recall_entry_is_never_changed(world: World) -> None:
    with (
        pytest.raises(IntegrityError, match="a recall entry is never changed"),
        transaction.atomic(using="maint"),
        connections["maint"].cursor() as cursor,
    ):
        cursor.execute(
            "UPDATE memory_recallentry SET said = said WHERE tenant_id = %s", [world.tenant.pk]
        )


# The state machine of runs.


def put(world: World, status: str) -> str:
    """Insert a run of this status, as an import could have, and return its id."""
    is_open = status in ("queued", "running")
    with connections["maint"].cursor() as cursor:
        row = read_row(cursor, "threads_run", "tenant_id", world.tenant.id)
        changes = {
            "origin": "api",
            "status": status,
            "finished_at": None if is_open else NOW,
            "lease_until": NOW,
            "id": f"run_probe_{status}",
        }
        insert_copy(cursor, Run, row, **changes)
    return f"run_probe_{status}"


def move(run_id: str, **columns: Any) -> None:
    changes = ", ".join(f"{name} = %s" for name in columns)
    with transaction.atomic(using="maint"), connections["maint"].cursor() as cursor:
        cursor.execute(
            f"UPDATE threads_run SET {changes} WHERE id = %s", [*columns.values(), run_id]
        )
        assert cursor.rowcount == 1


@pytest.mark.req("B13")
@pytest.mark.parametrize(("old", "new"), ILLEGAL)
def test_run_illegal_move_refused_by_the_database(world: World, old: str, new: str) -> None:
    run_id = put(world, old)
    with pytest.raises(IntegrityError, match=f"a run can not go from {old} to {new}"):
        move(run_id, status=new, finished_at=NOW, lease_until=NOW)


@pytest.mark.req("B13")
@pytest.mark.parametrize(("old", "new"), LEGAL)
def test_run_legal_move_passes(world: World, old: str, new: str) -> None:
    move(put(world, old), status=new, finished_at=NOW, lease_until=NOW)


def test_state_machine_is_whole() -> None:
    assert len(ILLEGAL) + len(LEGAL) == len(STATUSES) * (len(STATUSES) - 1)
    assert {str(status) for status in FINAL} == set(STATUSES) - MOVES.keys()


@pytest.mark.req("B13")
@pytest.mark.parametrize("status", sorted(FINAL))
def test_run_of_credence_can_not_be_born_final(world: World, status: str) -> None:
    """Write-back goes by "succeeded": nobody inserts a run that claims to be."""
    with pytest.raises(IntegrityError, match="a run starts queued or running"):
        copy(world, Run, origin="run", status=status)
    copy(world, Run, origin="import", status=status)


@pytest.mark.req("A05")
@pytest.mark.parametrize("column", ["seq", "thread_id", "end_user_id", "origin"])
def test_run_keeps_its_place(world: World, column: str) -> None:
    run_id = put(world, "running")
    person = world.people[1]
    values: dict[str, Any] = {
        "seq": 99,
        "thread_id": world.people[0].spare_thread.id,
        "end_user_id": person.row.id,
        "origin": "run",
    }
    with pytest.raises(IntegrityError, match="a run keeps its place"):
        move(run_id, **{column: values[column]})


@pytest.mark.req("B13")
def test_ended_run_is_not_ended_again(world: World) -> None:
    """The product's own road stops at a final state before the trigger has to."""
    run = world.people[0].run
    scope = world.scope(0)
    with scoped_transaction(scope):
        assert not end(scope=scope, run_id=run.id, status=RunStatus.CANCELLED, now=NOW)
        assert Run.objects.in_scope(scope).get(pk=run.id).status == "succeeded"
