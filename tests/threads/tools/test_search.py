"""memory_search: keywords over a person's messages."""

from __future__ import annotations

import re
from datetime import timedelta

import pytest

from tests.factories import NOW
from tests.threads.tools.rooms import Room, beside


def ids_in(text: str) -> list[str]:
    return re.findall(r"msg_\w+", text)


@pytest.mark.req("C09")
@pytest.mark.parametrize(
    ("query", "text"),
    [
        ("端到端测试", "昨天的端到端测试结果出来了"),
        ("端到端测试结果", "先写端到端测试"),
        ("测试 GPT4", "用GPT4测试一遍"),
        ("deadline for the exam papers", "The exam paper is due on Friday."),
        ("数据结构 exam", "数据结构exam放在周五"),
        ("猫", "我家猫很大"),
        ("50% off", "all at 50% now"),
    ],
)
def test_search_finds_glued_chinese_and_english(room: Room, query: str, text: str) -> None:
    room.say("今天天气不错", "Let us talk about something else entirely.")
    wanted = room.say(text)[0]
    found = room.use("memory_search", query=query)
    assert ids_in(found.shown) == [wanted.pk]
    assert found.trace_data()["top_score"] > 0


def test_best_match_comes_first_then_the_newest(room: Room) -> None:
    for number in range(5):
        room.say(f"课程安排 {number}", at=NOW - timedelta(hours=number))
    best = beside(room).say("期末试卷的数据结构部分", at=NOW - timedelta(days=300))[0]
    half = room.say("数据结构课", at=NOW - timedelta(days=10))[0]
    newer = room.say("数据结构课", at=NOW - timedelta(days=5))[0]
    found = room.use("memory_search", query="期末试卷 数据结构")
    assert ids_in(found.shown) == [best.pk, newer.pk, half.pk]
    assert "score" in found.shown
    assert "of the query: 期末" in found.shown


@pytest.mark.req("B18")
def test_case_23_search_shows_nothing_of_another_tenant_person_or_role(
    room: Room, strangers: list[Room]
) -> None:
    for stranger in strangers:
        stranger.say("canary 期末试卷")
    found = room.use("memory_search", query="canary 期末试卷")
    assert found.content.startswith("Nothing relevant found.")
    assert not found.is_error
    assert len(ids_in(strangers[0].use("memory_search", query="canary").shown)) == 1


def test_a_word_by_chance_is_not_relevant(room: Room) -> None:
    for number in range(10):
        room.say(f"讨论一 {number}")
    room.say("我们在测量温度")
    query = "分布式缓存一致性协议的实现方案与测量"
    assert room.use("memory_search", query=query).summary == "memory_search: nothing relevant"


def test_part_of_a_word_is_not_the_word(room: Room) -> None:
    room.say("concatenate strings")
    assert room.use("memory_search", query="cat").content.startswith("Nothing relevant")


def test_limit_bounds_the_results(room: Room) -> None:
    for number in range(9):
        room.say(f"exam {number}")
    assert len(ids_in(room.use("memory_search", query="exam").shown)) == 5
    assert len(ids_in(room.use("memory_search", query="exam", limit="2").shown)) == 2
    found = room.use("memory_search", query="exam", limit=21)
    assert found.is_error


@pytest.mark.parametrize("query", ["%", "???", "——", "😀", "what is it"])
def test_query_without_words_is_refused(room: Room, query: str) -> None:
    room.say("100% sure???——😀")
    found = room.use("memory_search", query=query)
    assert found.is_error
    assert "memory_grep" in found.content


def test_case_119_signs_in_a_query_match_only_themselves(room: Room) -> None:
    room.say("axb")
    kept = room.say("a_b")[0]
    assert ids_in(room.use("memory_search", query="a_b").shown) == [kept.pk]
