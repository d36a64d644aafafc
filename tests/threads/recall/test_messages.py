"""Messages by keywords: hashes where a message carries them, the text of those before."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest

from governance.policy_rules import effective
from memory.retrieval.words import message_terms
from memory.rls import scoped_transaction
from tests.factories import NOW, make_end_user, scope_of
from tests.threads.tools.rooms import Room, beside, make_room
from threads.models import Message
from threads.recall.finding import settings_of
from threads.recall.messages import FoundMessages, MessageQuery, has_words, search_messages
from threads.recall.scoring import score_message


@pytest.fixture
def room(db: None) -> Room:
    return make_room()


def say(room: Room, text: str, *, has_terms: bool = True, **values: Any) -> Message:
    """A message of a turn of its own, with its words as newer ones have them."""
    terms = {"terms": message_terms(text)} if has_terms else {}
    return room.say(text, **terms, **values)[0]


def look(room: Room, text: str, **values: Any) -> FoundMessages:
    options: dict[str, Any] = {"limit": 10, "role": "tutor"} | values
    scope = scope_of(room.tenant, room.person)
    with scoped_transaction(scope):
        query = MessageQuery(text=text, **options)
        return search_messages(scope=scope, query=query)


def ids(found: FoundMessages) -> list[str]:
    return [hit.id for hit in found.hits]


PAIRS = [
    ("备份", "每日复盘和数据库备份方案"),  # D1
    ("端到端测试", "昨天的端到端测试结果出来了"),  # D3
    ("端到端测试结果", "先写端到端测试"),
    ("测试 GPT4", "用GPT4测试一遍"),
    ("deadlines for the exam papers", "The exam paper is due on Friday."),
    ("猫", "我家猫很大"),
    ("猫 food", "我家猫很大"),
]


@pytest.mark.req("C09")
@pytest.mark.parametrize("has_terms", [True, False])
@pytest.mark.parametrize(("query", "text"), PAIRS)
def test_cases_d1_d3_words_are_found_in_glued_text_without_embeddings(
    room: Room, query: str, text: str, has_terms: bool
) -> None:
    say(room, "今天天气不错", has_terms=has_terms)
    wanted = say(room, text, has_terms=has_terms)
    assert ids(look(room, query)) == [wanted.pk]


def test_old_and_new_messages_stand_in_one_order(room: Room) -> None:
    new = say(room, "数据库备份方案", at=NOW)
    old = say(room, "数据库备份方案", has_terms=False, at=NOW - timedelta(days=1))
    part = say(room, "备份方案一下", at=NOW)
    assert ids(look(room, "数据库备份方案")) == [new.pk, old.pk, part.pk]


def test_relevance_is_the_share_of_the_words_weight(room: Room) -> None:
    for number in range(9):
        say(room, f"课程 alpha{number}")
    say(room, "备份 alpha")
    (best, *rest) = look(room, "备份 课程", min_relevance=0).hits
    assert 0.5 < best.relevance < 1  # the rare word weighs more
    assert all(hit.relevance < 0.5 for hit in rest)
    assert best.words == ("备份",)
    assert best.content == "备份 alpha"


def test_what_is_not_above_the_least_relevance_is_left_out(room: Room) -> None:
    for number in range(10):
        say(room, f"讨论一 {number}")
    say(room, "我们在测量温度")
    query = "分布式缓存一致性协议的实现方案与测量"
    assert ids(look(room, query)) == []
    assert len(ids(look(room, query, min_relevance=0.01))) == 1


def test_only_the_role_and_the_time_that_are_asked_for(room: Room) -> None:
    mine = say(room, "数据库备份")
    other = say(beside(room, role="sales"), "数据库备份", at=NOW - timedelta(days=9))
    assert ids(look(room, "备份")) == [mine.pk]
    assert ids(look(room, "备份", role=None)) == [mine.pk, other.pk]
    assert ids(look(room, "备份", role=None, as_of=NOW - timedelta(days=1))) == [other.pk]


@pytest.mark.req("B18")
def test_nothing_of_another_person_or_tenant_is_found(room: Room) -> None:
    for stranger in (make_room(), beside(room, person=make_end_user(room.tenant))):
        say(stranger, "canary 备份")
        say(stranger, "canary 备份", has_terms=False)
    assert look(room, "canary 备份", role=None).hits == ()


def test_query_of_signs_alone_finds_nothing(room: Room) -> None:
    say(room, "100% sure")
    assert not has_words("%%% ——")
    assert look(room, "%%% ——").candidate_count == 0


def test_signs_are_literal_case_119(room: Room) -> None:
    for has_terms in (True, False):
        say(room, "axb 50 percent", has_terms=has_terms)
    assert ids(look(room, "a_b")) == []
    assert ids(look(room, "5%0")) == []


def test_scores_put_a_users_word_before_a_tools(room: Room) -> None:
    settings = settings_of(effective())
    turn = room.say(
        "数据库备份", "数据库备份", roles=("user", "tool"), terms=message_terms("数据库备份")
    )
    hits = look(room, "数据库备份").hits
    scored = {
        one.hit.id: one for one in (score_message(hit=h, settings=settings, now=NOW) for h in hits)
    }
    user, tool = scored[turn[0].pk], scored[turn[1].pk]
    assert (user.tier, tool.tier) == ("stated", "untrusted")
    assert 1 >= user.score > tool.score > 0
    later = score_message(hit=user.hit, settings=settings, now=NOW + timedelta(days=30))
    assert later.scores.recency == pytest.approx(0.5)
