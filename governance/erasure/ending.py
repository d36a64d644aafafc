"""The last transaction, after which the database refuses whatever names the person."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Mapping
from datetime import datetime
from typing import Final

from django.db import IntegrityError, OperationalError, connection

from governance import audit, ledger
from governance.erasure import booking
from governance.erasure.deleting import do_batch
from governance.erasure.plan import LAST, STEPS
from governance.erasure.problems import BusyPersonError
from governance.erasure.subjects import Subject, subject_of
from governance.ledger import LedgerEntry
from governance.models.erasure import Erasure, ErasureStatus
from memory.models import EndUser
from memory.rls import scoped_transaction

_TRIES: Final = 20
_MOST_BATCHES: Final = 100
# Shorter than the server's own look for deadlocks, so that it is us who give way and not a writer.
_GIVE_WAY: Final = "SET LOCAL lock_timeout = '200ms'"
_RETRIABLE: Final = frozenset({"55P03", "40P01", "40001", "23503", "23505"})
_KEYS: Final = """
    DELETE FROM governance_apikey WHERE tenant_id = %(tenant)s AND end_user_id = %(person)s
    RETURNING principal_id
"""
# All that names a service account; the account itself last.
_ACCOUNTS: Final = tuple(
    f"DELETE FROM {table} WHERE {column} = ANY (%(accounts)s)"  # noqa: S608 - constants
    for table, column in (
        ("governance_tenantusergrant", "user_id"),
        ("governance_agentusergrant", "user_id"),
        ("governance_enduserusergrant", "user_id"),
        ("governance_teamusergrant", "user_id"),
        ("governance_threadusergrant", "user_id"),
        ("guardian_userobjectpermission", "user_id"),
        ("django_admin_log", "user_id"),
        ("auth_user_groups", "user_id"),
        ("auth_user_user_permissions", "user_id"),
        ("auth_user", "id"),
    )
)


def end_person(erasure: Erasure, *, now: datetime) -> None:
    """Delete what was written meanwhile and the person's row, in one transaction; tried again.

    Raises:
        BusyPersonError: Somebody wrote each of the times.
    """
    for attempt in range(_TRIES):
        try:
            _end_person(erasure, now)
        except (OperationalError, IntegrityError) as error:
            if not is_passing(error):
                raise
            time.sleep(min(0.05 * 2**attempt, 1.0))
        else:
            return
    raise BusyPersonError


def is_passing(error: Exception) -> bool:
    """Say whether the database refused only because somebody wrote at that moment."""
    return getattr(error.__cause__, "sqlstate", None) in _RETRIABLE


def _end_person(erasure: Erasure, now: datetime) -> None:
    subject = subject_of(erasure)
    scope = subject.wide
    with scoped_transaction(scope):
        booking.hold(erasure)
        with connection.cursor() as cursor:
            cursor.execute(_GIVE_WAY)
        person = EndUser.objects.in_scope(scope).filter(pk=subject.person_id)
        # Whoever has written for the person is waited for; whoever writes from here on is refused.
        is_there = person.select_for_update(of=("self",)).first() is not None
        gone = _rest(subject)
        if is_there:
            gone += _keys(subject)
            gone["persons"] += 1
            with connection.cursor() as cursor:
                cursor.execute(
                    "DELETE FROM memory_enduser WHERE tenant_id = %(tenant)s AND id = %(person)s",
                    subject.values,
                )
        booking.note(erasure, step=LAST, counts=gone)
        Erasure.objects.in_scope(scope).filter(pk=erasure.pk).update(erased_at=now)


def _rest(subject: Subject) -> Counter[str]:
    gone: Counter[str] = Counter()
    for step in STEPS:
        for _ in range(_MOST_BATCHES):
            batch = do_batch(step=step, subject=subject)
            gone.update(batch)
            if not any(batch.values()):
                break
        else:
            raise BusyPersonError
    return gone


def _keys(subject: Subject) -> Counter[str]:
    with connection.cursor() as cursor:
        cursor.execute(_KEYS, subject.values)
        accounts = [row[0] for row in cursor.fetchall()]
        if accounts:
            for statement in _ACCOUNTS:
                cursor.execute(statement, {"accounts": accounts})
    return Counter(api_keys=len(accounts))


def finish(erasure: Erasure, *, now: datetime) -> None:
    """Write the ledger, then book the erasure as done; audited with its counts.

    Raises:
        ErasureLostError: Another process goes on with it.
    """
    scope = subject_of(erasure).wide
    with scoped_transaction(scope):
        row = Erasure.objects.in_scope(scope).get(pk=erasure.pk)
    ledger.append(entry=_entry(row, now))
    with scoped_transaction(scope):
        booking.hold(erasure)
        Erasure.objects.in_scope(scope).filter(pk=erasure.pk).update(
            status=ErasureStatus.DONE, ledgered_at=now, finished_at=now, lease_until=None
        )
        audit.record(
            scope=scope,
            action="erasure_done",
            target_kind="erasure",
            target_id=erasure.pk,
            now=now,
            detail=_detail(row),
        )


def _detail(row: Erasure) -> audit.Detail:
    counts: Mapping[str, int] = row.counts
    return {"mode": str(row.mode), "subject": row.subject_id, **counts}


def _entry(row: Erasure, now: datetime) -> LedgerEntry:
    return LedgerEntry(
        kind="erased",
        id=row.pk,
        tenant_id=row.tenant_id,
        subject_id=row.subject_id,
        hmacs=(row.subject_hmac,),
        epoch=row.subject_epoch,
        mode=str(row.mode),
        kinds=tuple(row.kinds),
        before_at=row.before_at,
        at=row.erased_at or now,
    )
