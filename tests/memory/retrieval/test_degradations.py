"""The six ways a search gets less than it asked for, each provoked; none of them is fatal."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from datetime import timedelta
from typing import Any

import psycopg
import psycopg.sql
import pytest
from django.core.management import call_command
from django.db import connection

from memory.models import EmbeddingModel, IndexEntry
from memory.retrieval import candidates, found_rows
from memory.retrieval.nearest import index_names
from memory.retrieval.ranking import Ranked, rank
from memory.retrieval.results import (
    EMBEDDING_UNAVAILABLE,
    KEYWORD_UNAVAILABLE,
    RESULTS_CUT,
    TIME_LIMIT,
    VECTOR_INDEX_UNUSABLE,
    RecallQuery,
)
from memory.retrieval.search import search
from memory.rls import scoped_transaction
from tests.factories import NOW
from tests.shelving import (
    DIMENSIONS,
    SETTINGS,
    Person,
    ask,
    file_document,
    make_model,
    make_person,
    make_team,
    query_of,
    shelve,
    toy_vector,
)

pytestmark = pytest.mark.req("A27")
TEXTS = ["I adopted a cat named Miso", "The train leaves at nine", "我最喜欢的茶是龙井"]
SMALL = replace(SETTINGS, exact_rows=2)


def test_without_the_questions_vector_words_alone_find(db: None) -> None:
    """The first: the embedding provider is down, so the caller hands in no vector."""
    person = make_person()
    model = make_model(person.tenant)
    ids = shelve(person, TEXTS, model=model)
    for question, place in (("cat Miso", 0), ("喜欢的茶", 2)):
        query = query_of(question, model_id=model.id, degraded=(EMBEDDING_UNAVAILABLE,))
        found = ask(person.scope, query)
        assert found.hits[0].id == ids[place]
        assert found.trace.degraded == (EMBEDDING_UNAVAILABLE,)
        assert found.trace.candidates["vector"] == 0


def test_vector_of_another_length_is_left_alone(db: None) -> None:
    person = make_person()
    model = make_model(person.tenant)
    ids = shelve(person, TEXTS, model=model)
    query = replace(query_of("cat Miso", model=model), vector=toy_vector("cat Miso", 7))
    found = ask(person.scope, query)
    assert found.hits[0].id == ids[0]
    assert found.trace.degraded == (EMBEDDING_UNAVAILABLE,)


def damage(person: Person) -> None:
    with scoped_transaction(person.scope):
        entry = IndexEntry.objects.in_scope(person.scope).order_by("id").first()
        assert entry is not None
        entry.packed = bytes(entry.packed)[:-1]
        entry.save(update_fields=["packed"])


def test_damaged_record_leaves_vectors_to_find_by(db: None) -> None:
    """The third: the keyword leg can not read a record."""
    person = make_person()
    model = make_model(person.tenant)
    ids = shelve(person, TEXTS, model=model)
    damage(person)
    for question, place in (("cat Miso", 0), ("喜欢的茶", 2)):
        found = ask(person.scope, query_of(question, model=model))
        assert found.hits[0].id == ids[place]
        assert found.trace.degraded == (KEYWORD_UNAVAILABLE,)
        assert found.trace.candidates["keyword"] == 0


def test_keyword_leg_that_raises_leaves_vectors_to_find_by(
    db: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    person = make_person()
    model = make_model(person.tenant)
    ids = shelve(person, TEXTS, model=model)

    def broken(*given: Any, has_keywords: bool = True, **values: Any) -> Ranked:
        if has_keywords:
            raise IndexError
        return rank(*given, has_keywords=False, **values)

    monkeypatch.setattr(candidates, "rank", broken)
    found = ask(person.scope, query_of("cat Miso", model=model))
    assert found.hits[0].id == ids[0]
    assert found.trace.degraded == (KEYWORD_UNAVAILABLE,)


def in_no_time(query: RecallQuery, limit_ms: int = 0) -> RecallQuery:
    return replace(query, settings=replace(query.settings, limit_ms=limit_ms))


def test_no_time_gives_the_newest_in_scope(db: None) -> None:
    """The fourth."""
    person, other = (make_person() for _ in range(2))
    ids = shelve(person, TEXTS)
    shelve(other, TEXTS, said_at=NOW + timedelta(days=1))
    found = ask(person.scope, in_no_time(query_of("cat Miso", limit=2)))
    assert [hit.id for hit in found.hits] == [ids[2], ids[1]]
    assert found.trace.degraded == (TIME_LIMIT,)
    assert {hit.scores.relevance for hit in found.hits} == {0.0}
    assert "newest" in found.trace.stages_ms


def test_newest_pass_the_querys_filters(db: None) -> None:
    person = make_person()
    old = shelve(person, ["anyone"], said_at=NOW - timedelta(days=2))
    shelve(person, ["doctor"], role="doctor")
    query = in_no_time(query_of("cat", role="teacher"))
    assert [hit.id for hit in ask(person.scope, query).hits] == old
    query = in_no_time(query_of("cat", as_of=NOW - timedelta(days=1)))
    assert [hit.id for hit in ask(person.scope, query).hits] == old
    query = in_no_time(query_of("cat", skip_thread_id=person.thread.id))
    assert ask(person.scope, query).hits == ()
    query = in_no_time(query_of("cat", kinds=("knowledge",)))
    assert ask(person.scope, query).hits == ()
    team = make_team(person.tenant)
    team_alone = replace(person.scope, user_id=None, team_ids=(team.id,))
    assert ask(team_alone, in_no_time(query_of("cat"))).hits == ()


def test_newest_documents_are_the_scopes_own_and_shared_ones(db: None) -> None:
    person = make_person()
    team, strangers = make_team(person.tenant), make_team(person.tenant)
    for owner in (person.owner, make_person(person.tenant).owner):
        file_document(person.tenant, ["mine 我的"], owner=owner)
    for one in (team, strangers):
        owner = replace(person.owner, end_user_id=None, team_id=one.id)
        file_document(person.tenant, [f"of {one.id}", "more"], owner=owner)
    file_document(person.tenant, ["shared", "second part"])
    scope = replace(person.scope, team_ids=(team.id,))
    found = ask(scope, in_no_time(query_of("cat", kinds=("knowledge",))))
    assert [hit.content for hit in found.hits].count("mine 我的") == 1
    assert {hit.content for hit in found.hits} == {"mine 我的", f"of {team.id}", "shared"}


def test_statement_that_waits_is_ended_and_the_transaction_goes_on(
    db: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    statement, made = found_rows._READING["recall"]
    slow = statement.replace("WHERE", "WHERE pg_sleep(30) IS NOT NULL AND")
    monkeypatch.setitem(found_rows._READING, "recall", (slow, made))
    person = make_person()
    ids = shelve(person, TEXTS)
    with scoped_transaction(person.scope):
        found = search(scope=person.scope, query=in_no_time(query_of("cat"), limit_ms=400))
        assert IndexEntry.objects.in_scope(person.scope).count() == len(TEXTS)
        with connection.cursor() as cursor:
            cursor.execute("SELECT current_setting('credence.user')")
            assert cursor.fetchone() == (person.end_user.id,)
    assert found.trace.degraded == (TIME_LIMIT,)
    assert [hit.id for hit in found.hits] == ids[::-1]


@pytest.mark.parametrize(
    "text", ["The cat Miso sat on the mat. " * 400, "猫咪米索坐在垫子上。" * 400]
)
def test_hit_larger_than_the_budget_is_cut(db: None, text: str) -> None:
    """The fifth."""
    person = make_person()
    shelve(person, [text])
    query = query_of("cat Miso 猫咪米索", most_tokens=100, min_relevance=0.0)
    found = ask(person.scope, query)
    assert found.trace.degraded == (RESULTS_CUT,)
    assert 0 < found.trace.tokens <= 100
    assert "…" in found.hits[0].content
    whole = ask(person.scope, replace(query, most_tokens=None))
    assert whole.trace.degraded == ()
    assert whole.hits[0].content == text


@pytest.fixture
def big(
    committed_db: None, superuser_url: str
) -> Iterator[tuple[Person, EmbeddingModel, list[str]]]:
    """A shelf past its exact rows, whose index is dropped at the end."""
    person = make_person()
    model = make_model(person.tenant)
    texts = [f"turn {place} about {word}" for place, word in enumerate(("tea", "cats", "rain") * 4)]
    yield person, model, shelve(person, texts, model=model)
    with psycopg.connect(superuser_url, autocommit=True) as superuser:
        for name in index_names(dimensions=DIMENSIONS, tenant_id=person.tenant.id):
            superuser.execute(
                psycopg.sql.SQL("DROP INDEX IF EXISTS {}").format(psycopg.sql.Identifier(name))
            )


def by_meaning(model: EmbeddingModel, text: str) -> RecallQuery:
    """A question with another's vector, so that words find nothing."""
    vector = toy_vector(text, model.dimensions)
    return query_of("zzz", vector=vector, model_id=model.id, settings=SMALL, limit=3)


