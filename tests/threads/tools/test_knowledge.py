"""kb_search, what memory_search has by meaning, and opening what either found."""

from __future__ import annotations

from typing import Any

import pytest
from django.db import connection

from memory.providers.embeddings.base import EmbeddingUnavailableError
from memory.rls import scoped_transaction
from memory.store import Owner
from tests.factories import make_end_user, make_thread
from tests.shelving import Person, file_document, make_model, make_person, make_team, shelve
from tests.threads.recall.embedders import ToyEmbedder, use_embedder
from tests.threads.tools.rooms import Room, beside
from threads.models import Run


def room_of(person: Person) -> Room:
    """A thread of the person to call tools in."""
    thread = make_thread(person.agent, person.end_user)
    return Room(person.tenant, person.agent, person.end_user, thread)


@pytest.fixture
def person(db: None) -> Person:
    return make_person()


@pytest.fixture
def room(person: Person) -> Room:
    return room_of(person)


@pytest.mark.req("A26")
@pytest.mark.req("D05")
def test_kb_search_returns_titled_dated_material_and_no_memory(person: Person, room: Room) -> None:
    file_document(
        person.tenant, ["数据库备份由运维每周执行。", "请假三天前申请。"], title="运维手册"
    )
    shelve(person, ["CNRY 数据库备份"])
    room.say("CNRY 数据库备份")
    found = room.use("kb_search", query="数据库备份")
    assert "“运维手册” 2026-11-02T09:00:00Z material" in found.shown
    assert "数据库备份由运维每周执行。" in found.shown
    assert "not confirmed facts" in found.shown
    assert "chunk_" in found.shown
    assert "CNRY" not in found.shown
    assert "请假" not in found.shown
    assert not found.is_error


@pytest.mark.req("B07")
@pytest.mark.req("A26")
def test_search_tools_trace_has_its_fields_and_no_text(person: Person, room: Room) -> None:
    file_document(person.tenant, ["数据库备份由运维每周执行。"])
    data = room.use("kb_search", query="数据库备份").trace_data()
    assert (data["tool"], data["kept"], data["degraded"]) == ("kb_search", 1, [])
    assert data["candidates"] >= 1
    assert 0 < data["top_score"] <= 1
    assert data["tokens"] > 0
    assert set(data["retrieval"]) == {
        "tool", "query_hash", "scope", "stages_ms", "candidates", "kept", "dropped", "degraded",
        "top_score", "tokens", "entities",
    }  # fmt: skip
    assert data["retrieval"]["tool"] == "kb_search"
    assert {"check_ms", "embed_ms", "work_ms"} <= set(data["stages"])
    assert "备份" not in str(data)


def test_kb_search_with_nothing_relevant_says_so(room: Room) -> None:
    found = room.use("kb_search", query="数据库备份")
    assert found.content.startswith("The knowledge base has nothing relevant.")
    assert (found.is_error, found.trace_data()["kept"]) == (False, 0)


@pytest.mark.req("C09")
def test_memory_search_shows_what_is_recalled_and_each_turn_once(
    person: Person, room: Room
) -> None:
    thread = make_thread(person.agent, person.end_user)
    (recalled,) = shelve(person, ["数据库备份方案"], thread=thread)
    with scoped_transaction(person.scope):
        run = Run.objects.in_scope(person.scope).get(thread=thread)
        thread.messages.create(
            tenant_id=person.tenant.pk, run=run, end_user=person.end_user, position=0,
            role="user", content="数据库备份方案",
        )  # fmt: skip
    fresh = room.say("数据库备份方案再看一遍")[0]
    found = room.use("memory_search", query="数据库备份方案")
    assert found.shown.count("- rec_") == 1
    assert found.shown.count("- msg_") == 1
    assert f"- {recalled} 2026-11-02T09:00:00Z observed (score 0." in found.shown
    assert fresh.pk in found.shown
    assert found.summary == "memory_search: 2 of 3 relevant"


