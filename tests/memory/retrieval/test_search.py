"""Searching: what is found, in which order, through which filters and gates, and its trace."""

from __future__ import annotations

import json
from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest
from django.db import connection

from memory.models import IndexEntry
from memory.retrieval.copies import process_cache
from memory.retrieval.search import RecallScopeError, search
from memory.rls import scoped_transaction
from memory.scope import Scope
from memory.store import ensure_shelf, note_uses, remove_entries
from memory.trust import Source
from tests.factories import NOW, make_tenant, make_thread, scope_of
from tests.shelving import (
    ask,
    file_document,
    make_model,
    make_person,
    make_team,
    query_of,
    shelve,
)
from threads.models import Run

TEXTS = [
    "I adopted a cat named Miso",
    "The train leaves at nine",
    "我最喜欢的茶是龙井",
    "明天去杭州开会",
]


@pytest.mark.parametrize(
    ("question", "place"), [("What is the name of my cat?", 0), ("我最喜欢喝什么茶", 2)]
)
def test_question_finds_its_turn_first(db: None, question: str, place: int) -> None:
    person = make_person()
    model = make_model(person.tenant)
    ids = shelve(person, TEXTS, model=model)
    found = ask(person.scope, query_of(question, model=model))
    best = found.hits[0]
    assert best.id == ids[place]
    assert best.content == TEXTS[place]
    assert best.thread_id == person.thread.id
    assert best.kind == "recall"
    with scoped_transaction(person.scope):
        run = Run.objects.in_scope(person.scope).get(id=best.source.id)
    assert run.input == TEXTS[place]
    assert best.source == Source(kind="run", id=run.id)
    assert found.trace.degraded == ()


def test_hit_shows_what_was_said_and_answered(db: None) -> None:
    person = make_person()
    shelve(person, ["What is a mole?", ""], answers=["6.022e23 particles", "A mole digs tunnels"])
    contents = {hit.content for hit in ask(person.scope, query_of("mole particles tunnels")).hits}
    assert contents == {"What is a mole?\n6.022e23 particles", "A mole digs tunnels"}


def test_words_alone_find_without_a_vector(db: None) -> None:
    person = make_person()
    ids = shelve(person, TEXTS)
    assert ask(person.scope, query_of("cat Miso")).hits[0].id == ids[0]
    assert ask(person.scope, query_of("龙井茶")).hits[0].id == ids[2]


def test_score_is_the_weighted_sum_of_its_parts(db: None) -> None:
    person = make_person()
    shelve(person, TEXTS, said_at=NOW - timedelta(days=30), confidence=0.5)
    query = query_of("cat Miso")
    hit = ask(person.scope, query).hits[0]
    weights = query.settings.weights
    scores = hit.scores
    assert hit.score == pytest.approx(
        weights["relevance"] * scores.relevance
        + weights["recency"] * scores.recency
        + weights["credence"] * scores.credence
        + weights["frequency"] * scores.frequency
    )
    assert scores.recency == pytest.approx(0.5, abs=0.01)
    assert scores.credence == pytest.approx(0.3)
    assert hit.confidence == 0.5
    assert hit.parts


def test_use_raises_the_score_without_a_new_copy(db: None) -> None:
    person = make_person()
    shelve(person, ["the red house", "the red horse"])
    query = query_of("red")
    before = {hit.entry_id: hit for hit in ask(person.scope, query).hits}
    second = list(before)[-1]
    with scoped_transaction(person.scope):
        note_uses(scope=person.scope, uses={second: 50}, now=NOW)
    after = ask(person.scope, query).hits
    assert after[0].entry_id == second
    assert after[0].score > before[second].score


def test_equal_scores_go_by_the_newest(db: None) -> None:
    person = make_person()
    texts = ["red one", "red two", "red three"]
    ids = shelve(person, texts, said_at=NOW + timedelta(days=1))
    found = [hit.id for hit in ask(person.scope, query_of("red")).hits]
    assert sorted(found) == sorted(ids)
    scores = [hit.score for hit in ask(person.scope, query_of("red")).hits]
    if len(set(scores)) == 1:
        assert found == ids[::-1]
    assert scores == sorted(scores, reverse=True)


