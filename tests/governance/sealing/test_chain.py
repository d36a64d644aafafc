"""The chain of the audit log: what is sealed, and that no change of it stays unseen.

Attack case 170: as app refused; as owner detected; a cut tail by an exported head; an old time.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from typing import Any

import psycopg
import pytest
from django.db import ProgrammingError, connections, transaction

from governance import audit
from governance.models import AuditEntry, AuditLeaf, AuditPending, AuditSeal, Disclosure
from governance.sealing import (
    ChainReport,
    export_heads,
    heads_of,
    read_heads,
    seal_pending,
    verify,
)
from governance.sealing.leaves import seal_hash
from governance.sealing.merkle import root_of
from memory.conf import audit_heads_path
from memory.ids import new_id
from memory.models import Tenant
from memory.rls import scoped_transaction
from tests.factories import NOW, make_tenant, scope_of

SEALED = ("governance_auditentry", "governance_disclosure")
KEPT = (*SEALED, "governance_auditseal", "governance_auditleaf")
LATER = NOW + timedelta(minutes=1)


@pytest.fixture
def owner(superuser_url: str) -> Iterator[psycopg.Connection[Any]]:
    """Somebody who may do everything: triggers and policies do not hold."""
    with psycopg.connect(superuser_url, autocommit=True) as connection:
        connection.execute("SET session_replication_role = replica")
        yield connection


def act(tenant: Tenant, *, times: int = 3, now: datetime = NOW, **detail: Any) -> list[str]:
    """Write audit rows; return the ids of all of the tenant, in order."""
    scope = scope_of(tenant)
    with scoped_transaction(scope):
        for number in range(times):
            audit.record(
                scope=scope,
                action="tried",
                target_kind="tenant",
                target_id=tenant.pk,
                now=now,
                detail={"number": number, "words": ["é", "中文"], **detail},
            )
        return list(AuditEntry.objects.in_scope(scope).order_by("id").values_list("id", flat=True))


def kinds(report: ChainReport) -> set[str]:
    return {problem.kind for problem in report.problems}


def checked(tenant: Tenant) -> ChainReport:
    return verify(scope=scope_of(tenant), heads=read_heads())


def test_rows_of_two_tenants_are_sealed_in_chains_of_their_own(committed_db: None) -> None:
    a, b = make_tenant(), make_tenant()
    act(a), act(b, times=5)
    assert checked(a).unsealed > 0
    sealed = seal_pending(now=LATER)
    assert sealed == AuditLeaf.objects.using("maint").unscoped(reason="test: all").count()
    act(a)
    assert seal_pending(now=LATER) == 3
    assert seal_pending(now=LATER) == 0
    first, second = checked(a), checked(b)
    assert first.is_intact, first.problems
    assert second.is_intact, second.problems
    assert (first.seals, second.seals, first.unsealed, second.unsealed) == (2, 1, 0, 0)
    assert first.head_hash != second.head_hash


@pytest.mark.req("B18")
def test_nothing_of_another_tenants_chain_is_seen(committed_db: None) -> None:
    a, b = make_tenant(), make_tenant()
    act(a), act(b)
    seal_pending(now=NOW)
    with scoped_transaction(scope_of(b)):
        for model in (AuditSeal, AuditLeaf, AuditEntry):
            rows = model.objects.get_queryset().unscoped(reason="test: the wall is off")
            assert set(rows.values_list("tenant_id", flat=True)) == {b.pk}


def test_disclosures_are_leaves_too(committed_db: None, owner: psycopg.Connection[Any]) -> None:
    tenant = make_tenant()
    with scoped_transaction(scope_of(tenant)):
        row = Disclosure.objects.create(
            tenant=tenant,
            kind="run",
            subject_id=None,
            run_id=new_id("run"),
            agent_id=new_id("ag"),
            item_ids=[new_id("rec")],
        )
    seal_pending(now=NOW)
    assert checked(tenant).is_intact
    owner.execute("UPDATE governance_disclosure SET item_ids = '{}' WHERE id = %s", [row.pk])
    report = checked(tenant)
    assert [(one.kind, one.id) for one in report.problems] == [("row_changed", row.pk)]


@pytest.mark.parametrize("role", ["default", "maint"])
@pytest.mark.parametrize("table", KEPT)
@pytest.mark.parametrize("word", ["UPDATE {} SET id = id", "DELETE FROM {}", "TRUNCATE {} CASCADE"])
def test_case_170_product_roles_change_nothing(
    committed_db: None, role: str, table: str, word: str
) -> None:
    tenant = make_tenant()
    act(tenant)
    seal_pending(now=NOW)
    with (
        scoped_transaction(scope_of(tenant), using=role),
        connections[role].cursor() as cursor,
        pytest.raises(ProgrammingError, match=r"append-only|permission denied"),
        transaction.atomic(using=role),
    ):
        cursor.execute(word.format(table))


@pytest.mark.parametrize(
    "change",
    [
        "UPDATE governance_auditentry SET actor = 'staff:9' WHERE id = %s",
        "UPDATE governance_auditentry SET at = at + interval '1 microsecond' WHERE id = %s",
        "UPDATE governance_auditentry SET detail = detail || '{\"number\": 9}' WHERE id = %s",
    ],
)
def test_case_170_edit_by_the_owner_is_detected(
    committed_db: None, owner: psycopg.Connection[Any], change: str
) -> None:
    tenant = make_tenant()
    ids = act(tenant)
    seal_pending(now=NOW)
    owner.execute(change, [ids[1]])
    report = checked(tenant)
    assert not report.is_intact
    assert [(one.kind, one.id) for one in report.problems] == [("row_changed", ids[1])]


def test_case_170_deleted_row_is_detected(
    committed_db: None, owner: psycopg.Connection[Any]
) -> None:
    tenant = make_tenant()
    ids = act(tenant)
    seal_pending(now=NOW)
    owner.execute("DELETE FROM governance_auditentry WHERE id = %s", [ids[0]])
    assert kinds(checked(tenant)) == {"row_missing"}
    owner.execute("DELETE FROM governance_auditleaf WHERE id = %s", [ids[0]])
    assert kinds(checked(tenant)) == {"leaves_changed"}


def test_case_170_row_deleted_before_it_was_sealed_is_detected(
    committed_db: None, owner: psycopg.Connection[Any]
) -> None:
    tenant = make_tenant()
    ids = act(tenant)
    owner.execute("DELETE FROM governance_auditentry WHERE id = %s", [ids[0]])
    seal_pending(now=NOW)
    assert [(one.kind, one.id) for one in checked(tenant).problems] == [("row_missing", ids[0])]


def test_case_170_cut_tail_is_detected_by_an_exported_head(
    committed_db: None, owner: psycopg.Connection[Any]
) -> None:
    tenant = make_tenant()
    act(tenant)
    seal_pending(now=NOW)
    act(tenant)
    seal_pending(now=LATER)
    assert export_heads() == 1
    owner.execute(
        "WITH gone AS (DELETE FROM governance_auditleaf WHERE seal_id IN"
        " (SELECT id FROM governance_auditseal WHERE seq = 2) RETURNING id)"
        " DELETE FROM governance_auditentry WHERE id IN (SELECT id FROM gone)"
    )
    owner.execute("DELETE FROM governance_auditseal WHERE seq = 2")
    assert verify(scope=scope_of(tenant)).is_intact, "inside, a shorter chain looks whole"
    report = checked(tenant)
    assert [(one.kind, one.seq) for one in report.problems] == [("tail_cut", 2)]


def test_case_170_inserted_with_an_old_time_is_detected(
    committed_db: None, owner: psycopg.Connection[Any]
) -> None:
    tenant = make_tenant()
    ids = act(tenant)
    seal_pending(now=NOW)
    copied = (
        "INSERT INTO governance_auditentry SELECT %s, at - interval '1 day', actor, action,"
        " target_kind, target_id, detail, tenant_id FROM governance_auditentry WHERE id = %s"
    )
    columns = owner.execute("SELECT * FROM governance_auditentry LIMIT 0").description
    assert columns is not None
    names = [column.name for column in columns]
    chosen = ", ".join(
        {"id": "%s", "at": "at - interval '1 day'"}.get(name, f'"{name}"') for name in names
    )
    copied = f"INSERT INTO governance_auditentry SELECT {chosen} FROM governance_auditentry"
    copied += " WHERE id = %s"
    past = new_id("aud")
    owner.execute(copied, [past, ids[0]])
    assert kinds(checked(tenant)) == {"row_unlisted"}, "the trigger was off"
    owner.execute(
        "INSERT INTO governance_auditpending (id, tenant_id) VALUES (%s, %s)", [past, tenant.pk]
    )
    seal_pending(now=LATER)
    assert kinds(checked(tenant)) == {"row_backdated"}


def test_case_170_chain_rewritten_whole_is_detected_by_an_exported_head(
    committed_db: None, owner: psycopg.Connection[Any]
) -> None:
    """The owner edits a row, and makes leaf, root and links anew."""
    tenant = make_tenant()
    ids = act(tenant)
    seal_pending(now=NOW)
    export_heads()
    owner.execute("UPDATE governance_auditentry SET actor = 'staff:9' WHERE id = %s", [ids[0]])
    owner.execute("DELETE FROM governance_auditleaf")
    owner.execute("DELETE FROM governance_auditseal")
    owner.execute(
        "INSERT INTO governance_auditpending (id, tenant_id)"
        " SELECT id, tenant_id FROM governance_auditentry"
    )
    seal_pending(now=NOW)
    assert verify(scope=scope_of(tenant)).is_intact
    assert kinds(checked(tenant)) == {"rewritten"}


def test_link_changed_or_missing_is_detected(
    committed_db: None, owner: psycopg.Connection[Any]
) -> None:
    tenant = make_tenant()
    for minute in range(3):
        act(tenant)
        seal_pending(now=NOW + timedelta(minutes=minute))
    owner.execute("UPDATE governance_auditseal SET sealed_at = now() WHERE seq = 2")
    assert [(p.kind, p.seq) for p in checked(tenant).problems] == [("link_changed", 2)]
    owner.execute("DELETE FROM governance_auditseal WHERE seq = 2")
    assert "link_missing" in kinds(checked(tenant))


def test_row_that_commits_late_is_in_a_later_link(committed_db: None) -> None:
    tenant = make_tenant()
    scope = scope_of(tenant)
    go_on, is_written = threading.Event(), threading.Event()

    def slowly() -> None:
        with scoped_transaction(scope):
            audit.record(
                scope=scope, action="late", target_kind="tenant", target_id=tenant.pk, now=NOW
            )
            is_written.set()
            go_on.wait(20)
        connections.close_all()

    worker = threading.Thread(target=slowly)
    worker.start()
    assert is_written.wait(20)
    act(tenant)
    seal_pending(now=LATER)
    go_on.set()
    worker.join()
    assert checked(tenant).unsealed == 1
    assert seal_pending(now=LATER) == 1
    report = checked(tenant)
    assert report.is_intact, report.problems
    assert (report.seals, report.unsealed) == (2, 0)


def test_sealers_at_once_seal_each_row_once(committed_db: None) -> None:
    tenant = make_tenant()
    act(tenant, times=60)
    start = threading.Barrier(4)
    errors: list[Exception] = []

    def sealing() -> None:
        try:
            start.wait()
            for _ in range(20):
                seal_pending(now=LATER, most=7)
        except Exception as error:  # noqa: BLE001 - whatever it is, the test fails
            errors.append(error)
        finally:
            connections.close_all()

    threads = [threading.Thread(target=sealing) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    while seal_pending(now=LATER, most=7):
        pass
    assert not errors
    report = checked(tenant)
    assert report.is_intact, report.problems
    assert report.unsealed == 0
    assert report.sealed >= 60


def test_sealer_that_ends_half_way_leaves_nothing(
    committed_db: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    tenant = make_tenant()
    act(tenant)

    def broken(*_: Any, **__: Any) -> None:
        raise InterruptedError

    with monkeypatch.context() as patched:
        patched.setattr(AuditLeaf.objects, "using", broken)
        with pytest.raises(InterruptedError):
            seal_pending(now=NOW)
    report = checked(tenant)
    assert (report.seals, report.is_intact) == (0, True)
    assert report.unsealed == AuditPending.objects.using("maint").unscoped(reason="test").count()
    assert seal_pending(now=NOW) == report.unsealed


def test_link_says_what_its_leaves_and_hash_are(committed_db: None) -> None:
    """Anybody can reckon it from the rows, without this code but for the hashes."""
    tenant = make_tenant()
    act(tenant)
    seal_pending(now=NOW)
    with scoped_transaction(scope_of(tenant)):
        seal = AuditSeal.objects.in_scope(scope_of(tenant)).get()
        leaves = list(seal.leaves.get_queryset().in_scope(scope_of(tenant)).order_by("position"))
        waiting = AuditPending.objects.in_scope(scope_of(tenant)).count()
    assert waiting == 0
    assert seal.root == root_of([leaf.leaf_hash for leaf in leaves])
    assert seal.hash == seal_hash(seal)
    assert [leaf.position for leaf in leaves] == list(range(seal.entries))


def test_heads_are_appended_once_and_a_torn_line_is_passed_over(committed_db: None) -> None:
    a, b = make_tenant(), make_tenant()
    act(a), act(b)
    seal_pending(now=NOW)
    assert export_heads() == 2
    assert export_heads() == 0
    path = audit_heads_path()
    assert path.stat().st_mode & 0o077 == 0
    with path.open("a") as file:
        file.write('{"tenant_id": "tn_torn')
    assert {head.tenant_id for head in read_heads()} == {a.pk, b.pk}
    act(a)
    seal_pending(now=LATER)
    assert export_heads() == 1
    assert [head.seq for head in read_heads() if head.tenant_id == a.pk] == [1, 2]
    assert [head.tenant_id for head in heads_of(tenant_id=b.pk)] == [b.pk]
    path.write_text("not a head\n")
    with pytest.raises(ValueError, match="line 1"):
        read_heads()


def test_times_are_compared_between_links_only(committed_db: None) -> None:
    """A worker that was down for hours seals rows that are old by then, which is no forgery."""
    tenant = make_tenant()
    for hour in range(6):
        act(tenant, now=NOW + timedelta(hours=hour))
    while seal_pending(now=datetime(2030, 1, 1, tzinfo=UTC), most=4):
        pass
    report = checked(tenant)
    assert report.is_intact, report.problems
