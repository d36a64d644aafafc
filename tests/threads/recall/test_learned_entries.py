"""Items and facts in the index: embedded by the worker, packed anew, found, gone when they are over."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import timedelta
from typing import Any

import pytest

from governance.items import items
from governance.policy_rules import effective
from memory import store
from memory.models import Embedding, IndexEntry, MemoryItem
from memory.retrieval.limits import OverTimeError, TimeLimit
from memory.retrieval.results import TIME_LIMIT
from memory.rls import scoped_transaction
from tests.embedding import endpoint_model, work
from tests.factories import NOW, scope_of
from tests.fakes.openai_server import FakeOpenAI
from tests.governance.core.desks import Desk, make_desk
from tests.governance.items.test_items import Shelf
from threads.recall.finding import QuestionVector, Wanted, embed_question, find
from threads.recall.reindexing import reindex
from threads.recall.texts import entry_texts


@pytest.fixture
def server() -> Iterator[FakeOpenAI]:
    with FakeOpenAI() as running:
        yield running


@pytest.fixture
def shelf(committed_db: None) -> tuple[Shelf, Desk]:
    """A person with an item and a confirmed fact."""
    desk = make_desk()
    made = Shelf(desk.tenant, desk.person)
    made.put("每天早上喝浓缩咖啡 espresso at eight", key="coffee", title="咖啡")
    desk.hold("User lives in 上海 Shanghai")
    return made, desk


def entries(shelf: Shelf) -> dict[str, IndexEntry]:
    return {entry.kind: entry for entry in shelf.rows(IndexEntry)}


def found(shelf: Shelf, text: str, asked: QuestionVector | None = None, **values: Any) -> list[str]:
    policy = effective(values.pop("policy", {}))
    now = values.pop("now", NOW)
    wanted = Wanted(tool="search", text=text, kinds=("item", "core"), limit=10, **values)
    with scoped_transaction(shelf.scope):
        hits = find(
            scope=shelf.scope,
            wanted=wanted,
            asked=asked or QuestionVector(),
            policy=policy,
            now=now,
        ).hits
    return [hit.kind for hit in hits]


@pytest.mark.req("C01")
def test_items_and_facts_get_vectors_of_their_cleaned_texts(
    shelf: tuple[Shelf, Desk], server: FakeOpenAI
) -> None:
    made, _ = shelf
    endpoint_model(made.tenant, server)
    assert work(made.tenant) == []
    rows = made.rows(Embedding)
    assert {row.entry_id for row in rows} == {entry.pk for entry in made.rows(IndexEntry)}
    assert {row.status for row in rows} == {"ready"}
    sent = [text for request in server.requests for text in request.body["input"]]
    assert "coffee\n咖啡\n每天早上喝浓缩咖啡 espresso at eight" in sent
    asked = embed_question(scope=made.scope, text="espresso")
    assert asked.vector is not None
    assert found(made, "espresso", asked) == ["item"]


def test_changed_item_has_a_new_entry_without_the_old_ones_vector(
    shelf: tuple[Shelf, Desk], server: FakeOpenAI
) -> None:
    made, _ = shelf
    endpoint_model(made.tenant, server)
    work(made.tenant)
    old = entries(made)["item"].pk
    made.put("likes oolong now", key="coffee", title="咖啡")
    assert old not in {entry.pk for entry in made.rows(IndexEntry)}
    assert old not in {row.entry_id for row in made.rows(Embedding)}
    assert work(made.tenant) == []
    assert entries(made)["item"].pk in {row.entry_id for row in made.rows(Embedding)}


def test_rebuild_packs_items_and_facts_as_their_writers_do(shelf: tuple[Shelf, Desk]) -> None:
    made, _ = shelf
    before = {entry.pk: bytes(entry.packed) for entry in made.rows(IndexEntry)}
    assert len(before) == 2
    scope = scope_of(made.tenant)
    with scoped_transaction(scope):
        shelf_id = entries_shelf(made)
        store.repack(scope=scope, shelf_id=shelf_id, packed=dict.fromkeys(before, b"old"))
    assert reindex(scope=scope, now=NOW, is_rebuild=True).entries == 2
    assert {entry.pk: bytes(entry.packed) for entry in made.rows(IndexEntry)} == before


def entries_shelf(shelf: Shelf) -> str:
    return str(shelf.rows(IndexEntry)[0].shelf_id)


def test_texts_of_entries_name_the_agent_of_the_run_they_come_from(
    shelf: tuple[Shelf, Desk],
) -> None:
    made, _ = shelf
    ids = [entry.pk for entry in made.rows(IndexEntry)]
    with scoped_transaction(made.scope):
        texts = entry_texts(scope=made.scope, entry_ids=ids)
    assert {text.agent_id for text in texts.values()} == {None}
    assert any("Shanghai" in text.text for text in texts.values())


@pytest.mark.req("B15")
def test_item_that_is_over_is_not_found_though_its_entry_is_there(
    shelf: tuple[Shelf, Desk],
) -> None:
    made, _ = shelf
    assert found(made, "espresso") == ["item"]
    with scoped_transaction(made.scope):
        MemoryItem.objects.in_scope(made.scope).update(expires_at=NOW + timedelta(hours=1))
    assert found(made, "espresso") == ["item"]
    later = NOW + timedelta(hours=1)
    assert found(made, "espresso", now=later) == []
    assert items.expire(scope=scope_of(made.tenant), now=later, most=10) == 1
    assert set(entries(made)) == {"core"}


def test_search_over_its_time_shows_the_newest_items_and_facts_in_effect(
    shelf: tuple[Shelf, Desk], monkeypatch: pytest.MonkeyPatch
) -> None:
    made, _ = shelf
    made.put("over by then", key="old", title="Old", expires_at=NOW + timedelta(seconds=1))
    wanted = Wanted(tool="search", text="espresso", kinds=("item", "core"), limit=10)
    policy = effective({})
    monkeypatch.setattr(TimeLimit, "check", _over_once())
    with scoped_transaction(made.scope):
        result = find(
            scope=made.scope,
            wanted=wanted,
            asked=QuestionVector(),
            policy=policy,
            now=NOW + timedelta(hours=1),
        )
    assert TIME_LIMIT in result.trace.degraded
    assert {hit.kind for hit in result.hits} == {"item", "core"}
    assert "over by then" not in {hit.content for hit in result.hits}


def _over_once() -> Any:
    """A check that says once that the time is up."""
    check, calls = TimeLimit.check, []

    def once(self: TimeLimit) -> int:
        calls.append(1)
        if len(calls) == 1:
            raise OverTimeError
        return check(self)

    return once
