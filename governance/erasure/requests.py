"""Asking for an erasure: one row of the book, one ring of the control queue, one audit row."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime

from django.db import IntegrityError, transaction
from django.utils import timezone

from governance import audit
from governance.erasure import speakers
from governance.erasure.counting import count_person
from governance.erasure.holds import active_hold
from governance.erasure.people import lock_person, one_tenant
from governance.erasure.problems import (
    ErasureNotFailedError,
    ErasureRunningError,
    LegalHoldError,
    UnknownKindsError,
)
from governance.erasure.subjects import subject_of
from governance.erasure.tagging import tagged_eraser
from governance.keys import revoke_key
from governance.models import ApiKey
from governance.models.erasure import Erasure, ErasureMode, ErasureOrigin, ErasureStatus
from governance.tombstones import hmacs_of
from memory.errors import NotFoundError
from memory.ids import new_id
from memory.jobs.bell import ring_control
from memory.models import EndUser
from memory.querysets import ScopedQuerySet
from memory.rls import scoped_transaction
from memory.scope import Scope

_UNFINISHED = (ErasureStatus.QUEUED, ErasureStatus.RUNNING)


@dataclass(frozen=True, slots=True, kw_only=True)
class Preview:
    """What an erasure would take away now.

    Attributes:
        counts: How many rows (mode all) or places (mode tagged) of what, as the act reports them.
        is_held: A legal hold is on the person, so the act itself would be refused.
    """

    counts: dict[str, int]
    is_held: bool

    @property
    def total(self) -> int:
        """How many in all."""
        return sum(self.counts.values())


def request_erasure(
    *,
    scope: Scope,
    person: EndUser,
    mode: ErasureMode | str,
    now: datetime,
    kinds: Sequence[str] = (),
    before_at: datetime | None = None,
    is_physical: bool = False,
    origin: ErasureOrigin | str = ErasureOrigin.REQUEST,
) -> Erasure:
    """Ask for the erasure of one person, in a transaction of its own, and ring for it; audited.

    An unfinished one of the same mode is returned as it stands. Cost: six statements.

    Raises:
        LegalHoldError: A hold is on the person.
        ErasureRunningError: One of the other mode is not finished.
        NotFoundError: The person is gone, or is being erased.
        UnknownKindsError: Mode all with kinds or a time.
    """
    if mode == ErasureMode.ALL and (kinds or before_at):
        raise UnknownKindsError
    scope = one_tenant(scope, person.tenant_id)
    with scoped_transaction(scope):
        locked = lock_person(scope=scope, person_id=person.pk)
        if active_hold(scope=scope, subject_id=locked.pk) is not None:
            raise LegalHoldError
        rows = erasures_of(scope=scope).filter(subject_id=locked.pk, status__in=_UNFINISHED)
        known = rows.first()
        if known is not None and known.mode != mode:
            raise ErasureRunningError
        if known is not None:
            return known
        erasure = Erasure(
            tenant_id=locked.tenant_id,
            subject_id=locked.pk,
            subject_hmac=hmacs_of(tenant_id=locked.tenant_id, user_id=locked.user_id)[0],
            subject_epoch=locked.epoch,
            mode=mode,
            kinds=sorted(set(kinds)),
            before_at=before_at,
            origin=origin,
            is_physical=is_physical,
            requested_by=scope.principal_id,
            created_at=now,
        )
        erasure.save(force_insert=True)
        _audit(scope, "erasure_requested", erasure, now)
        if mode == ErasureMode.ALL:
            _revoke_keys(scope, locked, now)
        ring_control()
    return erasure


def _revoke_keys(scope: Scope, person: EndUser, now: datetime) -> None:
    """Let the keys that are bound to the person be worth nothing from here on."""
    keys_of_person = ApiKey.objects.in_scope(scope).filter(end_user_id=person.pk)
    for key_id in keys_of_person.order_by("id").values_list("pk", flat=True):
        revoke_key(scope=scope, key_id=key_id, now=now)


def find_erasure(*, scope: Scope, erasure_id: str) -> Erasure:
    """Return one erasure in scope, in a transaction of its own.

    Raises:
        NotFoundError: There is none.
    """
    with scoped_transaction(scope):
        found = erasures_of(scope=scope).filter(pk=erasure_id).first()
    if found is None:
        raise NotFoundError
    return found


def erasures_of(*, scope: Scope) -> ScopedQuerySet[Erasure]:
    """Return the query of the erasures in scope; a scope of one person has that person's."""
    rows = Erasure.objects.in_scope(scope)
    return rows.filter(subject_id=scope.user_id) if scope.user_id else rows