@pytest.mark.req("C09")
def test_gate_one_leaves_out_what_is_not_above_it(db: None) -> None:
    person = make_person()
    shelve(person, TEXTS)
    assert ask(person.scope, query_of("quantum chromodynamics lattice")).hits == ()
    found = ask(person.scope, query_of("cat Miso", min_relevance=1.0))
    assert found.hits == ()
    assert found.trace.dropped["relevance"] == len(TEXTS)


@pytest.mark.req("C09")
def test_gate_two_and_three_count_what_they_drop(db: None) -> None:
    person = make_person()
    shelve(person, [f"red thing number {place}" for place in range(80)])
    found = ask(person.scope, query_of("red", limit=5))
    assert len(found.hits) == found.trace.kept == 5
    assert found.trace.dropped["top_k"] == 75
    tokens = found.hits[0].tokens * 2
    few = ask(person.scope, query_of("red", limit=5, most_tokens=tokens))
    assert few.trace.tokens == sum(hit.tokens for hit in few.hits) <= tokens
    assert few.trace.dropped["budget"] == 5 - len(few.hits) > 0


def test_repeats_collapse_to_one(db: None) -> None:
    person = make_person()
    ids = shelve(
        person,
        [
            "I like green tea",
            "i like green tea!",
            "I don't like green tea",
            "我喜欢绿茶",
            "我喜欢绿茶。",
        ],
        said_at=NOW - timedelta(days=3),
    )
    found = ask(person.scope, query_of("green tea 绿茶", min_relevance=0.0))
    assert found.trace.dropped["duplicate"] == 2
    kept = {hit.id for hit in found.hits}
    assert [len(kept & set(same)) for same in (ids[:2], ids[2:3], ids[3:])] == [1, 1, 1]


def test_filters_by_role_time_and_thread(db: None) -> None:
    person = make_person()
    other = make_thread(person.agent, person.end_user)
    any_role = shelve(person, ["red anyone"], said_at=NOW - timedelta(days=9))
    teacher = shelve(person, ["red teacher"], role="teacher", thread=other)
    doctor = shelve(person, ["red doctor"], role="doctor")

    def ids(**values: Any) -> set[str]:
        return {hit.id for hit in ask(person.scope, query_of("red", **values)).hits}

    assert ids() == {*any_role, *teacher, *doctor}
    assert ids(role="teacher") == {*any_role, *teacher}
    assert ids(role="") == set(any_role)
    assert ids(as_of=NOW - timedelta(days=1)) == set(any_role)
    assert ids(skip_thread_id=person.thread.id) == set(teacher)
    assert ids(kinds=("knowledge",)) == set()


def test_knowledge_of_tenant_and_team_is_found_with_its_document(db: None) -> None:
    person = make_person()
    team, strangers = make_team(person.tenant), make_team(person.tenant)
    document = file_document(
        person.tenant, ["退款需要七天", "Refunds take seven days"], title="政策", external_id="kb-1"
    )
    for owner, text in ((team, "Refunds of ours"), (strangers, "Refunds of strangers")):
        file_document(
            person.tenant, [text], owner=replace(person.owner, end_user_id=None, team_id=owner.id)
        )
    scope = replace(person.scope, team_ids=(team.id,))
    found = ask(scope, query_of("refunds", kinds=("knowledge",)))
    contents = [hit.content for hit in found.hits]
    assert set(contents[:2]) == {"Refunds take seven days", "Refunds of ours"}
    assert "Refunds of strangers" not in contents
    chinese = ask(scope, query_of("退款需要几天")).hits[0]
    assert chinese.content == "退款需要七天"
    assert (chinese.kind, chinese.title, chinese.tier) == ("knowledge", "政策", "material")
    assert chinese.source == Source(kind="document", id=document.id, external_id="kb-1")
    assert chinese.thread_id is None


def test_old_hit_is_stale(db: None) -> None:
    person = make_person()
    shelve(person, ["red then"], said_at=NOW - timedelta(days=100))
    shelve(person, ["red now"], said_at=NOW - timedelta(days=80))
    hits = {hit.content: hit.stale for hit in ask(person.scope, query_of("red")).hits}
    assert hits == {"red then": True, "red now": False}


