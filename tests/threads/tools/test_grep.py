"""memory_grep: literal search over a person's messages."""

from __future__ import annotations

import re
from datetime import timedelta

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.factories import NOW
from tests.threads.tools.rooms import Room, beside, say

SIGNS = st.text(alphabet="aA%_\\*'\"[](){}.+?^$|-; \n端", min_size=1, max_size=8)


def ids_in(text: str) -> list[str]:
    return re.findall(r"msg_\w+", text)


@pytest.mark.req("C09")
def test_grep_finds_messages_of_all_threads_of_the_role_newest_first(room: Room) -> None:
    old = room.say("期末试卷什么时候交？", "周五。", at=NOW - timedelta(days=2))
    other = beside(room).say("the exam 试卷 is ready", at=NOW - timedelta(days=1))
    new = room.say("换个话题", "好的，试卷先放下。")
    found = room.use("memory_grep", query="试卷")
    assert ids_in(found.shown) == [new[1].pk, other[0].pk, old[0].pk]
    assert not found.is_error
    assert found.shown.startswith("3 of 3 messages")
    assert "期末试卷什么时候交？" in found.shown
    assert "2026-10-31T09:00:00Z" in found.shown
    assert old[0].thread_id in found.shown
    assert other[0].thread_id in found.shown
    assert found.summary == "memory_grep: 3 of 3 messages"


@pytest.mark.req("B18")
def test_case_23_grep_shows_nothing_of_another_tenant_person_or_role(
    room: Room, strangers: list[Room]
) -> None:
    for stranger in strangers:
        stranger.say("canary 试卷", "canary")
    assert room.use("memory_grep", query="canary").content == "No message contains that."
    assert len(ids_in(strangers[1].use("memory_grep", query="canary").shown)) == 2


def test_grep_leaves_out_what_is_not_finished_and_what_failed_answered(room: Room) -> None:
    failed = room.say("canary question", "canary half", status="failed")
    for status in ("cancelled", "rejected", "running"):
        room.say(f"canary {status}", status=status)
    assert ids_in(room.use("memory_grep", query="canary").shown) == [failed[0].pk]


def test_grep_leaves_out_what_reading_tools_answered(room: Room) -> None:
    room.say("canary", "canary", roles=("tool", "tool"), name="memory_grep")
    kept = room.say("canary", roles=("tool",), name="weather")
    plain = room.say("canary", roles=("tool",))
    found = ids_in(room.use("memory_grep", query="canary").shown)
    assert set(found) == {kept[0].pk, plain[0].pk}


@pytest.mark.parametrize(
    ("query", "count"),
    [
        ("100%", 1), ("%", 1), ("_", 2), ("\\", 1), ("a_b", 1), ("axb", 1), ("a*b", 3),
        ("C:\\Users", 1), ("c:\\users", 1), ("*C:*", 1), ("'; DROP TABLE threads_message; --", 1),
        ("端*测试", 2), ("端到端测试", 1), ("100%*done", 1), ("done*100%", 0), ("* 100", 0),
        ("first*second", 1), ("ÄRGER", 1), ("ärger", 1), ("ｃ", 0), ("[a-z]", 0), ("a.b", 0),
    ],
)  # fmt: skip
def test_case_119_only_the_star_is_special(room: Room, query: str, count: int) -> None:
    for text in (
        "100% done", "a_b", "axb", "C:\\Users", "x'; DROP TABLE threads_message; --", "端到端测试",
        "端上来的测试", "first line\nsecond line", "Ärger",
    ):  # fmt: skip
        room.say(text)
    assert len(ids_in(room.use("memory_grep", query=query).shown)) == count


@settings(
    max_examples=60,
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture],
)
@given(text=SIGNS, query=SIGNS)
def test_case_119_grep_agrees_with_a_plain_matcher(room: Room, text: str, query: str) -> None:
    stored = say(beside(room).thread, text)[0]
    found = room.use("memory_grep", query=query, limit=100)
    if not query.replace("*", "").strip():
        assert found.is_error
        return
    parts = [re.escape(part) for part in query.split("*")]
    wanted = re.search(".*".join(parts), text, re.DOTALL | re.IGNORECASE)
    shown = ids_in(found.content)
    if len(shown) < 100:
        assert (stored.pk in shown) == bool(wanted)


@pytest.mark.parametrize("query", ["*", "***", "* *", "a" + "*b" * 9])
def test_wildcards_alone_or_too_many_are_refused(room: Room, query: str) -> None:
    found = room.use("memory_grep", query=query)
    assert found.is_error
    assert "wildcards" in found.content


def test_times_bound_the_search_inclusively(room: Room) -> None:
    for days in range(4):
        room.say(f"canary {days}", at=NOW - timedelta(days=days))
    found = room.use("memory_grep", query="canary", start_time="2026-10-31", end_time="2026-11-01")
    assert [line[-1] for line in found.shown.splitlines() if "canary" in line] == ["1", "2"]
    exact = room.use(
        "memory_grep", query="canary", start_time="2026-11-02T09:00:00Z", end_time="2026-11-02"
    )
    assert len(ids_in(exact.shown)) == 1
    turned = room.use("memory_grep", query="canary", start_time="2026-11-02", end_time="2026-11-01")
    assert (turned.is_error, turned.content) == (True, "Error: start_time is after end_time.")


def test_limit_says_how_many_more_there_are(room: Room) -> None:
    for number in range(7):
        room.say(f"canary {number}")
    found = room.use("memory_grep", query="canary", limit=3)
    assert found.shown.startswith("3 of 7 messages, newest first.")
    assert found.shown.endswith("4 more; narrow the time or the text, or raise the limit.")
    assert found.trace_data()["candidates"] == 7
    assert found.trace_data()["dropped"] == 4


def test_excerpt_is_cut_around_the_hit_on_one_line(room: Room) -> None:
    room.say("甲" * 5000 + "\n\nNeedle\u2028乙" + "丙" * 5000)
    line = room.use("memory_grep", query="needle").shown.splitlines()[-1]
    excerpt = line.partition("Z: ")[2]
    assert excerpt.startswith("…甲")
    assert excerpt.endswith("丙…")
    assert " Needle 乙" in excerpt
    assert len(excerpt) <= 200


def test_many_hits_have_shorter_excerpts_and_all_of_them_a_place(room: Room) -> None:
    for number in range(15):
        room.say(f"canary {number} " + "long words follow here " * 20)
    found = room.use("memory_grep", query="canary")
    assert len(ids_in(found.shown)) == 15
    assert found.shown == found.content


@pytest.mark.req("B12")
def test_result_that_is_too_long_is_shortened_and_opens_whole(room: Room) -> None:
    for number in range(60):
        room.say(f"canary {number} 讨论端到端测试的结果与后续安排")
    box = room.box(most_tokens=400)
    found = room.use("memory_grep", box=box, query="canary", limit=60)
    assert len(ids_in(found.content)) == 60
    assert found.reference_id in found.shown
    assert found.shown != found.content
    pages, offset = "", 0
    while offset < len(found.content):
        page = room.use("view_message", box=box, message_id=found.reference_id, offset=offset)
        head, _, text = page.content.partition("\n")
        assert page.shown == page.content
        pages, offset = pages + text, offset + len(text)
        assert ("next offset" in head) == (offset < len(found.content))
    assert pages == found.content
