"""The chain while others work: links made during a check, busy tenants, rows that are gone."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import psycopg
import pytest

from governance.models import AuditPending
from governance.sealing import seal_pending, sealing, verify, verifying
from memory.ids import new_id
from tests.factories import NOW, make_tenant, scope_of
from tests.governance.sealing.test_chain import act, checked


@pytest.fixture
def owner(superuser_url: str) -> Iterator[psycopg.Connection[Any]]:
    """Somebody who may do everything: triggers and policies do not hold."""
    with psycopg.connect(superuser_url, autocommit=True) as connection:
        connection.execute("SET session_replication_role = replica")
        yield connection


@pytest.mark.parametrize("place", ["_roots", "_check_rows", "_check_loose", "_count_waiting"])
def test_link_made_during_a_check_is_no_alarm(
    committed_db: None, monkeypatch: pytest.MonkeyPatch, place: str
) -> None:
    tenant = make_tenant()
    act(tenant)
    seal_pending(now=NOW)
    act(tenant)
    original = getattr(verifying, place)

    def paused(*args: Any) -> Any:
        if place == "_roots":
            return seal_after_the_first(original(*args))
        assert seal_pending(now=NOW) > 0
        return original(*args)

    def seal_after_the_first(roots: Iterator[Any]) -> Iterator[Any]:
        first = next(roots)
        assert seal_pending(now=NOW) > 0
        yield first
        yield from roots

    monkeypatch.setattr(verifying, place, paused)
    report = verify(scope=scope_of(tenant))
    assert report.is_intact, report.problems
    assert report.seals == 1
    monkeypatch.undo()
    assert checked(tenant).seals == 2


def test_busy_tenant_does_not_delay_another(committed_db: None) -> None:
    tenants = sorted((make_tenant(), make_tenant()), key=lambda tenant: tenant.pk)
    act(tenants[0], times=30)
    act(tenants[1], times=2)
    seal_pending(now=NOW, most=5)
    assert [checked(tenant).seals for tenant in tenants] == [1, 1]


def test_ids_without_rows_do_not_block_sealing(
    committed_db: None, owner: psycopg.Connection[Any]
) -> None:
    tenant = make_tenant()
    gone = [new_id("aud") for _ in range(10)]
    for row_id in gone:
        owner.execute(
            "INSERT INTO governance_auditpending (id, tenant_id) VALUES (%s, %s)",
            [row_id, tenant.pk],
        )
    act(tenant, times=12)
    while seal_pending(now=NOW, most=5):
        pass
    waiting = AuditPending.objects.using("maint").unscoped(reason="test: all")
    assert set(waiting.values_list("pk", flat=True)) == set(gone)
    assert {problem.id for problem in checked(tenant).problems} == set(gone)


def test_tenant_that_can_not_be_sealed_hinders_no_other(
    committed_db: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    tenants = sorted((make_tenant(), make_tenant()), key=lambda tenant: tenant.pk)
    act(tenants[0]), act(tenants[1])
    original = sealing._link

    def broken(alias: str, tenant_id: str, *rest: Any) -> None:
        if tenant_id == tenants[0].pk:
            raise ValueError(tenant_id)
        original(alias, tenant_id, *rest)

    monkeypatch.setattr(sealing, "_link", broken)
    with pytest.raises(ValueError, match=tenants[0].pk):
        seal_pending(now=NOW)
    assert [checked(tenant).seals for tenant in tenants] == [0, 1]


def test_link_whose_leaves_are_all_gone_is_told(
    committed_db: None, owner: psycopg.Connection[Any]
) -> None:
    tenant = make_tenant()
    act(tenant)
    seal_pending(now=NOW)
    name = "auditseal_counts_from_one"
    found = owner.execute(
        "SELECT pg_get_constraintdef(oid) FROM pg_constraint WHERE conname = %s", [name]
    ).fetchone()
    assert found is not None
    table = "ALTER TABLE governance_auditseal"
    owner.execute(f"{table} DROP CONSTRAINT {name}".encode())
    try:
        owner.execute("UPDATE governance_auditseal SET entries = 0")
        owner.execute("DELETE FROM governance_auditleaf")
        kinds = {problem.kind for problem in checked(tenant).problems}
    finally:
        owner.execute("DELETE FROM governance_auditseal")
        owner.execute(f"{table} ADD CONSTRAINT {name} {found[0]}".encode())
    assert {"leaves_changed", "link_changed"} <= kinds
