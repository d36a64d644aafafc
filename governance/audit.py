"""Writing the audit log: always inside the transaction of the act itself."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime

from django.db import transaction

from governance.models import AuditEntry
from memory.errors import CredenceError
from memory.scope import Scope


class AuditOutsideTransactionError(CredenceError):
    """An audit row was about to be written outside the transaction of its act."""

    code = "audit_outside_transaction"


Detail = dict[str, int | str | bool | list[str]]


def record(
    *,
    scope: Scope,
    action: str,
    target_kind: str,
    target_id: str,
    now: datetime,
    detail: Detail | None = None,
) -> None:
    """Append one row: who did what to which object. Cost: one INSERT.

    Args:
        scope: Names tenant and actor.
        action: Past tense, such as `key_created`.
        target_kind: The target's word of DESIGN section 1.
        target_id: Its internal id.
        now: When it happened.
        detail: Ids, counts, field names and hashes; never text of a person.

    Raises:
        AuditOutsideTransactionError: No transaction is open, so act and row could part.
    """
    if not transaction.get_connection().in_atomic_block:
        raise AuditOutsideTransactionError
    AuditEntry.objects.create(
        tenant_id=scope.tenant_id,
        at=now,
        actor=scope.principal_id,
        action=action,
        target_kind=target_kind,
        target_id=target_id,
        detail=detail or {},
    )


def record_all(
    *,
    scope: Scope,
    action: str,
    target_kind: str,
    details: Mapping[str, Detail],
    now: datetime,
) -> None:
    """Append a row for each of several targets of one act. Cost: one INSERT.

    Args:
        scope: Names tenant and actor.
        action: Past tense.
        target_kind: The targets' word.
        details: What `record` calls detail, by the target's id.
        now: When it happened.

    Raises:
        AuditOutsideTransactionError: No transaction is open.
    """
    if not transaction.get_connection().in_atomic_block:
        raise AuditOutsideTransactionError
    rows = [
        AuditEntry(
            tenant_id=scope.tenant_id,
            at=now,
            actor=scope.principal_id,
            action=action,
            target_kind=target_kind,
            target_id=target_id,
            detail=detail,
        )
        for target_id, detail in details.items()
    ]
    AuditEntry.objects.get_queryset().unscoped(
        reason="append only: the rows name their tenant, and RLS decides"
    ).bulk_create(rows)
