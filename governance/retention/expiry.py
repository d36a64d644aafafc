"""Taking away memory that is past its time, a batch a transaction, each with its count in the audit."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from itertools import groupby

from governance import audit
from governance.items.items import expire as expire_items
from memory import store
from memory.models import MemoryItem, RecallEntry
from memory.scope import Scope

APPLIED = "retention_applied"

__all__ = ["APPLIED", "count_items", "count_recall", "expire_items", "expire_recall", "record"]


def expire_recall(*, scope: Scope, before: datetime, most: int) -> int:
    """Delete up to `most` recall entries of turns before a moment, and all that leads to them.

    Inside the caller's transaction, in the tenant's scope. Whose shelf is locked first is the same
    for everybody. Cost: three statements a person, and one.
    """
    rows = RecallEntry.objects.in_scope(scope).filter(said_at__lt=before)
    oldest = rows.order_by("said_at", "id").values_list("end_user_id", "id")[:most]
    gone = 0
    for person, pairs in groupby(sorted(oldest), key=lambda pair: pair[0]):
        owner = store.Owner(end_user_id=person)
        gone += store.remove_recall(
            scope=scope, owner=owner, recall_ids=[recall_id for _, recall_id in pairs]
        )
    return gone


def count_items(*, scope: Scope, before: datetime) -> int:
    """Return how many items are past their end. Cost: one query."""
    return MemoryItem.objects.in_scope(scope).filter(expires_at__lte=before).count()


def count_recall(*, scope: Scope, before: datetime) -> int:
    """Return how many recall entries are of turns before a moment. Cost: one query."""
    return RecallEntry.objects.in_scope(scope).filter(said_at__lt=before).count()


def record(*, scope: Scope, counts: Mapping[str, int], now: datetime) -> None:
    """Write the audit row of one batch, in its transaction: what went, in counts.

    Raises:
        AuditOutsideTransactionError: No transaction is open.
    """
    audit.record(
        scope=scope,
        action=APPLIED,
        target_kind="tenant",
        target_id=scope.tenant_id,
        now=now,
        detail=dict(counts),
    )