def test_big_shelf_without_an_index_is_compared_whole(
    big: tuple[Person, EmbeddingModel, list[str]],
) -> None:
    person, model, ids = big
    found = ask(person.scope, by_meaning(model, "turn 4 about cats"))
    assert found.hits[0].id == ids[4]
    assert found.trace.degraded == ()
    assert found.trace.candidates["vector"] == len(ids)
    exact = ask(person.scope, replace(by_meaning(model, "turn 4 about cats"), settings=SETTINGS))
    assert [hit.id for hit in exact.hits] == [hit.id for hit in found.hits]


@pytest.mark.parametrize("whose", ["tenant", "all"])
def test_index_of_the_command_finds_the_same(
    big: tuple[Person, EmbeddingModel, list[str]], whose: str
) -> None:
    person, model, ids = big
    index_vectors(person, whose)
    found = ask(person.scope, by_meaning(model, "turn 7 about cats"))
    assert found.hits[0].id == ids[7]
    assert found.trace.degraded == ()
    index_vectors(person, whose)


def test_invalid_index_is_passed_over(
    big: tuple[Person, EmbeddingModel, list[str]], superuser_url: str
) -> None:
    """The second: as after a build that broke off."""
    person, model, ids = big
    index_vectors(person, "tenant")
    with psycopg.connect(superuser_url, autocommit=True) as superuser:
        superuser.execute(
            "UPDATE pg_index SET indisvalid = false WHERE indexrelid = %s::regclass",
            [index_names(dimensions=DIMENSIONS, tenant_id=person.tenant.id)[1]],
        )
    found = ask(person.scope, by_meaning(model, "turn 7 about cats"))
    assert found.hits[0].id == ids[7]
    assert found.trace.degraded == (VECTOR_INDEX_UNUSABLE,)


