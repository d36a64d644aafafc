"""Memory items for whoever speaks for a key: whose items it may read and write, as what.

On reading, an unknown person or team has no items; on writing, a person is made. A key that governs
acts for the staff: what it writes is approved, and only it may write what a person prefers.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from typing import Final

from governance import access
from governance.access import Principal
from governance.items import items
from governance.items.clearing import Words, check_key, clear
from governance.items.items import DEFAULT_ROLE, Stamp, active_items
from governance.items.problems import ExpiredError, OneOwnerError
from governance.knowledge.problems import UnknownTeamError
from governance.models import KeyScope
from governance.permissions import Permission
from governance.policy import policy_for
from governance.tenants import ensure_end_user, find_end_user
from memory.errors import NotFoundError
from memory.ids import is_id
from memory.models import EndUser, ItemCategory, MemoryItem, MemoryItemVersion, Team
from memory.querysets import ScopedQuerySet
from memory.rls import scoped_transaction
from memory.scope import Scope
from memory.store.items import ItemPlace, StoredItem, place_of
from memory.store.shelves import Owner

ORIGIN: Final = "api"
_APPROVED: Final = "approved"
_STATED: Final = "stated"
_CONFIDENCE: Final = {_APPROVED: 1.0, _STATED: 0.8}


@dataclass(frozen=True, slots=True, kw_only=True)
class Whose:
    """Whose items are meant: a person's, by the tenant's own id, or a team's, by id or name.

    `role` is None for every role on reading, and for `default` on writing.
    """

    user_id: str | None = None
    team: str | None = None
    role: str | None = None

    def __post_init__(self) -> None:
        """Let pass exactly one owner.

        Raises:
            OneOwnerError: There are two, or none.
        """
        if (self.user_id is None) == (self.team is None):
            raise OneOwnerError(field="team" if self.team else "user_id")


@dataclass(frozen=True, slots=True, kw_only=True)
class ItemWish:
    """What is to be kept under a key."""

    whose: Whose
    category: str
    words: Words
    expires_at: datetime | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class _Reach:
    """The owner of items, and the scope that reaches no other's."""

    scope: Scope
    owner: Owner
    person: EndUser | None = None


def list_items(
    *, principal: Principal, whose: Whose, category: str | None, now: datetime
) -> ScopedQuerySet[MemoryItem]:
    """Return the query of an owner's items in effect; of an unknown one, of nothing.

    Cost: up to two queries here.

    Raises:
        ForbiddenError: The key may not act for this person.
    """
    scope = access.widest_scope(principal)
    with scoped_transaction(scope):
        reach = _reading(principal, scope, whose)
        rows = active_items(scope=scope, now=now).select_related("end_user")
        if reach is None:
            return rows.none()
        rows = _of(rows, reach.owner, whose.role)
    return rows.filter(category=category) if category else rows


def read_item(
    *, principal: Principal, whose: Whose, category: str, key: str, now: datetime
) -> MemoryItem:
    """Return an item in effect; without a role that of `default`, else the newest of any.

    Cost: up to three queries.

    Raises:
        NotFoundError: There is none, or its owner is unknown.
        ForbiddenError: The key may not act for this person.
    """
    scope = access.widest_scope(principal)
    with scoped_transaction(scope):
        reach = _reading(principal, scope, whose)
        if reach is None:
            raise NotFoundError
        rows = active_items(scope=scope, now=now).select_related("end_user")
        found = list(
            _of(rows, reach.owner, whose.role)
            .filter(category=category, key=key)
            .order_by("-updated_at", "-id")
        )
    if not found:
        raise NotFoundError
    return next((item for item in found if item.role == DEFAULT_ROLE), found[0])


def history_of(
    *, principal: Principal, whose: Whose, category: str, key: str, now: datetime
) -> ScopedQuerySet[MemoryItemVersion]:
    """Return the query of an item's versions. Cost: as `read_item`.

    Raises:
        NotFoundError: As `read_item`.
        ForbiddenError: As `read_item`.
    """
    item = read_item(principal=principal, whose=whose, category=category, key=key, now=now)
    rows = MemoryItemVersion.objects.in_scope(access.widest_scope(principal))
    return rows.filter(item_id=item.pk)


