"""Idempotency keys: the same POST twice is one act, and the first answer is given again for a day.

A key belongs to one principal. Of a run only its id is kept, so that a replay shows the run as it is
stored, and nothing of a person outlives an erasure here.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Final, TypeAlias

from memory.errors import ConflictError
from memory.rls import scoped_transaction
from memory.scope import Scope
from threads.models import FINAL, IdempotencyRecord, Run, RunStatus

KEPT_FOR: Final = timedelta(hours=24)


class IdempotencyConflictError(ConflictError):
    """This Idempotency-Key was used for another request."""

    code = "idempotency_conflict"


@dataclass(frozen=True, slots=True, kw_only=True)
class Claimed:
    """The request is ours to carry out."""

    record_id: str


@dataclass(frozen=True, slots=True, kw_only=True)
class InFlight:
    """The first request is still being carried out; ask again soon."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Stored:
    """The first answer; where `run_id` is set and `body` empty, the run is the answer."""

    status_code: int
    content_type: str = ""
    body: str = ""
    run_id: str = ""


Found: TypeAlias = Claimed | InFlight | Stored


def claim(
    *, scope: Scope, key: str, request_sha256: str, now: datetime, lease_seconds: float
) -> Found:
    """Claim a key for a request, or say what became of it. Cost: three statements.

    Args:
        scope: Names tenant and principal; keys of others are other keys.
        key: What the client sent.
        request_sha256: Hash of method, path and body.
        now: Keys are forgotten after 24 hours.
        lease_seconds: After this long without an answer the first request counts as crashed.

    Raises:
        IdempotencyConflictError: The key was used for another request.
    """
    mine = IdempotencyRecord(
        tenant_id=scope.tenant_id,
        principal_id=scope.principal_id,
        idempotency_key=key,
        request_sha256=request_sha256,
        created_at=now,
        lease_until=now + timedelta(seconds=lease_seconds),
    )
    with scoped_transaction(scope):
        rows = IdempotencyRecord.objects.in_scope(scope)
        rows.bulk_create([mine], ignore_conflicts=True)
        first = (
            rows.select_for_update()
            .filter(principal_id=scope.principal_id, idempotency_key=key)
            .first()
        )
        if first is None:
            return InFlight()
        if first.pk == mine.pk:
            return Claimed(record_id=mine.pk)
        found = _state(scope, first, request_sha256, now)
        if found is not None:
            return found
        first.delete()
        mine.save(force_insert=True)
    return Claimed(record_id=mine.pk)


def _state(
    scope: Scope, first: IdempotencyRecord, request_sha256: str, now: datetime
) -> InFlight | Stored | None:
    """Return what became of the first request; None if the key is free again."""
    if first.created_at <= now - KEPT_FOR:
        return None
    if first.request_sha256 != request_sha256:
        raise IdempotencyConflictError
    if first.status_code is not None:
        return Stored(
            status_code=first.status_code,
            content_type=first.content_type,
            body=first.body,
            run_id=first.run_id,
        )
    if first.run_id:
        run = Run.objects.in_scope(scope).filter(pk=first.run_id).first()
        if run is None or run.status in FINAL - {RunStatus.SUCCEEDED}:
            return None
        if run.status == RunStatus.SUCCEEDED:
            return Stored(status_code=200, run_id=run.pk)
        if run.lease_until and run.lease_until > now:  # renewed while it calls tools
            return InFlight()
    return InFlight() if first.lease_until > now else None


def attach_run(*, scope: Scope, record_id: str, run_id: str) -> None:
    """Note which run a claimed request became, so that a crash after it makes no second one."""
    _update(scope, record_id, run_id=run_id)


def keep(*, scope: Scope, record_id: str, answer: Stored, end_user_id: str | None = None) -> None:
    """Keep the answer for replays; `end_user_id` names the person whose data it holds."""
    _update(
        scope,
        record_id,
        status_code=answer.status_code,
        content_type=answer.content_type,
        body=answer.body,
        run_id=answer.run_id,
        end_user_id=end_user_id,
    )


def release(*, scope: Scope, record_id: str) -> None:
    """Give the key back: a fault of ours or of a provider is not kept, so a retry may succeed."""
    with scoped_transaction(scope):
        IdempotencyRecord.objects.in_scope(scope).filter(pk=record_id).delete()


def _update(scope: Scope, record_id: str, **values: object) -> None:
    with scoped_transaction(scope):
        IdempotencyRecord.objects.in_scope(scope).filter(pk=record_id).update(**values)
