"""Two entities that may be one: proposed by likeness, decided by people, undone exactly."""

from __future__ import annotations

from typing import Any

import pytest

from governance.decisions import AlreadyDecidedError
from governance.entities.decisions import approve_candidate
from governance.entities.editing import EntityChange, change_entity
from governance.entities.likeness import LEAST_LIKENESS, likeness
from governance.entities.merges import merge, refuse_merge, unmerge
from governance.entities.problems import CanNotMergeError, MergedEntityError, NotMergedError
from governance.models import AuditEntry
from memory.errors import NotFoundError
from memory.models import Entity, EntityEvent, EntityMerge
from memory.rls import scoped_transaction
from tests.factories import NOW
from tests.vocabulary import BY, at_once, candidate_of, entity_of, new_thread, read, wide
from threads.models import Thread


def merges(thread: Thread) -> list[EntityMerge]:
    with scoped_transaction(wide(thread)):
        return list(EntityMerge.objects.in_scope(wide(thread)).order_by("id"))


def state(entity: Entity) -> tuple[Any, ...]:
    row = read(entity)
    return row.term, row.aliases, row.weight, row.status, row.merged_into_id


@pytest.mark.req("D11")
def test_bug_b4_b7_two_people_of_one_name_stay_two_and_the_merge_waits_for_a_person(
    db: None,
) -> None:
    thread = new_thread()
    berlin = entity_of(thread, "Maria Schmidt, Berlin, nurse", "person")
    graz = entity_of(thread, "Maria Schmidt, Graz, pilot", "person")
    assert berlin.pk != graz.pk
    assert read(berlin).status == read(graz).status == "active"
    (proposed,) = merges(thread)
    assert (proposed.source_id, proposed.target_id) == (graz.pk, berlin.pk)
    assert (proposed.status, proposed.score >= LEAST_LIKENESS) == ("proposed", True)
    refused = refuse_merge(scope=wide(thread), merge_id=proposed.pk, by=BY, now=NOW)
    again = refuse_merge(scope=wide(thread), merge_id=proposed.pk, by="other", now=NOW)
    assert (refused.status, again.decided_by) == ("refused", BY)
    assert read(berlin).status == read(graz).status == "active"


@pytest.mark.parametrize(
    ("one", "other", "is_like"),
    [
        ("Maria Schmidt, Berlin, nurse", "Maria Schmidt, Graz, pilot", True),
        ("Acme Cloud", "ACME Clouds", True),
        ("国内事务总局", "国内事务局", True),
        ("Mercury", "Venus", False),
        ("数据中心", "客户服务", False),
        ("Berlin", "Berlin Wall", True),
    ],
)
def test_likeness_tells_near_names_from_far_ones(one: str, other: str, is_like: bool) -> None:
    assert (likeness(one, other) >= LEAST_LIKENESS) is is_like
    assert likeness(one, other) == likeness(other, one)


def test_names_of_other_types_are_not_proposed_and_few_at_a_time(db: None) -> None:
    thread = new_thread()
    entity_of(thread, "Acme Cloud", "product")
    entity_of(thread, "Acme Clouds", "organisation")
    assert merges(thread) == []
    for number in range(6):
        entity_of(thread, f"Acme Cloud {number}", "product")
    by_source: dict[str, int] = {}
    for row in merges(thread):
        by_source[row.source_id] = by_source.get(row.source_id, 0) + 1
    assert max(by_source.values()) == 3


@pytest.mark.req("D11")
def test_merge_moves_the_names_and_unmerge_restores_both_exactly(db: None) -> None:
    thread = new_thread()
    scope = wide(thread)
    target = entity_of(thread, "DGIA", "organisation", aliases=["总局"], weight=1.3)
    source = entity_of(thread, "国内事务总局", "organisation", aliases=["dgia", "DG"], weight=2.7)
    before = state(source), state(target)
    merged = merge(scope=scope, source_id=source.pk, target_id=target.pk, by=BY, now=NOW)
    assert merged.aliases == ["总局", "国内事务总局", "DG"]
    assert (merged.weight, read(source).status) == (2.7, "merged")
    merge(scope=scope, source_id=source.pk, target_id=target.pk, by=BY, now=NOW)
    unmerge(scope=scope, entity_id=source.pk, by=BY, now=NOW)
    assert (state(source), state(target)) == before
    with pytest.raises(NotMergedError):
        unmerge(scope=scope, entity_id=source.pk, by=BY, now=NOW)
    with scoped_transaction(scope):
        kinds = list(
            EntityEvent.objects.in_scope(scope)
            .exclude(kind="approved")
            .order_by("id")
            .values_list("kind", "entity_id", "other")
        )
        actions = AuditEntry.objects.in_scope(scope).filter(action__startswith="entity_")
        done = [one for one in actions.values_list("action", flat=True) if "merged" in one]
    both = [(source.pk, target.pk), (target.pk, source.pk)]
    assert sorted(kinds) == sorted(
        (kind, *pair) for kind in ("merged", "unmerged") for pair in both
    )
    assert sorted(done) == ["entity_merged", "entity_unmerged"]


