"""The only writer of memory items and their versions.

Whoever writes holds the lock of the owner's items from before its first look until its transaction
ends, so that versions have no gaps and nobody overwrites what nobody saw. The order of locks is:
the owner's items, jobs, the shelf.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Final

from django.db import connection

from memory.cleared import Cleared
from memory.ids import new_id
from memory.models import ItemStatus, MemoryItem, MemoryItemVersion
from memory.querysets import ScopedQuerySet
from memory.retrieval.learned_records import item_record
from memory.scope import Scope
from memory.store.entries import NewEntry, add_entries, remove_entries
from memory.store.shelves import Owner, ensure_shelf, find_shelf
from memory.trust import TIERS

_LOCK: Final = "SELECT pg_advisory_xact_lock(%s)"
_SAID: Final = tuple(
    "key_folded title content pii tier origin run_id confidence expires_at".split()
)
_OF_VERSION: Final = tuple(
    "end_user_id team_id version title content tier origin run_id confidence expires_at written_by"
    "".split()
)


@dataclass(frozen=True, slots=True, kw_only=True)
class ItemPlace:
    """Which item: its owner, role, category and key; unique among the active ones of a tenant."""

    owner: Owner
    role: str
    category: str
    key: str


@dataclass(frozen=True, slots=True, kw_only=True)
class NewItem:
    """What an item is to say from now on, as the gate let it through.

    Attributes:
        key_folded: Key and title as the guard against similar keys compares them.
        tier: That of the weakest of its texts.
        is_held: Whether a person has to look at it before it takes effect.
        run_id: The succeeded run it comes from, if one does.
        written_by: The principal's id.
    """

    place: ItemPlace
    key_folded: str
    title: Cleared
    content: Cleared
    tier: str
    origin: str
    written_by: str
    is_held: bool = False
    run_id: str | None = None
    confidence: float | None = None
    expires_at: datetime | None = None

    @property
    def status(self) -> ItemStatus:
        """Whether it takes effect at once."""
        return ItemStatus.HELD if self.is_held else ItemStatus.ACTIVE


@dataclass(frozen=True, slots=True, kw_only=True)
class StoredItem:
    """An item as it stands now, whether it is new, and whether this write changed anything."""

    item: MemoryItem
    is_new: bool
    is_changed: bool


def lock_items(*, scope: Scope, owner: Owner) -> None:
    """Let whoever writes items of this owner wait until the transaction ends. Cost: one statement."""
    name = f"items {scope.tenant_id} {owner.end_user_id} {owner.team_id}"
    digest = hashlib.sha256(name.encode()).digest()
    with connection.cursor() as cursor:
        cursor.execute(_LOCK, (int.from_bytes(digest[:8], "big", signed=True),))


def items_at(*, scope: Scope, place: ItemPlace) -> ScopedQuerySet[MemoryItem]:
    """Return the query of the active and the held item of one place."""
    return MemoryItem.objects.in_scope(scope).filter(
        end_user_id=place.owner.end_user_id,
        team_id=place.owner.team_id,
        role=place.role,
        category=place.category,
        key=place.key,
    )


def put_item(
    *, scope: Scope, new: NewItem, now: datetime, ask: Callable[[str], None]
) -> StoredItem:
    """Store an item or its next version; the same text again changes nothing, but raises its tier.

    The owner's items are locked here. A held item is in no index. Cost: two statements for what is
    there already, about ten for a change.

    Args:
        scope: Of the open transaction.
        new: What it is to say.
        now: When.
        ask: Asks for the vectors of a shelf; called with its id before it is locked.

    Raises:
        IntegrityError: The run has not succeeded, or is another person's.
    """
    lock_items(scope=scope, owner=new.place.owner)
    rows = items_at(scope=scope, place=new.place)
    there = {item.status: item for item in rows.select_for_update(of=("self",))}
    over = [item for item in there.values() if item.expires_at and item.expires_at <= now]
    if over:  # what it said is over, and its history with it
        remove_items(scope=scope, items=over)
        there = {status: item for status, item in there.items() if item not in over}
    found = there.get(new.status)
    if found is not None and not _is_change(found, new):
        return StoredItem(item=found, is_new=False, is_changed=False)
    item = found or _made(scope, new, now)
    _say(item, new, now)
    item.save(force_insert=found is None)
    _keep_version(scope, item, now)
    if item.status == ItemStatus.ACTIVE:
        _index(scope, item, now, ask)
    return StoredItem(item=item, is_new=not there, is_changed=True)


def release(
    *, scope: Scope, held: MemoryItem, written_by: str, now: datetime, ask: Callable[[str], None]
) -> MemoryItem:
    """Let a held item take effect: as the next version of the active one, or as the item itself.

    Inside the caller's transaction, which has locked the owner's items. Cost: about a dozen
    statements.
    """
    rows = items_at(scope=scope, place=place_of(held)).filter(status=ItemStatus.ACTIVE)
    active = rows.select_for_update(of=("self",)).first()
    if active is None:
        held.status, held.updated_at, held.written_by = ItemStatus.ACTIVE, now, written_by
        held.save(update_fields=["status", "updated_at", "written_by"])
        _index(scope, held, now, ask)
        return held
    for name in _SAID:
        setattr(active, name, getattr(held, name))
    active.version, active.updated_at, active.written_by = active.version + 1, now, written_by
    remove_items(scope=scope, items=[held])
    active.save()
    _keep_version(scope, active, now)
    _index(scope, active, now, ask)
    return active


def set_back(
    *,
    scope: Scope,
    item: MemoryItem,
    to: MemoryItemVersion,
    key_folded: str,
    pii: Sequence[dict[str, Any]],
    now: datetime,
    ask: Callable[[str], None],
) -> None:
    """Let an item say what an earlier version of it says, which is its newest one from now on.

    Inside the caller's transaction, which has locked the owner's items and deletes what came after
    `to`. Cost: about eight statements.
    """
    for name in _OF_VERSION:
        setattr(item, name, getattr(to, name))
    item.key_folded, item.pii, item.updated_at = key_folded, list(pii), now
    item.save()
    if item.status == ItemStatus.ACTIVE:
        shelf_id = ensure_shelf(scope=scope, owner=owner_of(item))
        remove_entries(scope=scope, shelf_id=shelf_id, item_ids=[item.pk])
        _index(scope, item, now, ask)


def remove_items(*, scope: Scope, items: Sequence[MemoryItem]) -> int:
    """Delete items with their versions, index entries and vectors; return how many there were.

    Inside the caller's transaction, which has locked the owners' items. Cost: a few statements, and
    three an owner.
    """
    for owner in sorted({owner_of(item) for item in items}, key=repr):
        shelf_id = find_shelf(scope=scope, owner=owner)
        if shelf_id is not None:
            ids = [item.pk for item in items if owner_of(item) == owner]
            remove_entries(scope=scope, shelf_id=shelf_id, item_ids=ids)
    ids = [item.pk for item in items]
    MemoryItemVersion.objects.in_scope(scope).filter(item_id__in=ids).delete()
    rows = MemoryItem.objects.in_scope(scope).filter(pk__in=ids)
    count = rows.count()
    rows.delete()
    return count


def owner_of(item: MemoryItem) -> Owner:
    """Return whose an item is."""
    return Owner(end_user_id=item.end_user_id, team_id=item.team_id)


def place_of(item: MemoryItem) -> ItemPlace:
    """Return where an item stands."""
    return ItemPlace(owner=owner_of(item), role=item.role, category=item.category, key=item.key)


def _made(scope: Scope, new: NewItem, now: datetime) -> MemoryItem:
    place = new.place
    return MemoryItem(
        id=new_id("mem"),
        tenant_id=scope.tenant_id,
        end_user_id=place.owner.end_user_id,
        team_id=place.owner.team_id,
        role=place.role,
        category=place.category,
        key=place.key,
        status=new.status,
        version=0,
        created_at=now,
    )


def _is_change(item: MemoryItem, new: NewItem) -> bool:
    """Say whether a write says something new; believing the same more is something new as well."""
    said = (item.title, item.content, item.expires_at)
    if said != (new.title.text, new.content.text, new.expires_at):
        return True
    return TIERS.index(new.tier) < TIERS.index(item.tier)


def _say(item: MemoryItem, new: NewItem, now: datetime) -> None:
    item.key_folded = new.key_folded
    item.title, item.content = new.title.text, new.content.text
    item.pii = [
        *new.content.pii_json(),
        *({**span, "field": "title"} for span in new.title.pii_json()),
    ]
    item.tier, item.origin, item.confidence = new.tier, new.origin, new.confidence
    item.run_id, item.expires_at = new.run_id, new.expires_at
    item.written_by, item.updated_at = new.written_by, now
    item.version += 1


def _keep_version(scope: Scope, item: MemoryItem, now: datetime) -> None:
    values: dict[str, Any] = {name: getattr(item, name) for name in _OF_VERSION}
    MemoryItemVersion(tenant_id=scope.tenant_id, item_id=item.pk, at=now, **values).save(
        force_insert=True
    )


def _index(scope: Scope, item: MemoryItem, now: datetime, ask: Callable[[str], None]) -> None:
    """Let an item be found by what it says now."""
    owner = owner_of(item)
    shelf_id = ensure_shelf(scope=scope, owner=owner)
    ask(shelf_id)
    if item.version > 1:
        remove_entries(scope=scope, shelf_id=shelf_id, item_ids=[item.pk])
    entry = NewEntry(
        kind="item",
        packed=item_record(
            item_id=item.pk,
            role=item.role,
            key=item.key,
            title=item.title,
            content=item.content,
            said_at=item.updated_at,
        ),
        tier=item.tier,
        as_of=item.updated_at,
        role=item.role,
        item_id=item.pk,
        confidence=item.confidence,
    )
    add_entries(scope=scope, owner=owner, entries=[entry], now=now)
