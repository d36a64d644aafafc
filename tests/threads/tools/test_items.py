"""memory_upsert inside a run: what is kept in hand, what is refused, what later calls see."""

from __future__ import annotations

from typing import Any

import pytest

from governance.items.clearing import Words, clear
from governance.items.items import Stamp, write_item
from governance.policy_rules import effective
from memory.models import MemoryItem
from memory.rls import scoped_transaction
from memory.store.items import ItemPlace, StoredItem
from memory.store.shelves import Owner
from tests.factories import NOW, scope_of
from tests.threads.tools.rooms import Room, beside, use
from threads.tools.box import ToolBox
from threads.tools.records import ToolOutcome

LESSON = {"title": "标日学习", "content": "学到第 12 课"}


def upsert(box: ToolBox, key: str = "standard_japan", **values: Any) -> ToolOutcome:
    return use(box, "memory_upsert", **({"category": "progress", "key": key} | LESSON | values))


def store(room: Room, key: str, title: str, content: str, **values: Any) -> StoredItem:
    """An item as it stands in the database."""
    scope = scope_of(room.tenant, room.person)
    category = values.pop("category", "progress")
    place = ItemPlace(
        owner=Owner(end_user_id=room.person.pk),
        role=values.pop("role", room.agent.role),
        category=category,
        key=key,
    )
    cleared = clear(words=Words(key=key, title=title, content=content), tier="stated", policy=None)
    stamp = Stamp(origin="api", written_by="test", **values)
    with scoped_transaction(scope):
        return write_item(scope=scope, place=place, cleared=cleared, stamp=stamp, now=NOW)


@pytest.mark.req("C03")
def test_upsert_is_kept_in_hand_and_stores_nothing(room: Room) -> None:
    box = room.box()
    found = upsert(box)
    assert not found.is_error
    assert "progress/standard_japan" in found.content
    [item] = box.upserted
    assert (item.category, item.key, item.title, item.content) == (
        "progress", "standard_japan", "标日学习", "学到第 12 课",
    )  # fmt: skip
    with scoped_transaction(scope_of(room.tenant)):
        assert not MemoryItem.objects.in_scope(scope_of(room.tenant)).exists()


def test_same_key_again_replaces_what_it_said(room: Room) -> None:
    box = room.box()
    upsert(box)
    again = upsert(box, content="Lesson 13")
    assert again.content.startswith("Replaced")
    upsert(box, category="memo")
    assert [(item.category, item.content) for item in box.upserted] == [
        ("progress", "Lesson 13"),
        ("memo", "学到第 12 课"),
    ]


@pytest.mark.req("C03")
def test_preferences_are_read_only_for_the_agent(room: Room) -> None:
    box = room.box()
    found = upsert(box, category="user_preferences")
    assert found.is_error
    assert "read-only" in found.content
    assert box.upserted == ()
    offered = box._tools["memory_upsert"].spec().parameters["properties"]
    assert offered["category"]["enum"] == ["progress", "memo"]  # type: ignore[index]


@pytest.mark.parametrize(
    ("values", "said"),
    [
        ({"category": "diary"}, "category"),
        ({"key": "Standard Japan"}, "such as standard_japan."),
        ({"content": "学" * 501}, "500"),
        ({"title": "t" * 201}, "200"),
        ({"content": "   "}, "empty"),
        ({"content": 5}, "string"),
        ({"user_id": "usr_2"}, "Unknown argument"),
        ({"role": "tutor"}, "Unknown argument"),
        ({"expires_at": "2030-01-01"}, "Unknown argument"),
        ({"team": "t"}, "Unknown argument"),
    ],
)
def test_what_does_not_fit_is_an_error_result(room: Room, values: Any, said: str) -> None:
    box = room.box()
    found = upsert(box, **values)
    assert found.is_error
    assert said in found.content
    assert box.upserted == ()


