"""Grep and timeline of a person's memory: exact text, and what happened when."""

from __future__ import annotations

from datetime import timedelta
from typing import Any
from urllib.parse import quote

import pytest

from memory.rls import scoped_transaction
from tests.factories import NOW, make_agent, make_end_user, make_key, make_thread, scope_of
from tests.threads.api.client import Api, code_of
from tests.threads.tools.rooms import Room, make_room
from threads.models import ThreadSummary

GREP = "/v1/memories/grep"


@pytest.fixture
def room(db: None) -> Room:
    return make_room()


def grep(room: Room, query: str, **values: Any) -> list[dict[str, Any]]:
    body = {"query": query, "user_id": room.person.user_id} | values
    answer = Api(make_key(room.tenant)).post(GREP, body)
    assert answer.status_code == 200, answer.content
    results: list[dict[str, Any]] = answer.json()["results"]
    return results


def timeline(room: Room, user: str | None = None, **query: Any) -> dict[str, Any]:
    path = f"/v1/users/{quote(user or room.person.user_id, safe='')}/timeline"
    answer = Api(make_key(room.tenant)).get(path, query)
    assert answer.status_code == 200, answer.content
    found: dict[str, Any] = answer.json()
    return found


@pytest.mark.req("C09")
def test_grep_finds_messages_whole_newest_first(room: Room) -> None:
    old = room.say("第三题 改成\n二叉树", at=NOW - timedelta(days=2))[0]
    new = room.say("第三题换成图")[0]
    found = grep(room, "第三题*成")
    assert [one["id"] for one in found] == [new.pk, old.pk]
    assert found[1] == {
        "kind": "message",
        "id": old.pk,
        "thread_id": room.thread.pk,
        "content": "第三题 改成\n二叉树",
        "created_at": "2026-10-31T09:00:00.000000Z",
    }
    assert [one["id"] for one in grep(room, "第三题", limit=1)] == [new.pk]
    assert [one["id"] for one in grep(room, "第三题", end_time="2026-11-01T00:00:00Z")] == [old.pk]
    assert grep(room, "第三题", start_time="2027-01-01T00:00:00Z") == []


def test_case_119_grep_takes_signs_literally(room: Room) -> None:
    for text in ("a%b", "axb", "a_b", "a\\b", "Straße"):
        room.say(text)
    assert [one["content"] for one in grep(room, "a%b")] == ["a%b"]
    assert [one["content"] for one in grep(room, "A_B")] == ["a_b"]
    assert [one["content"] for one in grep(room, "a\\b")] == ["a\\b"]
    assert len(grep(room, "a*b")) == 4
    assert [one["content"] for one in grep(room, "STRASSE")] == ["Straße"]


def test_key_of_one_agent_reads_that_agents_conversations_alone(room: Room) -> None:
    room.say("shared word of mine")
    other = make_agent(room.tenant, room.agent.provider, name="other", role=room.agent.role)
    elsewhere = make_thread(other, room.person)
    for agent, seen in ((room.agent, True), (other, False)):
        api = Api(make_key(room.tenant, agent_id=agent.pk))
        body = {"query": "shared word", "user_id": room.person.user_id}
        assert bool(api.post(GREP, body).json()["results"]) is seen
        asked = body | {"kinds": ["message"], "min_score": 0}
        assert bool(api.post("/v1/memories/search", asked).json()["results"]) is seen
        path = f"/v1/users/{quote(room.person.user_id, safe='')}/timeline"
        threads = {row["thread_id"] for row in api.get(path).json()["results"]}
        assert threads <= ({room.thread.pk} if seen else {elsewhere.pk})


def test_grep_of_a_long_text_is_cut_with_a_mark(room: Room) -> None:
    room.say("x" * 30_000)
    (found,) = grep(room, "xxx")
    assert len(found["content"]) == 20_001
    assert found["content"].endswith("x…")


@pytest.mark.parametrize(
    "values",
    [
        {"query": "**"},
        {"query": ""},
        {"query": "*a" * 9},
        {"limit": 0},
        {"start_time": "2026-02-01"},
        {"start_time": "2026-02-01T00:00:00Z", "end_time": "2026-01-01T00:00:00Z"},
    ],
)
def test_grep_that_does_not_fit_is_refused(room: Room, values: dict[str, Any]) -> None:
    body = {"query": "a", "user_id": room.person.user_id} | values
    answer = Api(make_key(room.tenant)).post(GREP, body)
    assert answer.status_code == 400
    assert answer.json()["errors"][0]["field"] == next(iter(values))


