"""What was made of a turn, over several steps, and making it anew without what is no longer said.

Cases 164 (provenance shows) and 179 (right of correction).
"""

from __future__ import annotations

from typing import Any

import pytest
from django.utils import timezone

from governance.erasure.holds import place_hold
from governance.models import AuditEntry
from memory.models import CoreFact, Embedding, IndexEntry, Job, RecallEntry
from memory.rls import scoped_transaction
from memory.scope import Scope
from tests.factories import make_end_user, make_key, scope_of
from tests.governance.erasure.scenes import clear_books
from tests.isolation.worlds import World, make_world
from tests.talking import new_thread, roll, session_of, summary_of, tell
from tests.threads.api.client import Api, code_of
from threads.models import Message, Run, SummaryNode
from threads.uses import rederive, uses_of
from threads.uses.reach import Reach

pytestmark = pytest.mark.usefixtures("committed_db")


@pytest.fixture
def worlds(committed_db: None) -> tuple[World, World]:
    """Two tenants, each with two people and rows in every table."""
    found = make_world(), make_world()
    for world in found:
        clear_books(world)
    return found


def wide(world: World) -> Scope:
    return Scope(tenant_ids=(world.tenant.pk,), principal_id="test")


def rows(scope: Scope, model: Any, **where: Any) -> list[Any]:
    with scoped_transaction(scope):
        return list(model.objects.in_scope(scope).filter(**where))


def kinds_of(linked: Any) -> set[str]:
    return {one.kind for one in linked}


@pytest.mark.req("B18")
def test_case_164_everything_made_of_a_turn_is_listed_over_several_steps(
    worlds: tuple[World, World],
) -> None:
    a, b = worlds
    person = a.people[0]
    found = uses_of(reach=Reach(scope=wide(a)), item_id=person.run.pk)
    made = {one.id for one in found.made.linked}
    entries = rows(wide(a), RecallEntry, run_id=person.run.pk)
    assert entries
    assert {one.pk for one in entries} <= made
    assert {"recall", "node"} <= kinds_of(found.made.linked)
    assert found.made.counts["index_entry"] >= 1
    assert found.made.is_whole
    theirs = {one.pk for one in rows(wide(b), RecallEntry)} | {b.people[0].run.pk}
    strangers = {one.pk for one in rows(wide(a), RecallEntry, end_user_id=a.people[1].row.pk)}
    assert not made & (theirs | strangers)
    assert str(found).find(a.mark) == -1


def test_message_of_a_lossless_forest_names_the_nodes_above_it(
    worlds: tuple[World, World],
) -> None:
    world = worlds[0]
    thread = world.people[0].thread
    runs = tell(thread, [(f"Question {n}?", f"Answer {n}.") for n in range(4)])
    scope = session_of(thread)
    with scoped_transaction(scope):
        first, last = runs[0].seq, runs[-1].seq
        values = {
            "tenant_id": thread.tenant_id,
            "thread_id": thread.pk,
            "end_user_id": thread.end_user_id,
            "start_at": timezone.now(),
            "end_at": timezone.now(),
            "turn_count": 2,
            "message_count": 4,
            "token_count": 5,
            "source_token_count": 9,
            "method": "model",
            "summary": "s",
        }
        top = SummaryNode.objects.create(level=2, start_seq=first, end_seq=last, **values)
        low = SummaryNode.objects.create(
            level=0, start_seq=first, end_seq=first + 1, parent=top, **values
        )
        side = SummaryNode.objects.create(
            level=0, start_seq=first + 2, end_seq=last, parent=top, **values
        )
        message = Message.objects.in_scope(scope).filter(run_id=runs[0].pk).earliest("position")
        Message.objects.in_scope(scope).filter(pk=message.pk).update(summary_node=low)
    reach = Reach(scope=wide(world))
    found = uses_of(reach=reach, item_id=message.pk)
    nodes = {one.id for one in found.made.linked if one.kind == "node"}
    assert {low.pk, top.pk} <= nodes
    assert side.pk not in nodes
    assert found.kind == "message"
    assert runs[0].pk in {one.id for one in found.sources}
    node = uses_of(reach=reach, item_id=low.pk)
    assert {one.id for one in node.made.linked} == {top.pk}
    assert {one.id for one in node.sources} == {message.pk}


@pytest.mark.req("B19")
def test_rederived_summary_has_no_word_of_a_deleted_message(worlds: tuple[World, World]) -> None:
    a, b = worlds
    thread = new_thread(a.agent, a.people[0].row)
    runs = tell(
        thread, [(f"第{n}题 the platypus paper {n}", f"Noted number {n}.") for n in range(40)]
    )
    scope = session_of(thread)
    roll(thread)
    assert "platypus" in summary_of(thread).rolling_summary
    with scoped_transaction(scope):
        Run.objects.in_scope(scope).filter(pk__in=[run.pk for run in runs]).update(input="gone")
    reach = Reach(scope=wide(a))
    before = len(rows(wide(b), RecallEntry))
    for _ in range(2):
        done = rederive(reach=reach, item_id=thread.pk, now=timezone.now())
        assert done.dropped["summaries"] == 1
        assert summary_of(thread) is None
        waiting = rows(wide(a), Job, end_user_id=thread.end_user_id, status="ready")
        assert {"roll_summary", "index_recall"} <= {job.kind for job in waiting}
        roll(thread)
        assert "platypus" not in summary_of(thread).rolling_summary
    assert len(rows(wide(b), RecallEntry)) == before
    written = rows(wide(a), AuditEntry, action="rederived", target_id=thread.pk)
    assert len(written) == 2
    assert not any("platypus" in str(one.detail) for one in written)


