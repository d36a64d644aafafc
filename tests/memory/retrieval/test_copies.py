"""Copies of shelves: current whatever is written, bounded, shared by threads, never mixed up."""

from __future__ import annotations

from dataclasses import replace

import pytest
from django.db import transaction

from memory.models import EmbeddingModel, IndexEntry
from memory.retrieval import shelf_reading
from memory.retrieval.copies import CopyCache, copy_key, open_shelves, process_cache
from memory.retrieval.limits import OverTimeError, TimeLimit
from memory.retrieval.shelf_copy import empty_copy
from memory.rls import scoped_transaction
from memory.scope import Scope
from memory.store import ensure_shelf, remove_entries
from tests.factories import make_tenant, scope_of
from tests.shelving import (
    MANY,
    Person,
    assert_equal_to_rows,
    embed,
    file_document,
    make_model,
    make_person,
    make_team,
    only_copy,
    opened_copies,
    packed_entries,
    shelve,
)


def test_copy_holds_what_the_rows_hold(committed_db: None) -> None:
    person = make_person()
    model = make_model(person.tenant)
    shelve(person, ["I like tea", "我最喜欢龙井茶", "", "the train to Oslo"], model=model)
    copy = only_copy(person.scope, model)
    assert_equal_to_rows(copy, person)
    assert copy.codes is not None
    assert (copy.codes["scale"] > 0).all()
    assert only_copy(person.scope, model) is copy


def test_new_entries_and_vectors_are_added_to_the_copy(committed_db: None) -> None:
    person = make_person()
    model = make_model(person.tenant)
    shelve(person, ["I like tea"], model=model)
    first = only_copy(person.scope, model)
    texts = ["I like coffee", "我喜欢咖啡"]
    later = shelve(person, texts)
    second = only_copy(person.scope, model)
    assert second.ids[:1].tolist() == first.ids.tolist()
    assert_equal_to_rows(second, person)
    assert second.codes is not None
    assert (second.codes["scale"] > 0).tolist() == [True, False, False]
    embed(person, model, later, texts)
    third = only_copy(person.scope, model)
    assert third.codes is not None
    assert third.codes[0] == second.codes[0]
    assert third.lacking == []
    assert_equal_to_rows(third, person)


def test_first_vectors_come_to_a_copy_that_had_none(committed_db: None) -> None:
    person = make_person()
    model = make_model(person.tenant)
    ids = shelve(person, ["I like tea", "I like coffee"])
    assert only_copy(person.scope, model).codes is None
    embed(person, model, ids, ["I like tea", "I like coffee"])
    copy = only_copy(person.scope, model)
    assert copy.codes is not None
    assert copy.lacking == []


@pytest.mark.parametrize("most_lacking", [0, 1_000])
def test_vectors_that_lacked_are_found_one_by_one_or_all(
    committed_db: None, monkeypatch: pytest.MonkeyPatch, most_lacking: int
) -> None:
    monkeypatch.setattr(shelf_reading, "MOST_LACKING", most_lacking)
    person = make_person()
    model = make_model(person.tenant)
    shelve(person, ["one"], model=model)
    ids = shelve(person, ["two", "three"])
    assert len(only_copy(person.scope, model).lacking) == 2
    embed(person, model, ids[1:], ["three"])
    assert len(only_copy(person.scope, model).lacking) == 1


def test_removal_makes_the_copy_be_read_anew(committed_db: None) -> None:
    person = make_person()
    ids = shelve(person, ["one", "two", "three"])
    first = only_copy(person.scope)
    with scoped_transaction(person.scope):
        shelf_id = ensure_shelf(scope=person.scope, owner=person.owner)
        remove_entries(scope=person.scope, shelf_id=shelf_id, recall_ids=ids[:1])
    second = only_copy(person.scope)
    assert second.generation == first.generation + 1
    assert_equal_to_rows(second, person)
    assert len(second) == 2


def test_what_this_transaction_wrote_is_seen_but_never_kept(committed_db: None) -> None:
    """Kept, it would stand for another write of the same version after a rollback."""
    person = make_person()
    shelve(person, ["one"])
    before = only_copy(person.scope)
    with scoped_transaction(person.scope):
        shelve(person, ["two"])
        assert len(only_copy(person.scope)) == 2
        transaction.set_rollback(True)
    assert only_copy(person.scope) is before
    shelve(person, ["three"])
    after = only_copy(person.scope)
    assert after.version == before.version + 1
    assert_equal_to_rows(after, person)


def test_transaction_that_wrote_elsewhere_keeps_what_it_reads(committed_db: None) -> None:
    person = make_person()
    shelve(person, ["one"])
    with scoped_transaction(person.scope):
        make_person(person.tenant)
        copy = only_copy(person.scope)
    assert only_copy(person.scope) is copy