def put(*, principal: Principal, wish: ItemWish, now: datetime, is_forced: bool) -> StoredItem:
    """Store an item, or its next version; its person is made on first write.

    Cost: about twenty statements, the gate, and comparing names for a key that is new.

    Raises:
        ForbiddenError: The key may not write for this owner, or not what a person prefers.
        BadKeyError: The key is not snake_case.
        ExpiredError: It would be over already.
        SimilarKeyError: The key is new and close to another one, and `is_forced` is not said.
        UnknownTeamError: There is no such team.
        InvalidInputError: As governance.items.clearing.clear.
    """
    _require_to_write(principal, wish.category)
    check_key(wish.words.key)
    if wish.expires_at is not None and wish.expires_at <= now:
        raise ExpiredError(field="expires_at")
    scope = access.tenant_scope(principal)
    with scoped_transaction(scope):
        policy = policy_for(scope=scope, agent_overrides={})
    tier = _APPROVED if KeyScope.GOVERN in principal.key_scopes else _STATED
    cleared = clear(words=wish.words, tier=tier, policy=policy)
    with scoped_transaction(scope):
        reach = _writing(principal, scope, wish.whose, now)
    done = items.put_item(
        scope=reach.scope,
        place=ItemPlace(
            owner=reach.owner,
            role=wish.whose.role or DEFAULT_ROLE,
            category=wish.category,
            key=wish.words.key,
        ),
        cleared=cleared,
        stamp=Stamp(
            origin=ORIGIN,
            written_by=principal.id,
            confidence=_CONFIDENCE[tier],
            expires_at=wish.expires_at,
        ),
        now=now,
        least=None if is_forced else policy.share("similar_key"),
    )
    done.item.end_user = reach.person
    return done


def delete(*, principal: Principal, whose: Whose, category: str, key: str, now: datetime) -> None:
    """Delete an item in effect, and what is held beside it, with versions, index and vectors.

    Without a role the one of `default`. Cost: about two dozen statements.

    Raises:
        NotFoundError: There is none, or its owner is unknown.
        ForbiddenError: The key may not write for this owner, or not what a person prefers.
    """
    _require_to_write(principal, category)
    scope = access.widest_scope(principal)
    with scoped_transaction(scope):
        reach = _reading(principal, scope, whose)
        if reach is None:
            raise NotFoundError
        if reach.owner.team_id is not None:
            access.require_act_for_anybody(principal=principal)
        rows = _of(active_items(scope=scope, now=now), reach.owner, whose.role or DEFAULT_ROLE)
        item = rows.filter(category=category, key=key).first()
        if item is None:
            raise NotFoundError
        items.delete_place(scope=scope, place=place_of(item), now=now)


def _require_to_write(principal: Principal, category: str) -> None:
    if category == ItemCategory.USER_PREFERENCES:
        principal.require_key_scope(KeyScope.GOVERN)


def _of(
    rows: ScopedQuerySet[MemoryItem], owner: Owner, role: str | None
) -> ScopedQuerySet[MemoryItem]:
    rows = rows.filter(end_user_id=owner.end_user_id, team_id=owner.team_id)
    return rows if role is None else rows.filter(role=role)


def _reading(principal: Principal, scope: Scope, whose: Whose) -> _Reach | None:
    """Return the owner to read of; None for one that is unknown, or a team out of reach."""
    if whose.user_id is None:
        team = _team(scope, whose.team or "")
        return (
            _Reach(scope=scope, owner=Owner(team_id=team))
            if _sees(principal, scope, team)
            else None
        )
    person = find_end_user(scope=scope, user_id=whose.user_id)
    if person is None:
        access.require_act_for_anybody(principal=principal)
        return None
    own = access.scope_for_user(principal=principal, end_user=person)
    return _Reach(scope=own, owner=Owner(end_user_id=person.pk))


def _sees(principal: Principal, scope: Scope, team_id: str | None) -> bool:
    """Say whether a key may read a team: one for everybody, or of a person who is in it."""
    if team_id is None:
        return False
    if principal.end_user_id is not None:
        return team_id in scope.team_ids
    return Permission.ACT_FOR in principal.permissions


def _writing(principal: Principal, scope: Scope, whose: Whose, now: datetime) -> _Reach:
    if whose.user_id is None:
        access.require_act_for_anybody(principal=principal)
        team = _team(scope, whose.team or "")
        if team is None:
            raise UnknownTeamError(field="team")
        return _Reach(scope=scope, owner=Owner(team_id=team))
    person = ensure_end_user(scope=scope, user_id=whose.user_id, now=now)
    own = access.scope_for_user(principal=principal, end_user=person)
    return _Reach(scope=own, owner=Owner(end_user_id=person.pk), person=person)


def _team(scope: Scope, team: str) -> str | None:
    rows = Team.objects.in_scope(scope)
    named = rows.filter(**{"pk" if is_id(team, prefix="team") else "name": team})
    return named.values_list("pk", flat=True).first()