def test_index_search_that_fails_is_made_exactly(
    big: tuple[Person, EmbeddingModel, list[str]], superuser_url: str
) -> None:
    """A setting that the extension refuses, as of an older version, fails inside the search."""
    person, model, ids = big
    index_vectors(person, "tenant")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("memory.retrieval.nearest._WALK_FAR", "SELECT 1 / 0")
        found = ask(person.scope, by_meaning(model, "turn 7 about cats"))
    assert found.hits[0].id == ids[7]
    assert found.trace.degraded == (VECTOR_INDEX_UNUSABLE,)


def test_index_that_gives_too_few_is_not_believed(
    big: tuple[Person, EmbeddingModel, list[str]],
) -> None:
    """Attack 13 on stock settings: the walk ends before it meets the owner's rows."""
    person, model, ids = big
    crowd = make_person(person.tenant)
    texts = [f"turn {place} about cats" for place in range(60)]
    shelve(crowd, texts, model=model)
    index_vectors(person, "all")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(
            "memory.retrieval.nearest._WALK_FAR",
            "SELECT pg_catalog.set_config('hnsw.iterative_scan', 'off', true),"
            " set_config('hnsw.ef_search', '1', true), set_config('enable_sort', 'off', true)",
        )
        found = ask(person.scope, by_meaning(model, "turn 7 about cats"))
    assert found.trace.candidates["vector"] == len(ids)
    assert found.hits[0].id == ids[7]
    assert found.trace.degraded == (VECTOR_INDEX_UNUSABLE,)


def test_big_shelves_of_team_and_tenant_are_theirs_alone(committed_db: None) -> None:
    person = make_person()
    shelve(person, ["mine one", "mine two", "mine three"])
    team = make_team(person.tenant)
    owner = replace(person.owner, end_user_id=None, team_id=team.id)
    file_document(person.tenant, ["team refunds", "team tea", "team rain"], owner=owner)
    file_document(person.tenant, ["all refunds", "all tea", "all rain"])
    model = make_model(person.tenant)
    scope = replace(person.scope, team_ids=(team.id,))
    query = query_of("refunds", model=model, settings=SMALL)
    found = ask(scope, query)
    contents = [hit.content for hit in found.hits]
    assert set(contents[:2]) == {"team refunds", "all refunds"}
    assert not any("mine" in content for content in contents)


def index_vectors(person: Person, whose: str) -> None:
    given = ["--all"] if whose == "all" else ["--tenant", person.tenant.slug]
    call_command("index_vectors", *given, "--model-dimensions", str(DIMENSIONS), "--json")
