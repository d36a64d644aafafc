"""What the audit chain costs: rows written, sealed and verified a second, for docs/audit.md.

`make bench TESTARGS="-k sealing"`, about a minute. The suite's server does not wait for the disk,
so writing is faster here than on a durable one; sealing and verifying are mostly hashing and Django.
CREDENCE_BENCH_AUDIT_ROWS sets how many rows are sealed.
"""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Callable

import pytest
from django.db import connections

from governance import audit
from governance.sealing import seal_pending, verify
from memory.models import Tenant
from memory.rls import scoped_transaction
from tests.factories import NOW, make_tenant, scope_of

pytestmark = [pytest.mark.bench, pytest.mark.filterwarnings("ignore"), pytest.mark.timeout(900)]
ROWS = int(os.environ.get("CREDENCE_BENCH_AUDIT_ROWS", "20000"))
ALONE = 1_000
THREADS = 4
EACH_TRANSACTION = 200


def write(tenant: Tenant, *, transactions: int, each: int) -> None:
    """Write rows like the product does, through the same function, trigger and walls."""
    scope = scope_of(tenant)
    for _ in range(transactions):
        with scoped_transaction(scope):
            for number in range(each):
                audit.record(
                    scope=scope,
                    action="item_updated",
                    target_kind="memory",
                    target_id=tenant.pk,
                    now=NOW,
                    detail={"number": number, "kinds": ["email", "phone"]},
                )


def write_at_once(tenant: Tenant) -> None:
    """Write from several threads into one tenant, a transaction a row."""

    def one() -> None:
        try:
            write(tenant, transactions=ALONE, each=1)
        finally:
            connections.close_all()

    threads = [threading.Thread(target=one) for _ in range(THREADS)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()


def seal_all() -> int:
    sealed = 0
    while batch := seal_pending(now=NOW):
        sealed += batch
    return sealed


def seconds(act: Callable[[], object]) -> float:
    start = time.perf_counter()
    act()
    return time.perf_counter() - start


def test_sealing(committed_db: None, capsys: pytest.CaptureFixture[str]) -> None:
    tenant = make_tenant()
    seal_all()
    before = verify(scope=scope_of(tenant)).sealed
    alone = ALONE / seconds(lambda: write(tenant, transactions=ALONE, each=1))
    at_once = THREADS * ALONE / seconds(lambda: write_at_once(tenant))
    transactions = max(1, (ROWS - (THREADS + 1) * ALONE) // EACH_TRANSACTION)
    rows = transactions * EACH_TRANSACTION
    together = rows / seconds(
        lambda: write(tenant, transactions=transactions, each=EACH_TRANSACTION)
    )
    total = rows + (THREADS + 1) * ALONE
    sealing = total / seconds(seal_all)
    idle = seconds(seal_all)
    verifying = (total + before) / seconds(lambda: verify(scope=scope_of(tenant)))
    report = verify(scope=scope_of(tenant))
    assert report.is_intact, report.problems
    assert (report.sealed, report.unsealed) == (total + before, 0)
    with capsys.disabled():
        print(f"\naudit chain, {report.sealed:,} rows in {report.seals} links, rows a second:")
        print(f"  written, a transaction a row: {alone:,.0f}")
        print(f"  the same from {THREADS} threads, one tenant: {at_once:,.0f}")
        print(f"  written, {EACH_TRANSACTION} a transaction: {together:,.0f}")
        print(f"  sealed: {sealing:,.0f}; where nothing waits, {idle * 1000:.1f} ms")
        print(f"  verified: {verifying:,.0f}")