@pytest.mark.req("D11")
def test_what_was_added_since_a_merge_stays_after_it_is_undone(db: None) -> None:
    thread = new_thread()
    scope = wide(thread)
    target, source = entity_of(thread, "Alpha"), entity_of(thread, "Omega", weight=2.0)
    merge(scope=scope, source_id=source.pk, target_id=target.pk, by=BY, now=NOW)
    change = EntityChange(add_aliases=["阿尔法"])
    change_entity(scope=scope, entity_id=target.pk, change=change, by=BY, now=NOW)
    with scoped_transaction(scope):
        Entity.objects.in_scope(scope).filter(pk=target.pk).update(weight=2.2)
    unmerge(scope=scope, entity_id=source.pk, by=BY, now=NOW)
    row = read(target)
    assert row.aliases == ["阿尔法"]
    assert row.weight == pytest.approx(1.1)
    assert read(source).weight == 2.0


@pytest.mark.req("D11")
def test_chains_and_circles_are_refused(db: None) -> None:
    thread = new_thread()
    scope = wide(thread)
    one, two, three = (entity_of(thread, name) for name in ("Alpha", "Beta", "Gamma"))

    def into(source: Entity, target: Entity) -> Entity:
        return merge(scope=scope, source_id=source.pk, target_id=target.pk, by=BY, now=NOW)

    with pytest.raises(CanNotMergeError):
        into(one, one)
    into(one, two)
    for source, target, error in (
        (two, one, CanNotMergeError),
        (two, three, CanNotMergeError),
        (three, one, CanNotMergeError),
        (one, three, AlreadyDecidedError),
    ):
        with pytest.raises(error):
            into(source, target)
    with pytest.raises(MergedEntityError):
        change_entity(scope=scope, entity_id=one.pk, change=EntityChange(term="x"), by=BY, now=NOW)
    with pytest.raises(NotFoundError):
        merge(scope=wide(new_thread()), source_id=two.pk, target_id=three.pk, by=BY, now=NOW)


@pytest.mark.req("D11")
def test_merged_name_proposed_again_is_evidence_for_the_one_it_lives_in(db: None) -> None:
    thread = new_thread()
    scope = wide(thread)
    target, source = entity_of(thread, "DGIA"), entity_of(thread, "国内事务总局")
    waiting = candidate_of(thread, "其他", "product")
    merge(scope=scope, source_id=source.pk, target_id=target.pk, by=BY, now=NOW)
    assert candidate_of(thread, "国内事务总局").pk == target.candidate_id
    _, entity = approve_candidate(
        scope=scope, candidate_id=waiting.pk, by=BY, now=NOW, term="国内事务总局"
    )
    assert entity is not None
    assert entity.pk == target.pk
    assert read(source).status == "merged"


@pytest.mark.req("D11")
def test_refused_merge_can_still_be_made_by_hand_either_way(db: None) -> None:
    thread = new_thread()
    scope = wide(thread)
    old, new = entity_of(thread, "Acme Cloud"), entity_of(thread, "Acme Clouds")
    (proposed,) = merges(thread)
    refuse_merge(scope=scope, merge_id=proposed.pk, by=BY, now=NOW)
    merge(scope=scope, source_id=old.pk, target_id=new.pk, by=BY, now=NOW)
    unmerge(scope=scope, entity_id=old.pk, by=BY, now=NOW)
    merge(scope=scope, source_id=new.pk, target_id=old.pk, by=BY, now=NOW)
    assert read(new).merged_into_id == old.pk


@pytest.mark.req("D11")
def test_merges_at_once_in_a_circle_make_no_circle(committed_db: Any) -> None:
    thread = new_thread()
    scope = wide(thread)
    rows = [entity_of(thread, name) for name in ("Alpha", "Beta", "Gamma", "Delta")]
    pairs = list(zip(rows, [*rows[1:], rows[0]], strict=True))

    def into(source: Entity, target: Entity) -> object:
        return merge(scope=scope, source_id=source.pk, target_id=target.pk, by=BY, now=NOW)

    done = at_once([lambda pair=pair: into(*pair) for pair in pairs * 3])  # type: ignore[misc]
    errors = [one for one in done if isinstance(one, Exception)]
    assert all(isinstance(one, CanNotMergeError | AlreadyDecidedError) for one in errors)
    after = {row.pk: read(row) for row in rows}
    merged = [row for row in after.values() if row.status == "merged"]
    assert merged
    assert all(after[str(row.merged_into_id)].status == "active" for row in merged)
