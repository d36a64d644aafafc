"""`verify_audit` and `audit_heads`: what they print, and the exit codes a watchman goes by."""

from __future__ import annotations

import json
from collections.abc import Iterator
from io import StringIO
from pathlib import Path
from typing import Any

import psycopg
import pytest
from django.core.management import CommandError, call_command

from governance.sealing import export_heads, heads_of, read_heads, seal_pending
from memory.conf import audit_heads_path
from memory.models import Tenant
from tests.factories import NOW, make_tenant
from tests.governance.sealing.test_chain import act

NO_HEADS = [
    "not a head",
    "5",
    "[" * 100_000,
    '{"tenant_id": "x"}',
    '{"tenant_id": "x", "seq": "1", "hash": "", "sealed_at": ""}',
    '{"tenant_id": "x", "seq": true, "hash": "", "sealed_at": ""}',
    '{"tenant_id": "x", "seq": NaN, "hash": "", "sealed_at": ""}',
    '{"tenant_id": "tn_x,y\\u0000", "seq": 1, "hash": "", "sealed_at": ""}',
    '{"tenant_id": ["x"], "seq": 1, "hash": "", "sealed_at": ""}',
]


@pytest.fixture
def owner(superuser_url: str) -> Iterator[psycopg.Connection[Any]]:
    """Somebody who may do everything: triggers and policies do not hold."""
    with psycopg.connect(superuser_url, autocommit=True) as connection:
        connection.execute("SET session_replication_role = replica")
        yield connection


@pytest.fixture
def pair(committed_db: None) -> tuple[Tenant, Tenant]:
    """Two tenants with a sealed chain each."""
    tenants = make_tenant(), make_tenant()
    for tenant in tenants:
        act(tenant)
    seal_pending(now=NOW)
    return tenants


def told(*words: str) -> str:
    """Run a command; return what it printed."""
    out = StringIO()
    call_command(*words, stdout=out)
    return out.getvalue()


def refused(*words: str) -> tuple[str, str]:
    """Run a command that must fail; return what it printed and its error."""
    out = StringIO()
    with pytest.raises(CommandError) as raised:
        call_command(*words, stdout=out)
    assert raised.value.returncode == 1
    return out.getvalue(), str(raised.value)


def spoil(owner: psycopg.Connection[Any], tenant: Tenant) -> str:
    """Change a sealed row of the tenant; return its id."""
    changed = owner.execute(
        "UPDATE governance_auditentry SET actor = 'staff:9' WHERE id ="
        " (SELECT max(id) FROM governance_auditentry WHERE tenant_id = %s) RETURNING id",
        [tenant.pk],
    ).fetchone()
    assert changed is not None
    return str(changed[0])


def test_verify_audit_of_whole_chains_counts_them(pair: tuple[Tenant, Tenant]) -> None:
    assert export_heads() == 2
    text = told("verify_audit")
    assert text.count("ok   ") == 2
    assert text.count("in 1 links, 0 not sealed yet, 1 exported heads compared") == 2
    only = told("verify_audit", "--tenant", pair[1].slug)
    assert pair[1].pk in only
    assert pair[0].pk not in only


def test_verify_audit_changed_row_exits_non_zero_and_names_it(
    pair: tuple[Tenant, Tenant], owner: psycopg.Connection[Any]
) -> None:
    row_id = spoil(owner, pair[0])
    text, error = refused("verify_audit")
    assert f"row_changed: {row_id} (link 1)" in text
    assert error == f"The chain of {pair[0].pk} is not intact."
    assert "ok   " in told("verify_audit", "--tenant", pair[1].slug)
    refused("verify_audit", "--tenant", pair[0].slug)


def test_verify_audit_json_has_all_of_the_report(
    pair: tuple[Tenant, Tenant], owner: psycopg.Connection[Any]
) -> None:
    row_id = spoil(owner, pair[0])
    act(pair[1], times=2)
    text, _ = refused("verify_audit", "--json")
    reports = {one["tenant_id"]: one for one in json.loads(text)}
    assert set(reports) == {one.pk for one in pair}
    wrong, right = (reports[one.pk] for one in pair)
    assert wrong["problems"] == [{"kind": "row_changed", "seq": 1, "id": row_id}]
    assert (wrong["is_intact"], right["is_intact"]) == (False, True)
    assert (right["unsealed"], right["oldest_unsealed_at"]) == (2, NOW.isoformat())
    assert right["head_hash"] == heads_of(tenant_id=pair[1].pk)[0].hash
    alone = json.loads(told("verify_audit", "--json", "--tenant", pair[1].slug))
    assert [one["tenant_id"] for one in alone] == [pair[1].pk]