def test_memory_search_keeps_documents_and_other_roles_out(person: Person, room: Room) -> None:
    file_document(person.tenant, ["CNRY 数据库备份"])
    shelve(person, ["CNRY 数据库备份"], role="sales")
    found = room.use("memory_search", query="数据库备份")
    assert found.content.startswith("Nothing relevant found.")


@pytest.mark.req("C09")
def test_memory_search_finds_by_meaning_what_shares_no_word(
    person: Person, room: Room, monkeypatch: pytest.MonkeyPatch
) -> None:
    model = make_model(person.tenant)
    shelve(person, ["The invoice is due on Friday."], model=model)

    class Translating(ToyEmbedder):
        def query(self, text: str, *, seconds: float):
            assert not connection.needs_rollback
            return super().query("The invoice is due on Friday.", seconds=seconds)

    use_embedder(monkeypatch, Translating())
    found = room.use("memory_search", query="Rechnung")
    assert "The invoice is due on Friday." in found.shown


@pytest.mark.req("B07")
@pytest.mark.parametrize("tool", ["memory_search", "kb_search"])
def test_tools_say_when_they_search_by_words_alone(
    person: Person, room: Room, monkeypatch: pytest.MonkeyPatch, tool: str
) -> None:
    shelve(person, ["数据库备份方案"], model=make_model(person.tenant))
    file_document(person.tenant, ["数据库备份方案"])
    use_embedder(monkeypatch, ToyEmbedder(error=EmbeddingUnavailableError()))
    found = room.use(tool, query="备份")
    assert "by words alone" in found.content.splitlines()[0]
    assert found.trace_data()["degraded"] == ["embedding_unavailable"]


@pytest.mark.parametrize("tool", ["memory_search", "kb_search"])
@pytest.mark.parametrize("name", ["user_id", "tenant", "agent_id", "role"])
def test_case_23_search_takes_nobody_elses_name(room: Room, tool: str, name: str) -> None:
    named: dict[str, Any] = {name: "other"}
    found = room.use(tool, query="备份", **named)
    assert found.is_error
    assert f'Unknown argument "{name}"' in found.content


@pytest.mark.req("B18")
def test_strangers_find_nothing_by_either_tool(person: Person, room: Room) -> None:
    team = make_team(person.tenant)
    file_document(person.tenant, ["CNRY 备份口令"], owner=person.owner)
    file_document(person.tenant, ["CNRY 备份口令"], owner=Owner(team_id=team.pk))
    shelve(person, ["CNRY 备份口令"])
    strangers = (room_of(make_person()), beside(room, person=make_end_user(person.tenant)))
    for stranger in strangers:
        for tool in ("memory_search", "kb_search"):
            assert "CNRY" not in stranger.use(tool, query="备份口令 CNRY").shown
    assert "CNRY" in room.use("kb_search", query="备份口令").shown


@pytest.mark.req("C09")
def test_what_was_found_opens_whole_for_its_person_alone(person: Person, room: Room) -> None:
    (recalled,) = shelve(person, ["备份在几点？"], answers=["晚上十点。"])
    file_document(person.tenant, ["第一章", "第二章 备份"], title="手册", owner=person.owner)
    chunk = next(
        word
        for word in room.use("kb_search", query="备份").shown.split()
        if word.startswith("chunk_")
    )
    opened = room.use("view_message", message_id=recalled)
    assert opened.content.endswith("备份在几点？\n\n晚上十点。")
    opened = room.use("view_message", message_id=chunk)
    assert "“手册”" in opened.content
    assert opened.content.endswith("第二章 备份")
    for stranger in (room_of(make_person()), beside(room, person=make_end_user(person.tenant))):
        for wanted in (recalled, chunk):
            found = stranger.use("view_message", message_id=wanted)
            assert found.content == "Error: There is no such message."
