"""view_chat_history_summary: a person's threads in time."""

from __future__ import annotations

from datetime import timedelta

import pytest

from memory.rls import scoped_transaction
from memory.tokens import estimate
from tests.factories import NOW, make_thread, scope_of
from tests.threads.tools.rooms import Room, beside
from tests.threads.tools.test_view import make_node
from threads.models import Thread, ThreadSummary


def summarise(room: Room, text: str) -> None:
    scope = scope_of(room.tenant, room.person, room.thread)
    with scoped_transaction(scope):
        ThreadSummary.objects.create(
            tenant=room.tenant, thread=room.thread, end_user=room.person, rolling_summary=text
        )


def change(room: Room, **values: object) -> None:
    scope = scope_of(room.tenant)
    with scoped_transaction(scope):
        Thread.objects.in_scope(scope).filter(pk=room.thread.pk).update(**values)


@pytest.mark.req("C06")
@pytest.mark.req("C09")
def test_timeline_shows_the_threads_of_the_role_with_their_last_turns(room: Room) -> None:
    other = beside(room)
    for number in range(4):
        other.say(f"\n\n第 {number} 问\n更多", f"answer {number}\nmore", at=NOW)
    room.say("failed question", "half", status="failed")
    room.say("cancelled", status="cancelled")
    change(room, title="期末试卷", updated_at=NOW + timedelta(days=1))
    change(other, title="", updated_at=NOW, status="archived")
    found = room.use("view_chat_history_summary")
    lines = found.content.splitlines()
    assert lines[0] == "2 of 2 conversations, newest first."
    assert lines[1].startswith(f"- {room.thread.pk} “期末试卷” ")
    assert lines[1].endswith("to 2026-11-03T09:00:00Z, 2 turns, this conversation")
    assert lines[2] == "  2026-11-02T09:00:00Z failed question → (failed)"
    assert lines[3].startswith(f"- {other.thread.pk} “(untitled)” ")
    assert lines[3].endswith(", 4 turns, archived")
    assert lines[4:] == [
        "  2026-11-02T09:00:00Z 第 2 问 → answer 2",
        "  2026-11-02T09:00:00Z 第 3 问 → answer 3",
    ]
    assert found.shown == found.content


@pytest.mark.req("B18")
def test_case_23_timeline_shows_nothing_of_another_tenant_person_or_role(
    room: Room, strangers: list[Room]
) -> None:
    for stranger in strangers:
        stranger.say("canary", "canary")
        change(stranger, title="canary")
        summarise(stranger, "canary")
    found = room.use("view_chat_history_summary")
    assert found.content.startswith("1 of 1 conversations")
    assert "canary" not in found.content
    assert "canary" in strangers[0].use("view_chat_history_summary").content


@pytest.mark.req("B18")
def test_summaries_and_nodes_of_other_threads_stay_private(room: Room) -> None:
    other = beside(room)
    summarise(other, "canary summary")
    make_node(other, "canary node")
    assert "canary" not in room.use("view_chat_history_summary").content
    assert "canary summary" in other.use("view_chat_history_summary").content


def test_own_nodes_stand_in_for_a_summary(room: Room) -> None:
    for seq in (1, 2):
        make_node(room, f"节点 {seq}\n第二行", start_seq=seq, end_seq=seq)
    lines = room.use("view_chat_history_summary").content.splitlines()
    assert lines[-3] == "Earlier in this conversation:"
    assert lines[-2].endswith("2026-11-02 to 2026-11-02: 节点 1 第二行")
    assert lines[-1].endswith("节点 2 第二行")


@pytest.mark.parametrize("most_tokens", [100, 1500])
def test_timeline_is_bounded_whatever_there_is(room: Room, most_tokens: int) -> None:
    for _ in range(12):
        made = Room(room.tenant, room.agent, room.person, make_thread(room.agent, room.person))
        for _ in range(3):
            made.say("很长的问题" * 100, "a long answer " * 100)
        change(made, title="标题" * 100)
    summarise(room, "摘要" * 2000)
    found = room.use("view_chat_history_summary", box=room.box(most_tokens=most_tokens), limit=30)
    assert estimate(found.shown) <= most_tokens
    assert found.shown == found.content
    assert "of 13 conversations" in found.shown


def test_limit_bounds_the_threads(room: Room) -> None:
    beside(room)
    found = room.use("view_chat_history_summary", limit=1)
    assert found.content.startswith("1 of 2 conversations")
    assert room.use("view_chat_history_summary", limit=31).is_error