@pytest.mark.req("B18")
def test_rederive_takes_recall_and_vectors_and_leaves_what_was_decided(
    worlds: tuple[World, World],
) -> None:
    world = worlds[0]
    person, other = world.people
    scope = wide(world)
    facts = rows(scope, CoreFact, run_id=person.run.pk)
    kept = len(rows(scope, RecallEntry, run_id=other.run.pk))
    entries = [one.pk for one in rows(scope, RecallEntry, run_id=person.run.pk)]
    done = rederive(reach=Reach(scope=scope), item_id=person.run.pk, now=timezone.now())
    assert done.dropped["recall_entries"] == len(entries) > 0
    assert not rows(scope, RecallEntry, run_id=person.run.pk)
    assert not rows(scope, IndexEntry, recall_id__in=entries)
    assert not rows(scope, Embedding, entry__recall_id__in=entries)
    assert {one.pk for one in facts} <= {one.id for one in done.left}
    assert len(rows(scope, CoreFact, run_id=person.run.pk)) == len(facts)
    assert len(rows(scope, RecallEntry, run_id=other.run.pk)) == kept > 0


@pytest.mark.req("B18")
def test_case_179_corrected_value_supersedes_the_old_and_all_that_stood_on_it_is_refreshed(
    worlds: tuple[World, World],
) -> None:
    """Case 179: old value superseded, vector recomputed, summary refreshed."""
    world = worlds[0]
    person, scope = world.people[0], wide(world)
    api = Api(make_key(world.tenant))
    fresh = make_end_user(world.tenant, "teacher-7")
    old, new = (hold(api, fresh.pk, fact) for fact in ("I live in Lyon", "I live in Nantes"))
    (ended,) = rows(scope, CoreFact, pk=old)
    assert ended.valid_to is not None
    assert ended.superseded_by_id == new
    wanted = {"query": "where do I live: Lyon or Nantes", "user_id": fresh.user_id}
    found = api.post("/v1/memories/search", wanted).json()["results"]
    assert new in {one["id"] for one in found}
    assert old not in {one["id"] for one in found}
    assert len(rows(scope, IndexEntry, fact_id=new)) == 1
    reach = Reach(scope=scope)
    assert not uses_of(reach=reach, item_id=old).is_gone
    assert uses_of(reach=reach, item_id=new).made.counts["index_entry"] == 1
    recalled = {one.pk for one in rows(scope, RecallEntry, thread_id=person.thread.pk)}
    done = rederive(reach=reach, item_id=person.thread.pk, now=timezone.now())
    assert done.dropped["summaries"] == 1
    assert summary_of(person.thread) is None
    assert not rows(scope, Embedding, entry__recall_id__in=recalled)
    waiting = {one.dedupe_key for one in rows(scope, Job, status="ready")}
    assert f"index_recall:{person.thread.pk}" in waiting


def hold(api: Api, user: str, fact: str) -> str:
    candidate = api.post(f"/v1/users/{user}/core", {"fact": fact, "subject": "home"}).json()
    done = api.post(f"/v1/core-candidates/{candidate['id']}/confirm", {}).json()
    return str(done["fact"]["id"])


def test_rederive_is_refused_for_others_for_facts_and_under_a_hold(
    worlds: tuple[World, World],
) -> None:
    a, b = worlds
    person = a.people[0]
    fact = rows(wide(a), CoreFact, end_user_id=person.row.pk)[0]
    mine, theirs = Api(make_key(a.tenant)), Api(make_key(b.tenant))
    stranger = Api(make_key(a.tenant, end_user_id=a.people[1].row.pk))
    before = len(rows(wide(a), RecallEntry))
    for api in (theirs, stranger):
        for item_id in (person.run.pk, person.thread.pk, fact.pk):
            assert code_of(api.post(f"/v1/items/{item_id}/rederive")) == (404, "not_found")
    refused = mine.post(f"/v1/items/{fact.pk}/rederive")
    assert code_of(refused) == (409, "not_rederivable")
    place_hold(scope=wide(a), person=person.row, reason="", now=timezone.now())
    held = mine.post(f"/v1/items/{person.run.pk}/rederive")
    assert code_of(held) == (409, "legal_hold")
    assert len(rows(wide(a), RecallEntry)) == before


def test_rederive_with_a_key_of_its_own_is_done_once(worlds: tuple[World, World]) -> None:
    world = worlds[0]
    person = world.people[0]
    api = Api(make_key(world.tenant))
    path = f"/v1/items/{person.run.pk}/rederive"
    first = api.post(path, headers={"Idempotency-Key": "once"})
    again = api.post(path, headers={"Idempotency-Key": "once"})
    assert (first.status_code, first.json()) == (202, again.json())
    assert len(rows(scope_of(world.tenant), AuditEntry, action="rederived")) == 1
