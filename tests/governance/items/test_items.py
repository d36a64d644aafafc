"""Items in the domain: held, released, refused, expired; twenty writers at once."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from datetime import datetime, timedelta
from functools import partial
from typing import Any

import pytest
from django.db import connections

from governance.decisions import AlreadyDecidedError
from governance.items import items
from governance.items.clearing import Words, clear
from governance.items.items import Stamp
from governance.items.problems import BlockedByRedLineError, NotSucceededError, SimilarKeyError
from governance.models import AuditEntry
from governance.policy_rules import effective
from memory.errors import CredenceError, NotFoundError
from memory.models import EndUser, IndexEntry, MemoryItem, MemoryItemVersion, Tenant
from memory.rls import scoped_transaction
from memory.scope import Scope
from memory.store.items import ItemPlace, StoredItem
from memory.store.shelves import Owner
from tests.factories import NOW, make_end_user, make_tenant, scope_of

AT_ONCE = 20


@dataclass
class Shelf:
    """A person's items."""

    tenant: Tenant
    person: EndUser

    @property
    def scope(self) -> Scope:
        return scope_of(self.tenant, self.person)

    def put(
        self,
        content: str = "学到第 12 课",
        key: str = "course",
        title: str = "标日学习",
        *,
        is_held: bool = False,
        least: float | None = 0.8,
        expires_at: datetime | None = None,
        tier: str = "stated",
        now: datetime = NOW,
    ) -> StoredItem:
        policy = effective({"pii_contact": "hold"})
        if is_held:
            content = f"{content} 13800138000"
        words = Words(key=key, title=title, content=content)
        cleared = clear(words=words, tier=tier, policy=policy)
        assert cleared.is_held is is_held
        place = ItemPlace(
            owner=Owner(end_user_id=self.person.pk), role="default", category="memo", key=key
        )
        stamp = Stamp(origin="api", written_by="test", confidence=0.8, expires_at=expires_at)
        return items.put_item(
            scope=self.scope, place=place, cleared=cleared, stamp=stamp, now=now, least=least
        )

    def rows(self, model: Any = MemoryItem) -> list[Any]:
        scope = scope_of(self.tenant)
        with scoped_transaction(scope):
            return list(model.objects.in_scope(scope).order_by("id"))

    def acts(self) -> Counter[str]:
        return Counter(row.action for row in self.rows(AuditEntry))

    def contents(self) -> list[str]:
        with scoped_transaction(self.scope):
            return [one.content for one in items.active_items(scope=self.scope, now=NOW)]


@pytest.fixture
def shelf(db: None) -> Shelf:
    tenant = make_tenant()
    return Shelf(tenant, make_end_user(tenant))


@pytest.fixture
def busy(committed_db: None) -> Shelf:
    tenant = make_tenant()
    return Shelf(tenant, make_end_user(tenant))


def test_held_item_is_in_no_index_until_it_is_released(shelf: Shelf) -> None:
    held = shelf.put(is_held=True)
    assert (held.item.status, held.is_new) == ("held", True)
    assert shelf.contents() == shelf.rows(IndexEntry) == []
    item = items.release_item(scope=shelf.scope, item_id=held.item.pk, by="staff:1", now=NOW)
    assert (item.pk, item.status) == (held.item.pk, "active")
    assert shelf.contents() == [held.item.content]
    assert [entry.item_id for entry in shelf.rows(IndexEntry)] == [item.pk]


def test_released_item_becomes_the_next_version_of_the_one_in_effect(shelf: Shelf) -> None:
    active = shelf.put("第 12 课").item
    held = shelf.put("第 13 课", is_held=True)
    assert held.is_new is False
    item = items.release_item(scope=shelf.scope, item_id=held.item.pk, by="staff:1", now=NOW)
    assert (item.pk, item.version) == (active.pk, 2)
    assert item.content.startswith("第 13 课")
    assert len(shelf.rows()) == len(shelf.rows(IndexEntry)) == 1
    versions = [one.version for one in shelf.rows(MemoryItemVersion)]
    assert versions == [1, 2]