def test_heads_printed_elsewhere_show_a_cut_tail(
    pair: tuple[Tenant, Tenant], owner: psycopg.Connection[Any], tmp_path: Path
) -> None:
    """What docs/audit.md tells to do: heads printed, kept elsewhere, and compared later."""
    kept = tmp_path / "kept.jsonl"
    kept.write_text(told("audit_heads"))
    assert read_heads(path=kept) == heads_of()
    assert "1 exported heads compared" in told("verify_audit", "--heads", str(kept))
    for table in ("auditleaf", "auditentry", "disclosure", "auditseal"):
        owner.execute(f"DELETE FROM governance_{table} WHERE tenant_id = %s".encode(), [pair[0].pk])
    assert not audit_heads_path().exists()
    told("verify_audit")
    text, _ = refused("verify_audit", "--heads", str(kept))
    assert "tail_cut: chain (link 1)" in text


def test_tenant_taken_out_whole_is_told_by_its_head(
    pair: tuple[Tenant, Tenant], owner: psycopg.Connection[Any], tmp_path: Path
) -> None:
    """Nothing inside says that there was such a tenant; the head elsewhere does."""
    kept = tmp_path / "kept.jsonl"
    kept.write_text(told("audit_heads"))
    owner.execute("DELETE FROM memory_tenant WHERE id = %s", [pair[0].pk])
    for table in ("auditleaf", "auditentry", "auditseal"):
        owner.execute(f"DELETE FROM governance_{table} WHERE tenant_id = %s".encode(), [pair[0].pk])
    assert pair[0].pk not in told("verify_audit")
    text, error = refused("verify_audit", "--heads", str(kept))
    assert "tail_cut: chain (link 1)" in text
    assert error == f"The chain of {pair[0].pk} is not intact."
    told("verify_audit", "--heads", str(kept), "--tenant", pair[1].slug)


def test_audit_heads_of_one_tenant_only(pair: tuple[Tenant, Tenant]) -> None:
    lines = [json.loads(line) for line in told("audit_heads").splitlines()]
    assert {one["tenant_id"] for one in lines} == {one.pk for one in pair}
    (line,) = told("audit_heads", "--tenant", pair[0].slug).splitlines()
    assert json.loads(line)["tenant_id"] == pair[0].pk


@pytest.mark.parametrize("name", ["verify_audit", "audit_heads"])
def test_unknown_tenant_is_refused(committed_db: None, name: str) -> None:
    _, error = refused(name, "--tenant", "nobody")
    assert error.startswith("not_found")


@pytest.mark.parametrize("line", NO_HEADS)
def test_broken_heads_are_told_by_their_line(
    pair: tuple[Tenant, Tenant], tmp_path: Path, line: str
) -> None:
    broken = tmp_path / "broken.jsonl"
    broken.write_text(f"{told('audit_heads')}{line}\n".replace('"x"', f'"{pair[0].pk}"'))
    _, error = refused("verify_audit", "--heads", str(broken))
    assert error == "The file of heads can not be read: line 3 is no head."


def test_heads_that_can_not_be_read_are_told_in_a_line(committed_db: None, tmp_path: Path) -> None:
    _, error = refused("verify_audit", "--heads", str(tmp_path / "absent.jsonl"))
    assert error.startswith("There is no file")
    _, error = refused("verify_audit", "--heads", str(tmp_path))
    assert error.startswith("The file of heads can not be read")
    bytes_only = tmp_path / "bytes.jsonl"
    bytes_only.write_bytes(b"\xff\n")
    _, error = refused("verify_audit", "--heads", str(bytes_only))
    assert error.startswith("The file of heads can not be read")
    audit_heads_path().mkdir(parents=True)
    _, error = refused("verify_audit")
    assert error.startswith("The file of heads can not be read")