@pytest.mark.req("B19")
def test_what_policy_blocks_is_an_error_result(room: Room) -> None:
    box = room.box(policy=effective({"pii_contact": "block"}))
    found = upsert(box, content="call 13800138000")
    assert found.is_error
    assert "13800138000" not in found.content
    assert box.upserted == ()


def test_secrets_are_gone_before_anything_is_kept(room: Room) -> None:
    box = room.box()
    upsert(box, content="key sk-proj-4f9aQ7zL2mX8Kd03Bv6Yt1Rw5Ns9Hc2Je7Gu")
    assert "sk-proj" not in box.upserted[0].content


@pytest.mark.req("B13")
def test_without_writeback_nothing_is_kept(room: Room) -> None:
    box = room.box(policy=effective({"writeback": False}))
    assert upsert(box).is_error
    assert box.upserted == ()


@pytest.mark.req("C04")
def test_key_close_to_a_stored_one_is_an_error_that_names_it(room: Room) -> None:
    store(room, "standard_japan", "标日学习", "第 11 课")
    box = room.box()
    found = upsert(box, "standard_japanese", title="Standard Japanese")
    assert found.is_error
    assert "standard_japan (“标日学习”)" in found.content
    assert not upsert(box, "english_study", title="英语学习").is_error
    assert not upsert(box, "standard_japan").is_error


@pytest.mark.req("C04")
def test_key_close_to_one_of_the_same_run_is_an_error_too(room: Room) -> None:
    box = room.box()
    upsert(box)
    assert upsert(box, "standard_japanese", title="Standard Japanese").is_error
    assert len(box.upserted) == 1


def test_keys_of_another_role_or_person_are_no_neighbours(room: Room) -> None:
    store(room, "standard_japan", "标日学习", "第 11 课", role="other")
    other = beside(room, person=None)
    assert not upsert(other.box(), "standard_japanese", title="Standard Japanese").is_error


def test_one_answer_keeps_at_most_twenty_items(room: Room) -> None:
    box = room.box(policy=effective({"similar_key": 1.0}))
    for number in range(20):
        assert not upsert(box, f"chapter_{number}", title=f"Chapter {number}").is_error
    assert "at most 20" in upsert(box, "appendix", title="Appendix").content
    assert not upsert(box, "chapter_3", title="Chapter 3", content="done").is_error


def test_later_calls_of_the_run_see_what_it_keeps(room: Room) -> None:
    box = room.box()
    upsert(box, content="likes Espresso at 8, 浓缩咖啡")
    assert "likes Espresso" in use(box, "memory_grep", query="espresso*浓缩").content
    assert "likes Espresso" in use(box, "memory_search", query="espresso").content
    assert "likes Espresso" not in use(box, "memory_grep", query="oolong").content
    assert "likes Espresso" not in use(room.box(), "memory_grep", query="espresso").content


@pytest.mark.req("C01")
def test_stored_items_are_found_and_opened_in_their_role_alone(room: Room) -> None:
    item = store(room, "coffee", "咖啡", "likes espresso before lesson 3").item
    store(room, "tea", "Tea", "likes espresso too", role="other")
    for name, query in (("memory_grep", "ESPRESSO*lesson"), ("memory_search", "espresso lesson")):
        found = use(room.box(), name, query=query)
        assert item.pk in found.content, name
        assert "too" not in found.content, name
    opened = use(room.box(), "view_message", message_id=item.pk)
    assert "progress/coffee “咖啡”" in opened.content
    assert opened.content.endswith("likes espresso before lesson 3")
    assert use(beside(room, role="other").box(), "view_message", message_id=item.pk).is_error


def test_expired_items_are_neither_found_nor_opened(room: Room) -> None:
    item = store(room, "coffee", "咖啡", "likes espresso", expires_at=NOW).item
    for name in ("memory_grep", "memory_search"):
        assert item.pk not in use(room.box(), name, query="espresso").content
    assert use(room.box(), "view_message", message_id=item.pk).is_error
