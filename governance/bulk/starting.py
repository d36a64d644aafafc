"""Asking for a decision about many rows, and calling it off."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import Final

from governance import audit
from governance.access import ForbiddenError
from governance.bulk.problems import (
    InvalidRowsError,
    NoRowsError,
    ReasonNeededError,
    TooManyRowsError,
)
from governance.bulk.rules import may_decide, rule_for
from governance.decisions import MOST_REASON_CHARACTERS
from governance.models import BulkDecision, BulkStatus
from governance.secrets import strip_secrets
from memory import jobs
from memory.errors import ConflictError, NotFoundError
from memory.ids import is_id
from memory.models import JobKind
from memory.rls import scoped_transaction
from memory.scope import Scope

MOST_ROWS: Final = 10_000
JOB_KEY: Final = f"{JobKind.BULK_DECIDE}:"
CANCELLED: Final = "cancelled"


def start(
    *, scope: Scope, kind: str, action: str, ids: Sequence[str], reason: str, now: datetime
) -> BulkDecision:
    """Write down a decision about up to 10,000 rows of one tenant and ask the worker for it.

    Rows that are not there, or can not be decided so, are counted when their turn comes. Cost: six
    statements.

    Raises:
        UnknownDecisionError: There is no such decision about such rows.
        NoRowsError: No row was named.
        TooManyRowsError: More than 10,000 were.
        InvalidRowsError: Something else than ids was.
        ReasonNeededError: The decision owes a reason and has none.
        ForbiddenError: The scope's principal is no member of staff that may decide so.
    """
    rule = rule_for(kind=kind, action=action)
    rows, said = list(dict.fromkeys(ids)), strip_secrets(reason.strip()).text
    if not rows:
        raise NoRowsError
    if len(rows) > MOST_ROWS:
        raise TooManyRowsError
    if not all(map(is_id, rows)):
        raise InvalidRowsError
    if rule.needs_reason and not said:
        raise ReasonNeededError
    with scoped_transaction(scope):
        if not may_decide(scope=scope, rule=rule):
            raise ForbiddenError
        bulk = BulkDecision.objects.create(
            tenant_id=scope.tenant_id,
            kind=kind,
            action=action,
            reason=said[:MOST_REASON_CHARACTERS],
            ids=rows,
            actor=scope.principal_id,
            created_at=now,
            updated_at=now,
        )
        _audit(scope, "bulk_started", bulk, now)
        jobs.enqueue(scope=scope, job=_job(bulk), now=now)
    return bulk


def cancel(*, scope: Scope, bulk_id: str, now: datetime) -> BulkDecision:
    """Let no further row be decided; what is decided stays. Audited once.

    Raises:
        NotFoundError: There is none in scope.
        ConflictError: It has ended.
    """
    with scoped_transaction(scope):
        rows = BulkDecision.objects.in_scope(scope).filter(pk=bulk_id)
        is_stopped = rows.filter(status=BulkStatus.READY).update(
            status=BulkStatus.STOPPED, error_code=CANCELLED, updated_at=now
        )
        bulk = rows.first()
        if bulk is None:
            raise NotFoundError
        if not is_stopped:
            raise ConflictError("This decision has ended already.")
        _audit(scope, "bulk_cancelled", bulk, now)
    return bulk


def _job(bulk: BulkDecision) -> jobs.NewJob:
    return jobs.NewJob(
        kind=JobKind.BULK_DECIDE,
        thread_id=None,
        run_id=None,
        end_user_id=None,
        dedupe_key=f"{JOB_KEY}{bulk.pk}",
    )


def _audit(scope: Scope, action: str, bulk: BulkDecision, now: datetime) -> None:
    audit.record(
        scope=scope,
        action=action,
        target_kind="bulk_decision",
        target_id=bulk.pk,
        now=now,
        detail={
            "kind": bulk.kind,
            "action": bulk.action,
            "rows": len(bulk.ids),
            "done": bulk.done_upto,
        },
    )