def test_same_decision_again_answers_alike_and_another_one_is_a_conflict(shelf: Shelf) -> None:
    shelf.put()
    held = shelf.put("第 13 课", is_held=True).item
    release = {"scope": shelf.scope, "item_id": held.pk, "by": "staff:1", "now": NOW}
    first = items.release_item(**release)  # type: ignore[arg-type]
    again = items.release_item(**release)  # type: ignore[arg-type]
    assert (again.pk, again.version) == (first.pk, first.version)
    assert shelf.acts()["item_released"] == 1
    with pytest.raises(AlreadyDecidedError):
        items.refuse_item(reason="", **release)  # type: ignore[arg-type]


def test_refused_item_is_gone_and_stays_refused(shelf: Shelf) -> None:
    shelf.put()
    held = shelf.put("第 13 课", is_held=True).item
    refuse = {"scope": shelf.scope, "item_id": held.pk, "by": "staff:1", "now": NOW}
    for _ in range(2):
        items.refuse_item(reason="too much", **refuse)  # type: ignore[arg-type]
    assert [item.status for item in shelf.rows()] == ["active"]
    assert shelf.acts()["item_refused"] == 1
    assert "too much" not in str([row.detail for row in shelf.rows(AuditEntry)])
    with pytest.raises(AlreadyDecidedError):
        items.release_item(**refuse)  # type: ignore[arg-type]


def test_item_in_effect_can_not_be_refused_and_unknown_ones_are_not_found(shelf: Shelf) -> None:
    item = shelf.put().item
    with pytest.raises(AlreadyDecidedError):
        items.refuse_item(scope=shelf.scope, item_id=item.pk, by="s", reason="", now=NOW)
    released = items.release_item(scope=shelf.scope, item_id=item.pk, by="s", now=NOW)
    assert released.version == 1
    gone = "mem_00000000000000000000000000"
    with pytest.raises(NotFoundError):
        items.release_item(scope=shelf.scope, item_id=gone, by="s", now=NOW)
    with pytest.raises(NotFoundError):
        items.refuse_item(scope=shelf.scope, item_id=gone, by="s", reason="", now=NOW)
    with pytest.raises(NotFoundError):
        items.delete_item(scope=shelf.scope, item_id=gone, now=NOW)


@pytest.mark.req("B16")
def test_deleted_item_leaves_only_its_audit_rows(shelf: Shelf) -> None:
    item = shelf.put().item
    shelf.put("第 13 课")
    items.delete_item(scope=shelf.scope, item_id=item.pk, now=NOW)
    assert shelf.rows() == shelf.rows(MemoryItemVersion) == shelf.rows(IndexEntry) == []
    assert shelf.acts()["memory_deleted"] == 1
    assert shelf.acts()["memory_written"] == 2


@pytest.mark.req("B15")
def test_expire_deletes_what_is_over_the_oldest_first_and_nothing_else(shelf: Shelf) -> None:
    for hours, key in ((3, "third"), (1, "first"), (2, "second")):
        shelf.put(key=key, title=key, least=None, expires_at=NOW + timedelta(hours=hours))
    shelf.put(key="forever", title="Forever")
    later = NOW + timedelta(hours=2)
    wide = scope_of(shelf.tenant)
    assert items.expire(scope=wide, now=NOW, most=10) == 0
    assert items.expire(scope=wide, now=later, most=1) == 1
    assert "first" not in {item.key for item in shelf.rows()}
    assert items.expire(scope=wide, now=later, most=10) == 1
    assert items.expire(scope=wide, now=later, most=10) == 0
    assert {item.key for item in shelf.rows()} == {"third", "forever"}
    assert len(shelf.rows(IndexEntry)) == len(shelf.rows(MemoryItemVersion)) == 2
    assert shelf.acts()["memory_expired"] == 2


def test_expired_name_is_no_neighbour(shelf: Shelf) -> None:
    soon = NOW + timedelta(hours=1)
    shelf.put(key="standard_japan", expires_at=soon)
    values: dict[str, Any] = {"key": "standard_japanese", "title": "Standard Japanese"}
    with pytest.raises(SimilarKeyError) as caught:
        shelf.put(**values)
    assert [one.key for one in caught.value.keys] == ["standard_japan"]
    assert shelf.put(now=soon, **values).is_new


