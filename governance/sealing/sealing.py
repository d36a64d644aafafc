"""The sealer: takes what waits, makes leaves of it, and adds one link to each tenant's chain."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import Final

from django.db import InterfaceError, OperationalError, connections
from django.db.models import Exists, OuterRef, Q

from governance.models import AuditEntry, AuditLeaf, AuditPending, AuditSeal, Disclosure
from governance.sealing.leaves import disclosure_leaf, entry_leaf, seal_hash
from governance.sealing.merkle import root_of
from memory.ids import new_id
from memory.rls import maintenance_transaction

BATCH: Final = 2000
_LOCK_KEY: Final = 0x7365616C  # "seal": any number, as long as nobody else takes it
_REASON: Final = "the sealer serves every tenant; it reads ids, counts and hashes only"


def seal_pending(*, now: datetime, most: int = BATCH) -> int:
    """Seal up to `most` waiting rows of each tenant, a transaction a tenant; return how many.

    A busy tenant delays others by one batch at most, and what is wrong in one hinders no other. One
    sealer works at a time; another one does nothing meanwhile. Whatever ends it half-way leaves
    nothing of that tenant, and the next one begins anew. A row that is gone although it waits stays
    on the list, where `verify` finds it. Cost: one statement where nothing waits; docs/audit.md has
    the time a row.

    Raises:
        Exception: What went wrong first, after the other tenants were served.
    """
    faults: list[Exception] = []
    sealed = 0
    for tenant_id in _waiting_tenants():
        try:
            sealed += _seal_tenant(tenant_id, now, most)
        except (OperationalError, InterfaceError):
            # The server is out of reach: the other tenants would only wait for the same.
            raise
        except Exception as error:  # noqa: BLE001 - told below, when the others are served
            faults.append(error)
    if faults:
        raise faults[0]
    return sealed


def _waiting_tenants() -> list[str]:
    with maintenance_transaction() as alias:
        waiting = AuditPending.objects.using(alias).unscoped(reason=_REASON)
        return list(waiting.order_by("tenant_id").values_list("tenant_id", flat=True).distinct())


def _seal_tenant(tenant_id: str, now: datetime, most: int) -> int:
    with maintenance_transaction() as alias:
        if not _lock(alias):
            return 0
        waiting = AuditPending.objects.using(alias).unscoped(reason=_REASON)
        # Ids whose rows are gone are passed over here, or enough of them would fill every batch.
        found = waiting.filter(_is_there(alias), tenant_id=tenant_id).order_by("id")
        ids = list(found.values_list("id", flat=True)[:most])
        if not ids:
            return 0
        leaves = _leaves_of(alias, ids)
        _link(alias, tenant_id, [(row_id, leaves[row_id]) for row_id in ids], now)
        waiting.filter(pk__in=ids).delete()
        return len(ids)


def _is_there(alias: str) -> Q:
    entries = AuditEntry.objects.using(alias).unscoped(reason=_REASON)
    shown = Disclosure.objects.using(alias).unscoped(reason=_REASON)
    same = {"pk": OuterRef("pk"), "tenant_id": OuterRef("tenant_id")}
    return Exists(entries.filter(**same)) | Exists(shown.filter(**same))


def _lock(alias: str) -> bool:
    with connections[alias].cursor() as cursor:
        cursor.execute("SELECT pg_try_advisory_xact_lock(%s)", [_LOCK_KEY])
        row = cursor.fetchone()
    return row is not None and bool(row[0])


def _leaves_of(alias: str, ids: Sequence[str]) -> dict[str, str]:
    """Return the leaf of each row that is there."""
    entries = AuditEntry.objects.using(alias).unscoped(reason=_REASON).filter(pk__in=ids)
    shown = Disclosure.objects.using(alias).unscoped(reason=_REASON).filter(pk__in=ids)
    found = {entry.pk: entry_leaf(entry) for entry in entries}
    return found | {one.pk: disclosure_leaf(one) for one in shown}


def _link(alias: str, tenant_id: str, leaves: Sequence[tuple[str, str]], now: datetime) -> None:
    seals = AuditSeal.objects.using(alias).unscoped(reason=_REASON)
    last = seals.filter(tenant_id=tenant_id).order_by("-seq").first()
    seal = AuditSeal(
        id=new_id("seal"),
        tenant_id=tenant_id,
        seq=last.seq + 1 if last else 1,
        entries=len(leaves),
        root=root_of([leaf for _, leaf in leaves]),
        previous_hash=last.hash if last else "",
        sealed_at=now,
    )
    seal.hash = seal_hash(seal)
    seals.bulk_create([seal])
    AuditLeaf.objects.using(alias).unscoped(reason=_REASON).bulk_create(
        [
            AuditLeaf(id=row_id, tenant_id=tenant_id, seal=seal, position=number, leaf_hash=leaf)
            for number, (row_id, leaf) in enumerate(leaves)
        ]
    )
