"""Legal holds: while one is on a person, nothing of theirs may be erased."""

from __future__ import annotations

from datetime import datetime
from typing import Literal

from governance import audit, ledger
from governance.erasure.people import lock_person, one_tenant
from governance.erasure.problems import ErasureRunningError
from governance.ledger import LedgerEntry
from governance.models.erasure import Erasure, ErasureStatus, LegalHold
from governance.tombstones import hmacs_of
from memory.models import EndUser
from memory.querysets import ScopedQuerySet
from memory.rls import scoped_transaction
from memory.scope import Scope


def place_hold(*, scope: Scope, person: EndUser, reason: str, now: datetime) -> LegalHold:
    """Put a person under legal hold, in a transaction of its own; the same again changes nothing.

    Audited without the reason, which may name what the case is about. Cost: five statements.

    Raises:
        ErasureRunningError: An erasure of the person has begun, or waits to begin.
        NotFoundError: The person is gone, or about to be.
    """
    scope = one_tenant(scope, person.tenant_id)
    with scoped_transaction(scope):
        locked = lock_person(scope=scope, person_id=person.pk)
        known = active_hold(scope=scope, subject_id=locked.pk)
        if known is not None:
            return known
        unfinished = Erasure.objects.in_scope(scope).filter(
            subject_id=locked.pk, status__in=[ErasureStatus.QUEUED, ErasureStatus.RUNNING]
        )
        if unfinished.exists():
            raise ErasureRunningError
        hold = LegalHold(
            tenant_id=locked.tenant_id,
            subject_id=locked.pk,
            reason=reason,
            placed_by=scope.principal_id,
            placed_at=now,
        )
        hold.save(force_insert=True)
        _audit(scope, "hold_placed", hold, now)
        # Before the commit: better a hold too many after a restore than one too few.
        ledger.append(entry=_entry("held", hold, locked, now))
    return hold


def release_hold(*, scope: Scope, person: EndUser, now: datetime) -> LegalHold | None:
    """Release a person's legal hold and return it, or None where there was none; audited.

    In a transaction of its own. Cost: three statements.
    """
    scope = one_tenant(scope, person.tenant_id)
    with scoped_transaction(scope):
        rows = _active(scope, person.pk)
        hold = rows.select_for_update().first()
        if hold is None:
            return None
        hold.released_at = now
        hold.released_by = scope.principal_id
        hold.save(update_fields=["released_at", "released_by"])
        _audit(scope, "hold_released", hold, now)
    ledger.append(entry=_entry("released", hold, person, now))
    return hold


def active_hold(*, scope: Scope, subject_id: str) -> LegalHold | None:
    """Return the hold that is on a person now. Inside the caller's transaction; one query."""
    return _active(scope, subject_id).first()


def _audit(scope: Scope, action: str, hold: LegalHold, now: datetime) -> None:
    audit.record(
        scope=scope,
        action=action,
        target_kind="end_user",
        target_id=hold.subject_id,
        now=now,
        detail={"hold": hold.pk},
    )


def _entry(
    kind: Literal["held", "released"], hold: LegalHold, person: EndUser, now: datetime
) -> LedgerEntry:
    return LedgerEntry(
        kind=kind,
        id=hold.pk,
        tenant_id=hold.tenant_id,
        subject_id=hold.subject_id,
        hmacs=hmacs_of(tenant_id=hold.tenant_id, user_id=person.user_id),
        epoch=person.epoch,
        at=now,
    )


def _active(scope: Scope, subject_id: str) -> ScopedQuerySet[LegalHold]:
    return LegalHold.objects.in_scope(scope).filter(subject_id=subject_id, released_at__isnull=True)
