"""The worker's side of a decision about many rows.

Each row is decided in a transaction of its own that also counts it, so a crash anywhere leaves
exactly the rows before it decided, and the next try goes on with the row after them.
"""

from __future__ import annotations

import time
from datetime import datetime
from typing import Final

from django.db import IntegrityError
from django.db.models import F

from governance import audit
from governance.bulk.rules import Rule, may_decide, rule_for
from governance.models import BulkDecision, BulkStatus
from memory.errors import CredenceError, NotFoundError, ScopeError
from memory.ids import is_id
from memory.rls import scoped_transaction
from memory.scope import Scope

PIECE_ROWS: Final = 200
FORBIDDEN: Final = "forbidden"


class _MovedError(Exception):
    """Somebody else counted this row, or called the decision off."""


def work(*, scope: Scope, bulk_id: str, now: datetime, within_seconds: float) -> BulkDecision:
    """Decide rows until all are, or the time is up; return how it stands.

    Rows that can not be decided so any more are counted as refused. Before each piece of 200 rows
    the grants of whoever asked are read again; without them it stops. Cost: about eight statements
    a row beside what its decision takes.

    Raises:
        NotFoundError: There is none in scope.
    """
    until = time.monotonic() + within_seconds
    while True:
        bulk = _read(scope, bulk_id)
        if bulk.status != BulkStatus.READY:
            return bulk
        rule = rule_for(kind=bulk.kind, action=bulk.action)
        actor = Scope(tenant_ids=(bulk.tenant_id,), principal_id=bulk.actor)
        if not may_decide(scope=actor, rule=rule):
            return _stop(scope, bulk, now)
        _work_piece(actor, bulk, rule, now, until)
        if time.monotonic() >= until:
            return _read(scope, bulk_id)


def _work_piece(actor: Scope, bulk: BulkDecision, rule: Rule, now: datetime, until: float) -> None:
    """Decide up to 200 rows, at least one; less if the time is up or somebody else moved on."""
    for position in range(bulk.done_upto, min(bulk.done_upto + PIECE_ROWS, len(bulk.ids))):
        if not _decide(actor, bulk, rule, position, now) or time.monotonic() >= until:
            return


def _read(scope: Scope, bulk_id: str) -> BulkDecision:
    with scoped_transaction(scope):
        bulk = BulkDecision.objects.in_scope(scope).filter(pk=bulk_id).first()
    if bulk is None:
        raise NotFoundError
    return bulk


def _decide(actor: Scope, bulk: BulkDecision, rule: Rule, position: int, now: datetime) -> bool:
    """Decide one row and count it; False, and nothing done, if it is not its turn any more."""
    try:
        with scoped_transaction(actor):
            is_decided = _is_decided(actor, rule, bulk, str(bulk.ids[position]), now)
            _count(actor, bulk, position, now, is_decided=is_decided)
    except _MovedError:
        return False
    return True


def _count(
    actor: Scope, bulk: BulkDecision, position: int, now: datetime, *, is_decided: bool
) -> None:
    """Count a row on condition that it is the next one still."""
    rows = BulkDecision.objects.in_scope(actor).filter(
        pk=bulk.pk, status=BulkStatus.READY, done_upto=position
    )
    counter = "decided" if is_decided else "refused"
    is_last = position + 1 == len(bulk.ids)
    values = {counter: F(counter) + 1, "done_upto": position + 1, "updated_at": now}
    status = BulkStatus.DONE if is_last else BulkStatus.READY
    if not rows.update(status=status, **values):
        raise _MovedError


def _is_decided(actor: Scope, rule: Rule, bulk: BulkDecision, row_id: str, now: datetime) -> bool:
    """Decide in a savepoint; what domain or database refuses is no error of the decision."""
    if not is_id(row_id):
        return False
    try:
        with scoped_transaction(actor):
            rule.act(actor, row_id, bulk.reason, now)
    except ScopeError:
        raise
    except (CredenceError, IntegrityError):
        return False
    return True


def _stop(scope: Scope, bulk: BulkDecision, now: datetime) -> BulkDecision:
    """End a decision whose maker may decide no more; audited once."""
    with scoped_transaction(scope):
        rows = BulkDecision.objects.in_scope(scope).filter(pk=bulk.pk)
        is_stopped = rows.filter(status=BulkStatus.READY).update(
            status=BulkStatus.STOPPED, error_code=FORBIDDEN, updated_at=now
        )
        if is_stopped:
            audit.record(
                scope=scope,
                action="bulk_stopped",
                target_kind="bulk_decision",
                target_id=bulk.pk,
                now=now,
                detail={"code": FORBIDDEN, "done": bulk.done_upto},
            )
    return _read(scope, bulk.pk)