@pytest.mark.req("B18")
def test_grep_and_timeline_show_nothing_of_a_stranger(room: Room) -> None:
    for stranger in (
        make_room(),
        Room(room.tenant, room.agent, make_end_user(room.tenant), room.thread),
    ):
        thread = make_thread(stranger.agent, stranger.person, title="CNRY")
        Room(stranger.tenant, stranger.agent, stranger.person, thread).say("CNRY secret")
    assert grep(room, "CNRY") == []
    assert "CNRY" not in str(timeline(room))


@pytest.mark.req("C09")
def test_timeline_lists_turns_and_threads_newest_first(room: Room) -> None:
    later = NOW + timedelta(hours=1)
    with scoped_transaction(scope_of(room.tenant)):
        type(room.thread).objects.in_scope(scope_of(room.tenant)).update(
            title="备课", created_at=NOW
        )
    room.say("\n 出一份试卷\n第二行", "好的", at=later)
    room.say("再来一份", "secret half", at=later + timedelta(hours=1), status="failed")
    found = timeline(room)["results"]
    assert [(one["kind"], one["text"]) for one in found] == [
        ("turn", "再来一份 → (failed)"),
        ("turn", "出一份试卷 → 好的"),
        ("thread", "备课"),
    ]
    assert list(found[0]) == ["at", "kind", "thread_id", "run_id", "text"]
    assert found[1]["at"] == "2026-11-02T10:00:00.000000Z"
    assert found[1]["run_id"].startswith("run_")
    assert (found[2]["run_id"], found[2]["thread_id"]) == (None, room.thread.pk)
    assert timeline(room, room.person.pk)["results"] == found


def test_timeline_is_paged_over_both_kinds_without_gap_or_repeat(room: Room) -> None:
    for _ in range(4):
        thread = make_thread(room.agent, room.person, created_at=NOW)
        Room(room.tenant, room.agent, room.person, thread).say("问", "答", at=NOW)
    whole = [one["run_id"] or one["thread_id"] for one in timeline(room, limit=200)["results"]]
    assert len(whole) == len(set(whole)) == 9
    api = Api(make_key(room.tenant))
    path, pages, last = f"/v1/users/{room.person.user_id}/timeline?limit=2", [], None
    while path:
        page = api.get(path).json()
        pages += [one["run_id"] or one["thread_id"] for one in page["results"]]
        path, last = page["next"], page
    assert pages == whole
    assert last is not None
    back = api.get(last["previous"]).json()
    assert [one["run_id"] or one["thread_id"] for one in back["results"]] == whole[6:8]


def test_timeline_has_no_private_summary_and_keeps_to_a_role(room: Room) -> None:
    scope = scope_of(room.tenant, room.person, room.thread)
    with scoped_transaction(scope):
        ThreadSummary.objects.create(
            tenant_id=room.tenant.pk, thread_id=room.thread.pk, end_user_id=room.person.pk,
            rolling_summary="CNRY summary", summary_upto_seq=1, summary_upto_at=NOW,
            updated_at=NOW,
        )  # fmt: skip
    room.say("问", "答")
    assert "CNRY" not in str(timeline(room))
    assert len(timeline(room, role="tutor")["results"]) == 2
    assert timeline(room, role="sales")["results"] == []


@pytest.mark.parametrize(
    "user", ["nobody", "*", "%", "usr_01jd0000000000000000000000", "🦉", "a b"]
)
def test_timeline_of_an_unknown_person_is_empty(room: Room, user: str) -> None:
    room.say("问", "答")
    assert timeline(room, user) == {"results": [], "next": None, "previous": None}


def test_timeline_refuses_what_it_does_not_know(room: Room) -> None:
    api = Api(make_key(room.tenant))
    path = f"/v1/users/{room.person.user_id}/timeline"
    assert code_of(api.get(path, {"user_id": "x"})) == (400, "unknown_parameter")
    assert code_of(api.get(path, {"role": ""})) == (400, "invalid_parameter")
    assert code_of(api.get(path, {"limit": "0"})) == (400, "invalid_parameter")
    assert api.get("/v1/users/a%00b/timeline").json()["results"] == []
