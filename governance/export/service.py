"""What a key may ask about a person: export, links, erasure, holds; governance.access is asked here."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Final, get_args

from governance import access
from governance.access import Principal
from governance.erasure import holds, requests
from governance.erasure.requests import Preview
from governance.export.lines import Export, export_person
from governance.export.links import DEFAULT_HOURS, NewLink, make_link, revoke_link
from governance.models import Erasure, ErasureMode, ErasureStatus, LegalHold
from governance.pii.kinds import Kind
from governance.tenants import check_user_id, find_end_user, same_in_any_form
from governance.tombstones import hmacs_of
from memory.errors import InvalidInputError, NotFoundError
from memory.ids import is_id
from memory.models import EndUser
from memory.querysets import ScopedQuerySet
from memory.rls import scoped_transaction
from memory.scope import Scope

KINDS: Final = tuple(sorted(get_args(Kind)))


class UnknownKindError(InvalidInputError):
    """There is no such kind of personal data."""

    code = "unknown_kind"


@dataclass(frozen=True, slots=True, kw_only=True)
class ErasureWish:
    """How much of a person is to go.

    Attributes:
        mode: `all`, or `tagged` for what is tagged as personal in their texts.
        kinds: With `tagged`, only these kinds; empty for all.
        before_at: With `tagged`, only texts from before this time.
    """

    mode: ErasureMode
    kinds: tuple[str, ...] = ()
    before_at: datetime | None = None

    def __post_init__(self) -> None:
        """Refuse kinds that nobody knows.

        Raises:
            UnknownKindError: There is no such kind.
        """
        unknown = sorted(set(self.kinds) - set(KINDS))
        if unknown:
            known = ", ".join(KINDS)
            raise UnknownKindError(f"There is no kind {unknown[0]!r}; there are {known}.")


def export_of(*, principal: Principal, user_id: str, now: datetime) -> Export:
    """Return the export of a person; of one nobody knows, its first and its last line.

    Raises:
        ForbiddenError: The principal may not act for this person.
    """
    scope, person = _look(principal, user_id)
    return export_person(scope=scope, person=person, user_id=user_id, now=now, via="api")


def link_of(
    *, principal: Principal, user_id: str, now: datetime, valid_hours: int = DEFAULT_HOURS
) -> NewLink:
    """Make a link to a person's export.

    Raises:
        ForbiddenError: The principal may not act for this person.
        NotFoundError: Nobody knows that person.
    """
    scope, person = _person(principal, user_id)
    return make_link(scope=scope, person=person, now=now, valid_hours=valid_hours)


def end_link(*, principal: Principal, link_id: str, now: datetime) -> None:
    """End a link.

    Raises:
        NotFoundError: There is none within the principal's reach.
    """
    access.require_reach(principal=principal)
    revoke_link(scope=access.tenant_scope(principal), link_id=link_id, now=now)


def erase(*, principal: Principal, user_id: str, wish: ErasureWish, now: datetime) -> Erasure:
    """Ask for an erasure; one that is not finished is returned, so asking again is harmless.

    Raises:
        ForbiddenError: The principal may not act for this person.
        NotFoundError: Nobody knows that person.
        LegalHoldError: A hold is on the person.
        ErasureRunningError: An erasure of the other mode is not finished.
    """
    scope, person = _look(principal, user_id)
    if person is None:
        return _unfinished(scope, user_id, wish)
    return requests.request_erasure(
        scope=scope,
        person=person,
        mode=wish.mode,
        kinds=wish.kinds,
        before_at=wish.before_at,
        now=now,
    )


def preview(*, principal: Principal, user_id: str, wish: ErasureWish) -> Preview:
    """Count what would go.

    Raises:
        ForbiddenError: The principal may not act for this person.
        NotFoundError: Nobody knows that person.
    """
    scope, person = _person(principal, user_id)
    return requests.preview(
        scope=scope, person=person, mode=wish.mode, kinds=wish.kinds, before_at=wish.before_at
    )


def hold(*, principal: Principal, user_id: str, reason: str, now: datetime) -> LegalHold:
    """Put a person under legal hold; the same again returns the one there is.

    Raises:
        ForbiddenError: The principal may not act for this person.
        NotFoundError: Nobody knows that person.
        ErasureRunningError: An erasure has begun.
    """
    scope, person = _person(principal, user_id)
    return holds.place_hold(scope=scope, person=person, reason=reason, now=now)


def release(*, principal: Principal, user_id: str, now: datetime) -> None:
    """Release a person's legal hold, if there is one.

    Raises:
        ForbiddenError: The principal may not act for this person.
        NotFoundError: Nobody knows that person.
    """
    scope, person = _person(principal, user_id)
    holds.release_hold(scope=scope, person=person, now=now)


def erasures_of(*, principal: Principal) -> ScopedQuerySet[Erasure]:
    """Return the query of the erasures within reach.

    Raises:
        ForbiddenError: The principal holds grants for some persons only.
    """
    access.require_reach(principal=principal)
    return requests.erasures_of(scope=access.tenant_scope(principal))


def erasure_of(*, principal: Principal, erasure_id: str) -> Erasure:
    """Return one erasure.

    Raises:
        NotFoundError: There is none within reach.
    """
    access.require_reach(principal=principal)
    return requests.find_erasure(scope=access.tenant_scope(principal), erasure_id=erasure_id)


def retry(*, principal: Principal, erasure_id: str, now: datetime) -> Erasure:
    """Let a failed erasure go on.

    Raises:
        ErasureNotFailedError: It has not failed.
        NotFoundError: There is none within reach.
    """
    access.require_reach(principal=principal)
    scope = access.tenant_scope(principal)
    return requests.retry_erasure(scope=scope, erasure_id=erasure_id, now=now)


def _look(principal: Principal, user_id: str) -> tuple[Scope, EndUser | None]:
    """Return the person of an id, if anybody knows one, in the principal's scope."""
    wide = access.tenant_scope(principal)
    if not is_id(user_id, prefix="usr"):
        check_user_id(same_in_any_form(user_id))
    with scoped_transaction(wide):
        person = find_end_user(scope=wide, user_id=user_id)
    if person is None:
        access.require_act_for_anybody(principal=principal)
        return wide, None
    access.scope_for_user(principal=principal, end_user=person)
    return wide, person


def _person(principal: Principal, user_id: str) -> tuple[Scope, EndUser]:
    scope, person = _look(principal, user_id)
    if person is None:
        raise NotFoundError
    return scope, person


def _unfinished(scope: Scope, user_id: str, wish: ErasureWish) -> Erasure:
    """Return the erasure under way of somebody whom nobody finds any more."""
    rows = requests.erasures_of(scope=scope).filter(
        status__in=[ErasureStatus.QUEUED, ErasureStatus.RUNNING], mode=wish.mode
    )
    if is_id(user_id, prefix="usr"):
        rows = rows.filter(subject_id=user_id)
    else:
        known: Sequence[str] = hmacs_of(tenant_id=scope.tenant_id, user_id=user_id)
        rows = rows.filter(subject_hmac__in=known)
    with scoped_transaction(scope):
        found = rows.order_by("-created_at", "-id").first()
    if found is None:
        raise NotFoundError
    return found
