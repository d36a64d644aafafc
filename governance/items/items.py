"""Memory items: put, delete, release or refuse what is held, expire; each act audited.

Nothing here asks who may: the caller's scope says which items there are.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime
from typing import Final

from django.db.models import Q

from governance import audit, gate
from governance.decisions import AlreadyDecidedError
from governance.items.clearing import ClearedItem
from governance.items.problems import SimilarKeyError
from governance.items.similarity import Named, similar_keys
from governance.models import AuditEntry
from memory import jobs
from memory.errors import NotFoundError
from memory.models import ItemStatus, MemoryItem
from memory.querysets import ScopedQuerySet
from memory.rls import scoped_transaction
from memory.scope import Scope
from memory.store import items as stored_items
from memory.store.items import ItemPlace, NewItem, StoredItem, owner_of
from memory.store.shelves import Owner

KIND: Final = "item"
DEFAULT_ROLE: Final = "default"
_RELEASED: Final = "item_released"
_REFUSED: Final = "item_refused"
_MOST_TRIES: Final = 4
# Of more items than these the oldest names are not compared.
_MOST_COMPARED: Final = 1_000


@dataclass(frozen=True, slots=True, kw_only=True)
class Stamp:
    """Where an item comes from, how sure of it one may be, and until when it holds."""

    origin: str
    written_by: str
    run_id: str | None = None
    confidence: float | None = None
    expires_at: datetime | None = None


def active_items(*, scope: Scope, now: datetime) -> ScopedQuerySet[MemoryItem]:
    """Return the query of the items that are in effect: neither held nor past their end."""
    rows = MemoryItem.objects.in_scope(scope).filter(status=ItemStatus.ACTIVE)
    return rows.filter(Q(expires_at__isnull=True) | Q(expires_at__gt=now))


def put_item(
    *,
    scope: Scope,
    place: ItemPlace,
    cleared: ClearedItem,
    stamp: Stamp,
    now: datetime,
    least: float | None,
) -> StoredItem:
    """Store an item under a key, unless that key is new and close to another one.

    Names are compared outside of transactions; what others wrote meanwhile is compared before the
    write. Cost: about a dozen statements, and the comparing.

    Args:
        scope: May write for the owner.
        place: Whose, in which role and category, under which key.
        cleared: What it says.
        stamp: Where that comes from.
        now: When.
        least: From which likeness on a new key is refused; None to take any.

    Raises:
        SimilarKeyError: The key is new and close to another one.
    """
    title = cleared.title.text
    seen: frozenset[Named] = frozenset()
    for tries_left in range(_MOST_TRIES, -1, -1):
        if least is not None:
            seen = guard_key(scope=scope, place=place, title=title, least=least, now=now)
        with scoped_transaction(scope):
            stored_items.lock_items(scope=scope, owner=place.owner)
            others = None if least is None else _others(scope, place, now)
            if others and (unseen := [one for one in others if one not in seen]):
                if tries_left:
                    continue
                _check(place, title, unseen, least, by_meaning=False)
            return write_item(scope=scope, place=place, cleared=cleared, stamp=stamp, now=now)
    raise AssertionError  # pragma: no cover - the last round ends it


def guard_key(
    *, scope: Scope, place: ItemPlace, title: str, least: float, now: datetime
) -> frozenset[Named]:
    """Return the names that a key was compared with; none where the key is there already.

    Call it with no transaction open. Cost: two queries, and the comparing.

    Raises:
        SimilarKeyError: The key is new and close to another one.
    """
    with scoped_transaction(scope):
        others = _others(scope, place, now)
    if others is None:
        return frozenset()
    _check(place, title, others, least)
    return frozenset(others)


def write_item(
    *, scope: Scope, place: ItemPlace, cleared: ClearedItem, stamp: Stamp, now: datetime
) -> StoredItem:
    """Store an item and its audit row in the caller's transaction; the same text changes nothing.

    Cost: three statements, about fifteen for a change.

    Raises:
        IntegrityError: Its run has not succeeded, or is another person's.
    """
    new = NewItem(
        place=place,
        key_folded=cleared.key_folded,
        title=cleared.title,
        content=cleared.content,
        tier=cleared.tier,
        origin=stamp.origin,
        written_by=stamp.written_by,
        is_held=cleared.is_held,
        run_id=stamp.run_id,
        confidence=stamp.confidence,
        expires_at=stamp.expires_at,
    )
    done = stored_items.put_item(
        scope=scope, new=new, now=now, ask=_asking(scope, place.owner, now)
    )
    if done.is_changed:
        gate.record_written(
            scope=scope,
            kind=KIND,
            target_id=done.item.pk,
            cleared=(cleared.title, cleared.content),
            now=now,
            run_id=stamp.run_id,
            origin=stamp.origin,
        )
    return done


def delete_item(*, scope: Scope, item_id: str, now: datetime) -> None:
    """Delete an item, its versions, its index entry and vectors. Cost: about a dozen statements.

    Raises:
        NotFoundError: There is none in scope.
    """
    with scoped_transaction(scope):
        item = _locked(scope, item_id)
        if item is None:
            raise NotFoundError
        stored_items.remove_items(scope=scope, items=[item])
        _audit(scope, "memory_deleted", item, now)


def delete_place(*, scope: Scope, place: ItemPlace, now: datetime) -> None:
    """Delete the item of a place and what is held beside it, with all that was found of them.

    Cost: about two dozen statements.
    """
    with scoped_transaction(scope):
        stored_items.lock_items(scope=scope, owner=place.owner)
        found = list(stored_items.items_at(scope=scope, place=place).order_by("id"))
        stored_items.remove_items(scope=scope, items=found)
        for item in found:
            _audit(scope, "memory_deleted", item, now)


def release_item(*, scope: Scope, item_id: str, by: str, now: datetime) -> MemoryItem:
    """Let a held item take effect; releasing again changes nothing.

    Where an active item has the key, it takes over what the held one says as its next version.
    Cost: about fifteen statements.

    Raises:
        NotFoundError: There is none in scope.
        AlreadyDecidedError: It was refused.
    """
    with scoped_transaction(scope):
        held = _locked(scope, item_id)
        if held is None:
            return _released(scope, item_id)
        if held.status != ItemStatus.HELD:
            return held
        ask = _asking(scope, owner_of(held), now)
        # Read before, for the row may be gone afterwards.
        cleared = [gate.stored(text=text, tier=held.tier) for text in (held.title, held.content)]
        item = stored_items.release(scope=scope, held=held, written_by=by, now=now, ask=ask)
        gate.record_written(
            scope=scope,
            kind=KIND,
            target_id=item.pk,
            cleared=cleared,
            now=now,
            run_id=item.run_id,
            origin=item.origin,
        )
        audit.record(
            scope=scope,
            action=_RELEASED,
            target_kind=KIND,
            target_id=item_id,
            now=now,
            detail={"by": by, "item_id": item.pk, "version": item.version},
        )
    return item


def refuse_item(*, scope: Scope, item_id: str, by: str, reason: str, now: datetime) -> None:
    """Delete a held item; refusing again changes nothing. The reason is counted, not kept.

    Raises:
        NotFoundError: There is none in scope.
        AlreadyDecidedError: It is in effect.
    """
    with scoped_transaction(scope):
        held = _locked(scope, item_id)
        if held is None:
            if _decision(scope, item_id, _REFUSED) is None:
                _released(scope, item_id)
                raise AlreadyDecidedError
            return
        if held.status != ItemStatus.HELD:
            raise AlreadyDecidedError
        stored_items.remove_items(scope=scope, items=[held])
        audit.record(
            scope=scope,
            action=_REFUSED,
            target_kind=KIND,
            target_id=item_id,
            now=now,
            detail={"by": by, "reason_characters": len(reason)},
        )


def expire(*, scope: Scope, now: datetime, most: int) -> int:
    """Delete up to `most` items that are past their end, the oldest first; return how many.

    For the worker, in the tenant's scope. Cost: one transaction; a few statements an owner, and one
    an item.
    """
    with scoped_transaction(scope):
        rows = MemoryItem.objects.in_scope(scope).filter(expires_at__lte=now)
        found = list(rows.order_by("expires_at", "id")[:most])
        owners = sorted({owner_of(item) for item in found}, key=repr)
        for owner in owners:
            stored_items.lock_items(scope=scope, owner=owner)
        # Read again: an item may have been given more time before its owner was locked.
        over = list(rows.filter(pk__in=[item.pk for item in found]).order_by("id"))
        for item in over:
            _audit(scope, "memory_expired", item, now)
        return stored_items.remove_items(scope=scope, items=over)


def _others(scope: Scope, place: ItemPlace, now: datetime) -> list[Named] | None:
    """Return the names of the place's other items, the newest first; None where its key is there."""
    if stored_items.items_at(scope=scope, place=place).filter(_is_live(now)).exists():
        return None
    rows = active_items(scope=scope, now=now).filter(
        end_user_id=place.owner.end_user_id,
        team_id=place.owner.team_id,
        role=place.role,
        category=place.category,
    )
    named = rows.order_by("-updated_at", "-id").values_list("key", "title")[:_MOST_COMPARED]
    return [Named(key=key, title=title) for key, title in named]