def test_same_text_changes_nothing_but_may_be_believed_more(shelf: Shelf) -> None:
    shelf.put(tier="observed")
    assert shelf.put(tier="observed").is_changed is False
    raised = shelf.put(tier="approved")
    assert (raised.is_changed, raised.item.tier, raised.item.version) == (True, "approved", 2)
    assert shelf.put(tier="observed").item.tier == "approved"


@pytest.mark.req("B13", "B21")
@pytest.mark.parametrize("status", ["failed", "cancelled", "rejected", "running", "queued"])
def test_gate_lets_nothing_of_an_unsuccessful_run_through(status: str) -> None:
    words = Words(key="course", title="标日学习", content="第 12 课")
    with pytest.raises(NotSucceededError):
        clear(words=words, tier="observed", policy=None, run_status=status)


def test_red_line_is_refused_by_name() -> None:
    words = Words(key="score", title="Score", content="user credit score: 540, reject them")
    for text in ("他有抑郁症，正在吃药", "She has HIV and takes medication"):
        with pytest.raises(BlockedByRedLineError):
            clear(
                words=Words(key=words.key, title=words.title, content=text),
                tier="stated",
                policy=None,
            )


def at_once(works: Sequence[Callable[[], Any]]) -> Counter[str]:
    """Run all of it at the same time and count how each ended."""

    def one(work: Callable[[], Any]) -> str:
        try:
            work()
        except CredenceError as error:
            return error.code
        finally:
            connections.close_all()
        return "ok"

    with ThreadPoolExecutor(len(works)) as pool:
        return Counter(pool.map(one, works))


@pytest.mark.req("C01")
def test_twenty_writers_of_one_key_make_one_item_with_dense_versions(busy: Shelf) -> None:
    def write(number: int) -> Callable[[], Any]:
        return lambda: busy.put(f"第 {number} 课")

    assert at_once([write(number) for number in range(AT_ONCE)]) == {"ok": AT_ONCE}
    [item] = busy.rows()
    assert item.version == AT_ONCE
    versions = busy.rows(MemoryItemVersion)
    assert sorted(one.version for one in versions) == list(range(1, AT_ONCE + 1))
    assert len({one.content for one in versions}) == AT_ONCE
    assert len(busy.rows(IndexEntry)) == 1
    assert busy.acts()["memory_written"] == AT_ONCE


@pytest.mark.req("C01")
def test_twenty_writers_of_the_same_text_make_one_version(busy: Shelf) -> None:
    assert at_once([busy.put] * AT_ONCE) == {"ok": AT_ONCE}
    assert [item.version for item in busy.rows()] == [1]
    assert busy.acts()["memory_written"] == 1


@pytest.mark.req("C04")
def test_of_similar_keys_written_at_once_one_is_stored(busy: Shelf) -> None:
    keys = [f"{'standard_japanese'[: 14 + number % 4]}" for number in range(4)]
    works = [partial(busy.put, key=key, title="Standard Japanese") for key in keys]
    ended = at_once(works)
    assert ended == {"ok": 1, "similar_key": len(keys) - 1}
    assert len(busy.rows()) == 1


def test_twenty_writers_of_other_keys_are_all_stored(busy: Shelf) -> None:
    names = (
        "apple bicycle cinema doctor engine forest guitar harbor island jungle kitchen lantern"
        " museum notebook orchestra pencil quarry river sunset tunnel"
    ).split()
    works = [partial(busy.put, key=name, title=name) for name in names]
    assert at_once(works) == {"ok": AT_ONCE}
    assert len(busy.rows()) == AT_ONCE


def test_twenty_releases_of_one_item_write_one_version(busy: Shelf) -> None:
    busy.put()
    held = busy.put("第 13 课", is_held=True).item

    def release() -> Any:
        return items.release_item(scope=busy.scope, item_id=held.pk, by="staff:1", now=NOW)

    assert at_once([release] * AT_ONCE) == {"ok": AT_ONCE}
    assert [item.version for item in busy.rows()] == [2]
    assert busy.acts()["item_released"] == 1
