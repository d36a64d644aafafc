"""The sealer: takes what waits, makes leaves of it, and adds one link to each tenant's chain."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from itertools import groupby
from operator import itemgetter
from typing import Final

from django.db import connections

from governance.models import AuditEntry, AuditLeaf, AuditPending, AuditSeal, Disclosure
from governance.sealing.leaves import disclosure_leaf, entry_leaf, seal_hash
from governance.sealing.merkle import root_of
from memory.ids import new_id
from memory.rls import maintenance_transaction

BATCH: Final = 5000
_LOCK_KEY: Final = 0x7365616C  # "seal": any number, as long as nobody else takes it
_REASON: Final = "the sealer serves every tenant; it reads ids, counts and hashes only"


def seal_pending(*, now: datetime, most: int = BATCH) -> int:
    """Seal up to `most` waiting rows of all tenants in one transaction; return how many.

    One sealer works at a time; another one does nothing meanwhile. Whatever ends it half-way leaves
    nothing, and the next one begins anew. A row that is gone although it waits stays on the list,
    where `verify` finds it. Cost: one statement where nothing waits; about 0.1 ms a row.
    """
    with maintenance_transaction() as alias:
        if not _lock(alias):
            return 0
        waiting = AuditPending.objects.using(alias).unscoped(reason=_REASON)
        found = list(waiting.order_by("tenant_id", "id").values_list("tenant_id", "id")[:most])
        if not found:
            return 0
        leaves = _leaves_of(alias, [row_id for _, row_id in found])
        sealed: list[str] = []
        for tenant_id, pairs in groupby(found, key=itemgetter(0)):
            ids = [row_id for _, row_id in pairs if row_id in leaves]
            if ids:
                _link(alias, tenant_id, [(row_id, leaves[row_id]) for row_id in ids], now)
                sealed += ids
        waiting.filter(pk__in=sealed).delete()
        return len(sealed)


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