@pytest.mark.req("C09")
def test_trace_tells_all_but_the_text(db: None) -> None:
    person = make_person()
    model = make_model(person.tenant)
    shelve(person, TEXTS, model=model)
    found = ask(person.scope, query_of("cat Miso 龙井", model=model))
    trace = found.trace.as_json()
    written = json.dumps(trace, ensure_ascii=False)
    assert not any(word in written for word in ("Miso", "adopted", "龙井", "茶"))
    assert set(trace["stages_ms"]) == {"scope", "candidates", "fusion", "scoring", "gates"}
    assert trace["candidates"] == {"vector": 4, "keyword": 2}
    assert trace["kept"] == len(found.hits)
    assert trace["top_score"] == found.hits[0].score
    assert trace["scope"]["user"] == person.end_user.id
    assert set(trace["dropped"]) == {"duplicate", "relevance", "top_k", "budget"}
    again = ask(person.scope, query_of("cat Miso 龙井")).trace.query_hash
    assert again == trace["query_hash"]
    assert ask(person.scope, query_of("cat")).trace.query_hash != again


def test_hash_of_a_question_differs_between_tenants(db: None) -> None:
    one, other = make_person(), make_person()
    hashes = {ask(person.scope, query_of("cat")).trace.query_hash for person in (one, other)}
    assert len(hashes) == 2


@pytest.mark.req("B06")
def test_reading_writes_nothing(committed_db: None) -> None:
    """In a transaction that refuses every write, cold and warm, with each kind of shelf."""
    person = make_person()
    model = make_model(person.tenant)
    shelve(person, TEXTS, model=model)
    file_document(person.tenant, ["Refunds take seven days"])
    for _ in range(2):
        with scoped_transaction(person.scope):
            with connection.cursor() as cursor:
                cursor.execute("SET TRANSACTION READ ONLY")
            found = search(scope=person.scope, query=query_of("cat refunds", model=model))
        assert {hit.kind for hit in found.hits} == {"recall", "knowledge"}
    with scoped_transaction(person.scope):
        rows = IndexEntry.objects.in_scope(person.scope).values_list("uses", "last_used_at")
        assert set(rows) == {(0, None)}


def test_callers_settings_are_as_before(committed_db: None) -> None:
    person = make_person()
    shelve(person, TEXTS)
    with scoped_transaction(person.scope), connection.cursor() as cursor:
        cursor.execute("SELECT set_config('statement_timeout', '12345', true)")
        search(scope=person.scope, query=query_of("cat"))
        cursor.execute("SELECT current_setting('statement_timeout'), current_setting('jit')")
        assert cursor.fetchone()[0] == "12345ms"


def test_hits_that_are_gone_make_the_shelf_be_read_anew(committed_db: None) -> None:
    """A removal that commits between the look at the shelf and the reading of the rows."""
    person = make_person()
    ids = shelve(person, ["red one", "red two", "red three"])
    query = query_of("red")
    assert len(ask(person.scope, query).hits) == 3
    with scoped_transaction(person.scope):
        shelf_id = ensure_shelf(scope=person.scope, owner=person.owner)
        remove_entries(scope=person.scope, shelf_id=shelf_id, recall_ids=ids[:1])
        # As if the look had been before: the copy is told to be of the new generation.
        stale = {
            key: replace(copy, generation=copy.generation + 1, version=copy.version + 1)
            for key, copy in process_cache()._copies.items()
        }
    for key, copy in stale.items():
        process_cache().put(key, copy)
    found = ask(person.scope, query)
    assert {hit.id for hit in found.hits} == set(ids[1:])
    (fresh,) = process_cache()._copies.values()
    assert len(fresh) == 2


def test_question_without_words_finds_nothing(db: None) -> None:
    person = make_person()
    shelve(person, TEXTS)
    for text in ("", "?!", "the of and"):
        assert ask(person.scope, query_of(text)).hits == ()


def test_person_without_a_shelf_has_no_hits(db: None) -> None:
    found = ask(make_person().scope, query_of("cat"))
    assert found.hits == ()
    assert found.trace.top_score is None


@pytest.mark.req("A26")
def test_scope_without_person_and_team_is_refused(db: None) -> None:
    """The sixth way to get less: nothing at all."""
    tenant = make_tenant()
    with pytest.raises(RecallScopeError) as refused:
        ask(scope_of(tenant), query_of("cat"))
    assert refused.value.code == "scope_required"
    assert refused.value.degraded == "scope_missing"
    wide = Scope(tenant_ids=(tenant.id, make_tenant().id), principal_id="staff:1", team_ids=("t",))
    with pytest.raises(RecallScopeError):
        ask(wide, query_of("cat"))
