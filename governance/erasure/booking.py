"""The erasure's own row: claiming it, holding it, writing down how far it is and how it ended.

Leases follow the database's clock. Whoever finds the epoch changed has lost the erasure and stops.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from datetime import datetime
from typing import Any, Final

from django.db import connection, connections

from governance import audit
from governance.erasure.problems import ErasureLostError
from governance.erasure.subjects import subject_of
from governance.models.erasure import Erasure, ErasureStatus
from memory.rls import maintenance_transaction, scoped_transaction

MAX_ATTEMPTS: Final = 5
LEASE_SECONDS: Final = 120
_BACKOFF_SECONDS: Final = 10
# A queued one that failed before waits until its lease's time; a running one is dead after it.
_DUE: Final = """
    SELECT id FROM governance_erasure
    WHERE status IN ('queued', 'running')
        AND (lease_until IS NULL OR lease_until < statement_timestamp())
    ORDER BY created_at, id LIMIT 1 FOR UPDATE SKIP LOCKED
"""
_THIS: Final = """
    SELECT id FROM governance_erasure
    WHERE id = %(id)s AND (status = 'queued'
        OR (status = 'running' AND lease_until < statement_timestamp())) FOR UPDATE
"""
_TAKE: Final = """
    UPDATE governance_erasure SET status = 'running', attempts = attempts + 1, epoch = epoch + 1,
        started_at = coalesce(started_at, %(now)s), error_code = '',
        lease_until = statement_timestamp() + make_interval(secs => %(lease)s)
    WHERE id = %(id)s
"""
_HOLD: Final = """
    UPDATE governance_erasure
    SET lease_until = statement_timestamp() + make_interval(secs => %(lease)s)
    WHERE tenant_id = %(tenant)s AND id = %(id)s AND epoch = %(epoch)s AND status = 'running'
"""
_ADD: Final = """
    UPDATE governance_erasure SET step = %(step)s, counts = counts || (
        SELECT coalesce(jsonb_object_agg(key, coalesce((counts ->> key)::bigint, 0) + value::bigint),
            '{}'::jsonb) FROM jsonb_each_text(%(counts)s::jsonb))
    WHERE tenant_id = %(tenant)s AND id = %(id)s
"""
_GIVE_BACK: Final = """
    UPDATE governance_erasure SET error_code = %(code)s,
        status = CASE WHEN attempts >= %(most)s THEN 'failed' ELSE 'queued' END,
        lease_until = statement_timestamp() + make_interval(secs => %(backoff)s)
    WHERE tenant_id = %(tenant)s AND id = %(id)s AND epoch = %(epoch)s AND status = 'running'
    RETURNING status
"""
_PAUSE: Final = """
    UPDATE governance_erasure SET status = 'queued', lease_until = NULL,
        attempts = greatest(attempts - 1, 0)
    WHERE tenant_id = %(tenant)s AND id = %(id)s AND epoch = %(epoch)s AND status = 'running'
"""


def claim(*, now: datetime, erasure_id: str | None = None) -> Erasure | None:
    """Claim the oldest erasure that is due, or a certain one, and return it; None where none is.

    As role maint, since it is any tenant's. One whose last allowed attempt was never answered is
    not tried again until somebody asks for that. Cost: three statements.
    """
    reason = "the control queue looks after every tenant's erasures"
    with maintenance_transaction() as alias, connections[alias].cursor() as cursor:
        cursor.execute(_DUE if erasure_id is None else _THIS, {"id": erasure_id})
        row = cursor.fetchone()
        if row is None:
            return None
        rows = Erasure.objects.using(alias).unscoped(reason=reason).filter(pk=row[0])
        found = rows.get()
        if found.attempts >= MAX_ATTEMPTS:
            rows.update(status=ErasureStatus.FAILED, error_code="worker_lost", lease_until=None)
            return None
        cursor.execute(_TAKE, {"id": found.pk, "now": now, "lease": LEASE_SECONDS})
        return rows.get()


def hold(erasure: Erasure) -> None:
    """Lock the claimed erasure's row until the writer's transaction ends, and prolong its lease.

    Inside a scoped transaction. Cost: one statement.

    Raises:
        ErasureLostError: It was claimed again, or ended, since this claim.
    """
    with connection.cursor() as cursor:
        cursor.execute(_HOLD, {**_key(erasure), "lease": LEASE_SECONDS})
        if cursor.rowcount == 0:
            raise ErasureLostError


def note(erasure: Erasure, *, step: str, counts: Mapping[str, int]) -> None:
    """Write down how far it is and add what went, in the transaction in which it went."""
    told = {name: number for name, number in counts.items() if number}
    with connection.cursor() as cursor:
        cursor.execute(_ADD, {**_key(erasure), "step": step, "counts": json.dumps(told)})


def pause(erasure: Erasure) -> None:
    """Let another round go on with it at once; the attempt does not count."""
    with scoped_transaction(subject_of(erasure).wide), connection.cursor() as cursor:
        cursor.execute(_PAUSE, _key(erasure))


def give_back(erasure: Erasure, *, error_code: str, now: datetime) -> None:
    """Let it be tried again later, or after the last attempt be failed; that is audited."""
    values = {
        **_key(erasure),
        "code": error_code[:64],
        "most": MAX_ATTEMPTS,
        "backoff": _BACKOFF_SECONDS * 2 ** max(0, erasure.attempts - 1),
    }
    scope = subject_of(erasure).wide
    with scoped_transaction(scope):
        with connection.cursor() as cursor:
            cursor.execute(_GIVE_BACK, values)
            row = cursor.fetchone()
        if row is not None and row[0] == ErasureStatus.FAILED:
            audit.record(
                scope=scope,
                action="erasure_failed",
                target_kind="erasure",
                target_id=erasure.pk,
                now=now,
                detail={"code": error_code[:64], "attempts": erasure.attempts},
            )


def _key(erasure: Erasure) -> dict[str, Any]:
    return {"tenant": erasure.tenant_id, "id": erasure.pk, "epoch": erasure.epoch}
