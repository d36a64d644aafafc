"""Writing the index: shelves, entries, vectors, and what a copy of a shelf can tell by two numbers."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
import pytest
from django.db import IntegrityError

from memory import store
from memory.cleared import Cleared
from memory.errors import NotFoundError, ScopeError
from memory.models import Embedding, EmbeddingModel, IndexEntry, RecallEntry, Shelf, Tenant
from memory.models.tenancy import EndUser
from memory.retrieval.codes import Vector, code_of
from memory.rls import scoped_transaction
from memory.scope import Scope
from memory.store import NewEntry, NewRecall, NewVector, Origin, Owner
from tests.factories import (
    NOW,
    make_agent,
    make_end_user,
    make_run,
    make_tenant,
    make_thread,
    scope_of,
)
from threads.models import Thread

pytestmark = pytest.mark.django_db


@dataclass
class World:
    """A person with a thread, and the scope of their worker."""

    tenant: Tenant
    person: EndUser
    thread: Thread
    scope: Scope

    @property
    def owner(self) -> Owner:
        return Owner(end_user_id=self.person.pk)

    def turns(self, count: int) -> list[NewRecall]:
        return [
            NewRecall(
                run_id=make_run(self.thread).pk,
                said=Cleared(text=f"question {number}", tier="observed"),
                answered=None,
                tier="observed",
                said_at=NOW,
            )
            for number in range(count)
        ]

    def recalled(self, count: int) -> list[NewEntry]:
        """That many turns recalled, and entries that lead to them."""
        turns = self.turns(count)
        origin = Origin(
            end_user_id=self.person.pk, thread_id=self.thread.pk, agent_id=self.thread.agent_id
        )
        with scoped_transaction(self.scope):
            ids = store.add_recall(scope=self.scope, origin=origin, turns=turns, now=NOW)
        return [
            NewEntry(
                kind="recall", recall_id=ids[turn.run_id], packed=b"-", tier="observed", as_of=NOW
            )
            for turn in turns
        ]

    def add(self, entries: list[NewEntry]) -> list[str]:
        with scoped_transaction(self.scope):
            return store.add_entries(scope=self.scope, owner=self.owner, entries=entries, now=NOW)

    def shelf(self) -> Shelf:
        with scoped_transaction(self.scope):
            return Shelf.objects.in_scope(self.scope).get(end_user_id=self.person.pk)

    def model(self, dimensions: int = 4) -> str:
        with scoped_transaction(self.scope):
            return str(
                EmbeddingModel.objects.create(
                    tenant=self.tenant, kind="usem3", name=f"m{dimensions}", dimensions=dimensions
                ).pk
            )

    def put(self, model_id: str, *vectors: NewVector) -> int:
        shelf_id = self.shelf().pk
        with scoped_transaction(self.scope):
            return store.put_vectors(
                scope=self.scope, shelf_id=shelf_id, model_id=model_id, vectors=vectors, now=NOW
            )

    def vector_of(self, entry_id: str) -> Embedding:
        with scoped_transaction(self.scope):
            return Embedding.objects.in_scope(self.scope).get(entry_id=entry_id)


@pytest.fixture
def world() -> World:
    return make_world()


def make_world() -> World:
    tenant = make_tenant()
    person = make_end_user(tenant)
    thread = make_thread(make_agent(tenant), person)
    scope = replace(scope_of(tenant, person), principal_id="worker")
    return World(tenant, person, thread, scope)


def vector(*numbers: float) -> Vector:
    return np.array(numbers, dtype=np.float32)


def test_ensure_shelf_called_twice_returns_one_shelf_an_owner(world: World) -> None:
    wide = scope_of(world.tenant)
    with scoped_transaction(wide):
        shelves = [
            store.ensure_shelf(scope=wide, owner=owner)
            for owner in (world.owner, world.owner, Owner(), Owner())
        ]
        assert Shelf.objects.in_scope(wide).count() == 2
    assert shelves[0] == shelves[1] != shelves[2] == shelves[3]


def test_ensure_shelf_of_another_person_is_refused(world: World) -> None:
    other = make_end_user(world.tenant)
    with pytest.raises(Exception, match="row-level security"), scoped_transaction(world.scope):
        store.ensure_shelf(scope=world.scope, owner=Owner(end_user_id=other.pk))


def test_owner_with_person_and_team_is_refused() -> None:
    with pytest.raises(ScopeError):
        Owner(end_user_id="usr_1", team_id="team_1")


def test_add_entries_raises_the_version_and_not_the_generation(world: World) -> None:
    first, second = world.add(world.recalled(2)), world.add(world.recalled(1))
    assert (len(first), len(second)) == (2, 1)
    shelf = world.shelf()
    assert (shelf.version, shelf.generation) == (2, 0)
    with scoped_transaction(world.scope):
        rows = IndexEntry.objects.in_scope(world.scope).order_by("version", "id")
        assert [(row.pk, row.version) for row in rows] == [
            (first[0], 1),
            (first[1], 1),
            (second[0], 2),
        ]
        assert {row.end_user_id for row in rows} == {world.person.pk}


def test_add_entries_repeated_adds_nothing(world: World) -> None:
    entries = world.recalled(3)
    assert len(world.add(entries[:2])) == 2
    assert len(world.add(entries)) == 1
    assert world.add(entries) == []
    assert world.add([]) == []


def test_add_recall_repeated_adds_nothing(world: World) -> None:
    turns = world.turns(2)
    origin = Origin(
        end_user_id=world.person.pk, thread_id=world.thread.pk, agent_id=world.thread.agent_id
    )
    with scoped_transaction(world.scope):
        first = store.add_recall(scope=world.scope, origin=origin, turns=turns[:1], now=NOW)
        second = store.add_recall(scope=world.scope, origin=origin, turns=turns, now=NOW)
        assert RecallEntry.objects.in_scope(world.scope).count() == 2
    assert set(first) | set(second) == {turn.run_id for turn in turns}
    assert not set(first) & set(second)


@pytest.mark.req("B13", "B21")
@pytest.mark.parametrize("status", ["failed", "cancelled", "rejected"])
def test_add_recall_of_an_unsuccessful_run_is_refused(world: World, status: str) -> None:
    run = make_run(world.thread, status=status)
    turn = NewRecall(
        run_id=run.pk,
        said=Cleared(text="q", tier="observed"),
        answered=None,
        tier="observed",
        said_at=NOW,
    )
    origin = Origin(
        end_user_id=world.person.pk, thread_id=world.thread.pk, agent_id=world.thread.agent_id
    )
    with pytest.raises(IntegrityError, match="only a succeeded"), scoped_transaction(world.scope):
        store.add_recall(scope=world.scope, origin=origin, turns=[turn], now=NOW)


def test_put_vectors_stores_unit_vectors_of_the_entries_owner(world: World) -> None:
    entry_id = world.add(world.recalled(1))[0]
    assert world.put(world.model(), NewVector(entry_id=entry_id, vector=vector(3, 0, 4, 0))) == 1
    stored = world.vector_of(entry_id)
    assert (stored.status, stored.attempts, stored.end_user_id) == ("ready", 1, world.person.pk)
    assert np.allclose(list(stored.vector), [0.6, 0, 0.8, 0], atol=1e-3)
    assert bytes(stored.code or b"") == code_of(vector(0.6, 0, 0.8, 0))
    shelf = world.shelf()
    assert (stored.version, shelf.version, shelf.generation) == (2, 2, 0)


@pytest.mark.parametrize(
    ("given", "error_code", "expected"),
    [
        (None, "", "embedding_failed"),
        (None, "provider_timeout", "provider_timeout"),
        (vector(1, 0, 0), "", "wrong_length"),
        (vector(0, 0, 0, 0), "", "not_a_direction"),
        (vector(float("nan"), 0, 0, 1), "", "not_a_direction"),
        (vector(float("inf"), 0, 0, 1), "", "not_a_direction"),
    ],
)
def test_put_vectors_that_are_no_good_are_stored_as_failed(
    world: World, given: Vector | None, error_code: str, expected: str
) -> None:
    entry_id = world.add(world.recalled(1))[0]
    model_id = world.model()
    failed = NewVector(entry_id=entry_id, vector=given, error_code=error_code)
    for attempts in (1, 2):
        assert world.put(model_id, failed) == 1
        stored = world.vector_of(entry_id)
        assert (stored.status, stored.attempts) == ("failed", attempts)
        assert (stored.error_code, stored.vector, stored.code) == (expected, None, None)
    world.put(model_id, NewVector(entry_id=entry_id, vector=vector(0, 1, 0, 0)))
    stored = world.vector_of(entry_id)
    assert (stored.status, stored.attempts, stored.error_code) == ("ready", 3, "")


def test_put_vectors_that_fail_later_leave_a_good_one(world: World) -> None:
    entry_id = world.add(world.recalled(1))[0]
    model_id = world.model()
    world.put(model_id, NewVector(entry_id=entry_id, vector=vector(0, 1, 0, 0)))
    world.put(model_id, NewVector(entry_id=entry_id, vector=None))
    stored = world.vector_of(entry_id)
    assert (stored.status, stored.error_code) == ("ready", "")
    assert list(stored.vector) == [0, 1, 0, 0]


def test_put_vectors_of_entries_that_are_gone_or_of_another_shelf_are_passed_over(
    world: World,
) -> None:
    kept, gone = world.add(world.recalled(2))
    other = make_world()
    foreign = other.add(other.recalled(1))[0]
    with scoped_transaction(world.scope):
        shelf_id = Shelf.objects.in_scope(world.scope).get().pk
        assert store.remove_entries(scope=world.scope, shelf_id=shelf_id, entry_ids=[gone]) == 1
    given = [NewVector(entry_id=key, vector=vector(1, 0, 0, 0)) for key in (kept, gone, foreign)]
    assert world.put(world.model(), *given) == 1
    assert world.put(world.model(8)) == 0


def test_put_vectors_of_an_unknown_model_is_refused(world: World) -> None:
    entry_id = world.add(world.recalled(1))[0]
    with pytest.raises(NotFoundError):
        world.put("emb_unknown", NewVector(entry_id=entry_id, vector=None))


def test_remove_entries_takes_vectors_along_and_raises_the_generation(world: World) -> None:
    entries = world.recalled(3)
    ids = world.add(entries)
    model_id = world.model()
    world.put(model_id, *(NewVector(entry_id=key, vector=vector(1, 0, 0, 0)) for key in ids))
    before = world.shelf()
    recall_id = entries[1].recall_id or ""
    with scoped_transaction(world.scope):
        removed = store.remove_entries(
            scope=world.scope, shelf_id=before.pk, entry_ids=ids[:1], recall_ids=[recall_id]
        )
    after = world.shelf()
    assert (removed, after.version - before.version, after.generation) == (2, 1, 1)
    with scoped_transaction(world.scope):
        left = IndexEntry.objects.in_scope(world.scope).values_list("pk", flat=True)
        vectors = Embedding.objects.in_scope(world.scope).values_list("entry_id", flat=True)
        assert list(left) == list(vectors) == ids[2:]


def test_remove_entries_of_another_persons_shelf_is_refused(world: World) -> None:
    other = make_world()
    other.add(other.recalled(1))
    foreign = other.shelf().pk
    with pytest.raises(NotFoundError), scoped_transaction(world.scope):
        store.remove_entries(scope=world.scope, shelf_id=foreign, entry_ids=["idx_1"])


def test_note_uses_adds_and_keeps_the_latest_time(world: World) -> None:
    ids = world.add(world.recalled(2))
    before = world.shelf().version
    with scoped_transaction(world.scope):
        store.note_uses(scope=world.scope, uses={ids[0]: 2, "idx_gone": 1}, now=NOW)
        store.note_uses(scope=world.scope, uses={ids[0]: 1}, now=NOW.replace(year=2020))
        store.note_uses(scope=world.scope, uses={}, now=NOW)
        rows = IndexEntry.objects.in_scope(world.scope).order_by("id")
        assert [(row.uses, row.last_used_at) for row in rows] == [(3, NOW), (0, None)]
    assert world.shelf().version == before


def test_entry_ids_of_leads_from_what_was_shown_to_its_entry(world: World) -> None:
    entries = world.recalled(2)
    ids = world.add(entries)
    led_to = [entry.recall_id or "" for entry in entries]
    with scoped_transaction(world.scope):
        found = store.entry_ids_of(scope=world.scope, led_to=[*led_to, "rec_gone"])
    assert found == dict(zip(led_to, ids, strict=True))


def test_repack_changes_records_and_the_generation(world: World) -> None:
    ids = world.add(world.recalled(2))
    shelf_id = world.shelf().pk
    with scoped_transaction(world.scope):
        assert store.repack(scope=world.scope, shelf_id=shelf_id, packed={ids[1]: b"new"}) == 1
        rows = IndexEntry.objects.in_scope(world.scope).order_by("id")
        assert [bytes(row.packed) for row in rows] == [b"-", b"new"]
    assert world.shelf().generation == 1


def test_add_entries_rolled_back_leaves_the_shelf_as_it_was(world: World) -> None:
    world.add(world.recalled(1))
    more = world.recalled(1)
    with pytest.raises(ZeroDivisionError):
        add_and_break_off(world, more)
    assert world.shelf().version == 1


def add_and_break_off(world: World, entries: list[NewEntry]) -> None:
    with scoped_transaction(world.scope):
        store.add_entries(scope=world.scope, owner=world.owner, entries=entries, now=NOW)
        raise ZeroDivisionError