def retry_erasure(*, scope: Scope, erasure_id: str, now: datetime) -> Erasure:
    """Let a failed erasure go on where it stopped, with all its attempts; audited.

    Raises:
        ErasureNotFailedError: It has not failed.
        ErasureRunningError: A newer one of the person is not finished.
        LegalHoldError: A hold is on the person, and nothing has been erased yet.
        NotFoundError: There is none in scope.
    """
    found = find_erasure(scope=scope, erasure_id=erasure_id)
    scope = one_tenant(scope, found.tenant_id)
    with scoped_transaction(scope):
        rows = erasures_of(scope=scope).filter(pk=erasure_id)
        erasure = rows.select_for_update().get()
        if erasure.status != ErasureStatus.FAILED:
            raise ErasureNotFailedError
        if active_hold(scope=scope, subject_id=erasure.subject_id) is not None:
            raise LegalHoldError
        try:
            with transaction.atomic():
                rows.update(
                    status=ErasureStatus.QUEUED, attempts=0, error_code="", lease_until=None
                )
        except IntegrityError as error:
            raise ErasureRunningError from error
        _audit(scope, "erasure_retried", erasure, now)
        ring_control()
        return rows.get()


def preview(
    *,
    scope: Scope,
    person: EndUser,
    mode: ErasureMode | str,
    kinds: Sequence[str] = (),
    before_at: datetime | None = None,
) -> Preview:
    """Count what an erasure would take away now, by the act's own queries; only an audit row is written.

    Raises:
        NotFoundError: The person is gone, or is being erased.
        UnknownKindsError: Mode all with kinds or a time.
    """
    if mode == ErasureMode.ALL and (kinds or before_at):
        raise UnknownKindsError
    scope = one_tenant(scope, person.tenant_id)
    planned = Erasure(
        id=new_id("era"),
        tenant_id=person.tenant_id,
        subject_id=person.pk,
        subject_epoch=person.epoch,
        mode=mode,
        kinds=sorted(set(kinds)),
        before_at=before_at,
    )
    counts = _counts(scope, planned, person.user_id)
    now = timezone.now()
    with scoped_transaction(scope):
        is_held = active_hold(scope=scope, subject_id=person.pk) is not None
        audit.record(
            scope=scope,
            action="erasure_previewed",
            target_kind="end_user",
            target_id=person.pk,
            now=now,
            detail={"mode": str(mode), **counts},
        )
    return Preview(counts=counts, is_held=is_held)


def _counts(scope: Scope, planned: Erasure, user_id: str) -> dict[str, int]:
    if planned.mode == ErasureMode.TAGGED:
        person_scope = scope.narrowed(user_id=planned.subject_id)
        eraser = tagged_eraser()
        found = eraser(scope=person_scope, erasure=planned, hold=lambda: None, is_dry_run=True)
        return dict(found)
    counts = count_person(subject_of(planned, user_id=user_id))
    counts += Counter(
        speakers.blank_speaker(
            tenant_id=planned.tenant_id, user_id=user_id, hold=lambda: None, is_dry_run=True
        )
    )
    return dict(counts)


def _audit(scope: Scope, action: str, erasure: Erasure, now: datetime) -> None:
    detail: audit.Detail = {"mode": str(erasure.mode), "subject": erasure.subject_id}
    if erasure.kinds:
        detail["kinds"] = list(erasure.kinds)
    audit.record(
        scope=scope,
        action=action,
        target_kind="erasure",
        target_id=erasure.pk,
        now=now,
        detail=detail,
    )