def test_large_shelf_is_read_in_pieces_that_are_kept(
    committed_db: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(shelf_reading, "ROWS_AT_ONCE", 2)
    person = make_person()
    model = make_model(person.tenant)
    for place in range(3):
        shelve(person, [f"number {place} {letter}" for letter in "abc"], model=model)
    copy = only_copy(person.scope, model)
    assert_equal_to_rows(copy, person)
    assert copy.codes is not None
    assert copy.lacking == []


def test_reading_that_runs_out_of_time_goes_on_where_it_stopped(
    committed_db: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(shelf_reading, "ROWS_AT_ONCE", 2)
    person = make_person()
    for place in range(3):
        shelve(person, [f"number {place} {letter}" for letter in "abc"])

    class Impatient(TimeLimit):
        """Over at the second look."""

        looks = 0

        def check(self) -> int:
            self.looks += 1
            if self.looks > 2:
                raise OverTimeError
            return 60_000

    sizes = []
    for _ in range(4):
        try:
            with scoped_transaction(person.scope):
                (copy,) = open_shelves(
                    scope=person.scope, model_id=None, most_codes=MANY, limit=Impatient(1)
                )
            sizes.append(len(copy))
            break
        except OverTimeError:
            with scoped_transaction(person.scope):
                shelf_id = ensure_shelf(scope=person.scope, owner=person.owner)
            key = copy_key(scope=person.scope, shelf_id=shelf_id, model_id=None, most_codes=MANY)
            kept = process_cache().get(key)
            assert kept is not None
            sizes.append(len(kept))
    assert sizes == sorted(sizes)
    assert sizes[-1] == 9
    assert len(sizes) > 2


def test_shelf_past_the_exact_rows_has_no_codes(committed_db: None) -> None:
    person = make_person()
    model = make_model(person.tenant)
    shelve(person, ["one", "two"], model=model)
    assert not only_copy(person.scope, model, most=2).is_big
    shelve(person, ["three"], model=model)
    copy = only_copy(person.scope, model, most=2)
    assert copy.is_big
    assert copy.codes is None
    assert len(copy) == 3


def test_damaged_record_leaves_the_other_numbers(committed_db: None) -> None:
    person = make_person()
    shelve(person, ["one", "two words"])
    with scoped_transaction(person.scope):
        first = IndexEntry.objects.in_scope(person.scope).first()
        assert first is not None
        first.packed = bytes(first.packed)[:-3]
        first.save(update_fields=["packed"])
    copy = only_copy(person.scope)
    assert copy.is_damaged
    assert len(copy) == 2
    assert len(copy.words) == 0
    assert set(copy.heads["place"].tolist()) == {1, 2}


@pytest.mark.req("B18")
def test_case_16_two_tenants_with_the_same_names_have_their_own_copies(committed_db: None) -> None:
    """Attack 16 and bug C8: the same user id and texts on both sides, warm and swapped."""
    model_of: dict[str, EmbeddingModel] = {}
    people: list[Person] = []
    for _ in range(2):
        tenant = make_tenant()
        model_of[tenant.id] = make_model(tenant, name="toy")
        people.append(make_person(tenant, "teacher-7"))
        shelve(people[-1], ["I like tea", "我喜欢茶"], model=model_of[tenant.id])
    for person in (*people, *reversed(people)):
        copy = only_copy(person.scope, model_of[person.tenant.id])
        assert set(copy.ids.tolist()) == set(packed_entries(person))
    assert len(process_cache()) == 2


@pytest.mark.req("B18")
def test_scope_opens_its_own_its_teams_and_the_tenants_shelf(committed_db: None) -> None:
    person = make_person()
    other = make_person(person.tenant)
    shelve(person, ["mine"])
    shelve(other, ["not mine"])
    team, strangers = make_team(person.tenant), make_team(person.tenant)
    for owner in (team, strangers):
        file_document(
            person.tenant,
            ["of a team"],
            owner=replace(person.owner, end_user_id=None, team_id=owner.id),
        )
    file_document(person.tenant, ["of all"])
    with_team = replace(person.scope, team_ids=(team.id,))
    team_alone = Scope(tenant_ids=(person.tenant.id,), principal_id="x", team_ids=(team.id,))
    assert len(opened_copies(with_team)) == 3
    assert len(opened_copies(person.scope)) == 2
    assert len(opened_copies(team_alone)) == 2
    mine = {shelf.shelf_id for shelf in opened_copies(with_team)}
    with scoped_transaction(scope_of(person.tenant)):
        foreign = ensure_shelf(scope=scope_of(person.tenant), owner=other.owner)
    assert foreign not in mine


def test_warm_copy_is_closed_to_who_may_not_see_the_shelf(committed_db: None) -> None:
    """The row of the shelf is asked for each time, whatever the process holds."""
    person = make_person()
    stranger = make_person(person.tenant)
    shelve(person, ["mine"])
    assert len(only_copy(person.scope)) == 1
    assert opened_copies(stranger.scope) == []
    assert opened_copies(scope_of(make_tenant(), person.end_user)) == []


def test_shelf_that_went_away_is_no_shelf(committed_db: None) -> None:
    person = make_person()
    shelve(person, ["one"])
    copy = only_copy(person.scope)
    with scoped_transaction(person.scope):
        gone = shelf_reading.read_rows(
            scope=person.scope, copy=replace(copy, shelf_id="shelf_gone")
        )
    assert gone is None


def test_copies_that_nobody_asks_for_are_forgotten() -> None:
    """What belongs to a gone person leaves a process within minutes."""
    cache = CopyCache(most_bytes=1_000_000)
    for name in ("gone", "used"):
        cache.put(name, empty_copy(shelf_id=name, model_id=None))
    assert cache.drop_unused(seconds=60) == 0
    assert cache.get("used") is not None
    cache._used_at["gone"] -= 61
    assert cache.drop_unused(seconds=60) == 1
    assert cache.get("gone") is None
    assert cache.get("used") is not None