def _is_live(now: datetime) -> Q:
    return Q(expires_at__isnull=True) | Q(expires_at__gt=now)


def _check(
    place: ItemPlace,
    title: str,
    others: list[Named],
    least: float | None,
    *,
    by_meaning: bool = True,
) -> None:
    new = Named(key=place.key, title=title)
    found = similar_keys(
        new=new, existing=others, least=1.0 if least is None else least, by_meaning=by_meaning
    )
    if found:
        raise SimilarKeyError(found)


def _asking(scope: Scope, owner: Owner, now: datetime) -> Callable[[str], None]:
    """Return what asks for the vectors of an owner's shelf."""

    def ask(shelf_id: str) -> None:
        job = jobs.embed_job(shelf_id=shelf_id, end_user_id=owner.end_user_id)
        jobs.enqueue(scope=scope, job=job, now=now)

    return ask


def _locked(scope: Scope, item_id: str) -> MemoryItem | None:
    """Return an item after its owner's items were locked, as it stands then."""
    rows = MemoryItem.objects.in_scope(scope).filter(pk=item_id)
    item = rows.first()
    if item is None:
        return None
    stored_items.lock_items(scope=scope, owner=owner_of(item))
    return rows.select_for_update(of=("self",)).first()


def _decision(scope: Scope, item_id: str, action: str) -> AuditEntry | None:
    rows = AuditEntry.objects.in_scope(scope).filter(action=action, target_id=item_id)
    return rows.first()


def _released(scope: Scope, item_id: str) -> MemoryItem:
    """Return the item that took over what a held one said."""
    decided = _decision(scope, item_id, _RELEASED)
    if decided is None:
        if _decision(scope, item_id, _REFUSED) is not None:
            raise AlreadyDecidedError
        raise NotFoundError
    item = MemoryItem.objects.in_scope(scope).filter(pk=decided.detail["item_id"]).first()
    if item is None:
        raise NotFoundError
    return item


def _audit(scope: Scope, action: str, item: MemoryItem, now: datetime) -> None:
    audit.record(
        scope=scope,
        action=action,
        target_kind=KIND,
        target_id=item.pk,
        now=now,
        detail={"kind": KIND, "category": item.category, "version": item.version},
    )
