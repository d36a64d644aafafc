"""Doing again, after a restore, what the ledger knows and the database has forgotten."""

from __future__ import annotations

import fcntl
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import datetime

from django.db import DatabaseError
from django.utils import timezone

from governance import audit
from governance.erasure.restored import look_again, missing_erasures
from governance.erasure.tagging import TaggedEraser
from governance.erasure.verifying import verify_open
from governance.erasure.work import do_erasure
from governance.ledger import LedgerEntry
from governance.models.erasure import Erasure, ErasureOrigin, ErasureStatus, LegalHold
from governance.tombstones import hmacs_of
from memory.conf import erasure_ledger_path
from memory.errors import CredenceError
from memory.models import EndUser
from memory.rls import scoped_transaction
from memory.scope import Scope

PRINCIPAL = "reapply_erasures"
_SEARCH_SECONDS = 600.0


@dataclass(frozen=True, slots=True, kw_only=True)
class ReapplyReport:
    """What was done again.

    Attributes:
        erased: Erasures of persons who were back.
        absent: Erasures whose person the database does not have; booked all the same.
        failed: Ids of what could not be done.
        missing: How many entries the database still does not know; 0 lets traffic in.
        verified: Erasures that the search has ended for.
    """

    erased: int = 0
    absent: int = 0
    held: int = 0
    released: int = 0
    failed: tuple[str, ...] = ()
    missing: int = 0
    verified: int = 0


def reapply_erasures(*, now: datetime, tagged: TaggedEraser) -> ReapplyReport:
    """Do every missing entry of the ledger again, in its order, then search as after any erasure.

    Whatever stopped it, the next call goes on; a second one at the same time waits for the first
    (on this machine), and else finds what it does done. Cost: that of the erasures themselves.

    Raises:
        LedgerDamagedError: The ledger can not be read.
    """
    counts = {"erased": 0, "absent": 0, "held": 0, "released": 0}
    failed: list[str] = []
    with _alone():
        for entry in missing_erasures(is_whole=True):
            try:
                counts[_again(entry, tagged=tagged, now=now)] += 1
            except (CredenceError, DatabaseError):
                failed.append(entry.id)
        missing = len(missing_erasures(is_whole=True))
        look_again()
    verified = verify_open(now=timezone.now(), within_seconds=_SEARCH_SECONDS)
    return ReapplyReport(**counts, failed=tuple(failed), missing=missing, verified=verified)


@contextmanager
def _alone() -> Iterator[None]:
    """Let one process of this machine at a time go through the ledger."""
    path = erasure_ledger_path()
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.with_name(f".{path.name}.lock").open("a", encoding="utf-8") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield


def _again(entry: LedgerEntry, *, tagged: TaggedEraser, now: datetime) -> str:
    scope = Scope(tenant_ids=(entry.tenant_id,), principal_id=PRINCIPAL)
    if entry.kind == "held":
        _hold(scope, entry, now)
        return "held"
    if entry.kind == "released":
        _release(scope, entry, now)
        return "released"
    is_there = _book(scope, entry, now)
    if is_there:
        do_erasure(erasure_id=entry.id, tagged=tagged, now=now)
        return "erased"
    return "absent"


def _hold(scope: Scope, entry: LedgerEntry, now: datetime) -> None:
    with scoped_transaction(scope):
        _, is_new = LegalHold.objects.in_scope(scope).get_or_create(
            id=entry.id,
            defaults={
                "tenant_id": entry.tenant_id,
                "subject_id": entry.subject_id,
                "placed_by": PRINCIPAL,
                "placed_at": entry.at,
            },
        )
        if is_new:
            _audit(scope, "hold_placed", entry, now)


def _release(scope: Scope, entry: LedgerEntry, now: datetime) -> None:
    with scoped_transaction(scope):
        rows = LegalHold.objects.in_scope(scope).filter(pk=entry.id, released_at__isnull=True)
        if rows.update(released_at=entry.at, released_by=PRINCIPAL):
            _audit(scope, "hold_released", entry, now)


def _book(scope: Scope, entry: LedgerEntry, now: datetime) -> bool:
    """Make sure that the erasure has its row; whether there is work to do.

    One that the backup had, waiting or half done, goes on as it is.
    """
    with scoped_transaction(scope):
        known = Erasure.objects.in_scope(scope).filter(pk=entry.id).first()
        if known is not None:
            rows = Erasure.objects.in_scope(scope).filter(pk=entry.id)
            rows.filter(status=ErasureStatus.FAILED).update(
                status=ErasureStatus.QUEUED, attempts=0, error_code=""
            )
            rows.filter(status=ErasureStatus.RUNNING).update(
                status=ErasureStatus.QUEUED, lease_until=None
            )
            rows.filter(status=ErasureStatus.QUEUED).update(lease_until=None)
            return True
        person = _person(scope, entry)
        row = _row(entry, now)
        if person is not None:
            row.subject_id = person.pk
        else:
            row.status, row.step = ErasureStatus.DONE, "absent"
            row.started_at = row.erased_at = row.ledgered_at = row.finished_at = now
        row.save(force_insert=True)
        _audit(scope, "erasure_reapplied", entry, now)
    return person is not None


def _row(entry: LedgerEntry, now: datetime) -> Erasure:
    return Erasure(
        id=entry.id,
        tenant_id=entry.tenant_id,
        subject_id=entry.subject_id,
        subject_hmac=entry.hmacs[0] if entry.hmacs else "",
        subject_epoch=entry.epoch,
        mode=entry.mode,
        kinds=list(entry.kinds),
        before_at=entry.before_at,
        origin=ErasureOrigin.REAPPLIED,
        requested_by=PRINCIPAL,
        created_at=now,
    )


def _person(scope: Scope, entry: LedgerEntry) -> EndUser | None:
    """Find who was erased: by our id, else by the HMAC of the tenant's, of that time or before."""
    rows = EndUser.objects.in_scope(scope)
    found: EndUser | None = rows.filter(pk=entry.subject_id).first()
    if found is not None or not entry.hmacs:
        return found
    wanted = set(entry.hmacs)
    person: EndUser
    for person in rows.filter(epoch__lte=entry.epoch).iterator():
        if wanted & set(hmacs_of(tenant_id=entry.tenant_id, user_id=person.user_id)):
            return person
    return None


def _audit(scope: Scope, action: str, entry: LedgerEntry, now: datetime) -> None:
    is_hold = entry.kind != "erased"
    audit.record(
        scope=scope,
        action=action,
        target_kind="end_user" if is_hold else "erasure",
        target_id=entry.subject_id if is_hold else entry.id,
        now=now,
        detail={"reapplied": True, "hold": entry.id} if is_hold else {"mode": entry.mode},
    )
