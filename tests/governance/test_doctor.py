"""The doctor: silent exit code on a healthy instance, and a finding with a remedy for each fault."""

from __future__ import annotations

import io
import json
from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path
from typing import Any

import psycopg
import pytest
from django.core.management import call_command
from django.db import connections
from django.utils import timezone

from governance.models import Disclosure
from governance.sealing import seal_pending
from memory import lanes
from memory.ids import new_id
from memory.rls import scoped_transaction
from tests.conftest import empty_tables
from tests.factories import make_tenant, scope_of
from tests.governance.sealing.test_chain import act

CHECKS = {
    "database",
    "migrations",
    "walls",
    "maintenance",
    "lane control",
    "lane memory0",
    "erasures",
    "ledger",
    "sealer",
    "data folder",
    "key peppers",
    "encryption keys",
    "provider hosts",
}


@pytest.fixture
def healthy(
    django_db_setup: None,
    django_db_blocker: Any,
    settings: Any,
    tmp_path: Path,
    superuser_url: str,
) -> Iterator[None]:
    """An instance as it should be; its two lanes show life."""
    settings.CREDENCE_VAR = tmp_path
    with django_db_blocker.unblock():
        lanes.beat(name="control")
        lanes.beat(name="memory0")
        yield
        connections.close_all()
    with psycopg.connect(superuser_url, autocommit=True) as superuser:
        superuser.execute("DELETE FROM memory_lane")


def examine() -> tuple[int, dict[str, dict[str, Any]]]:
    """Run `doctor --json`; returns its exit code and the findings that are wrong, by check."""
    out = io.StringIO()
    code = 0
    try:
        call_command("doctor", "--json", stdout=out)
    except SystemExit as stopped:
        code = int(stopped.code or 0)
    report = json.loads(out.getvalue())
    assert report["is_ok"] == (code == 0)
    wrong = {row["check"]: row for row in report["findings"] if not row["is_ok"]}
    assert all(row["remedy"] for row in wrong.values())
    return code, wrong


def test_doctor_healthy_instance_says_so_and_exits_zero(healthy: None) -> None:
    out = io.StringIO()
    call_command("doctor", stdout=out)
    text = out.getvalue()
    assert text.count("ok ") == len(CHECKS)
    assert "wrong" not in text
    assert examine() == (0, {})


def test_doctor_looks_at_everything(healthy: None) -> None:
    out = io.StringIO()
    call_command("doctor", "--json", stdout=out)
    assert {row["check"] for row in json.loads(out.getvalue())["findings"]} == CHECKS


@pytest.mark.req("B18")
def test_doctor_wall_down_exits_non_zero_and_says_which(healthy: None, superuser_url: str) -> None:
    with psycopg.connect(superuser_url, autocommit=True) as superuser:
        superuser.execute("ALTER TABLE threads_run DISABLE ROW LEVEL SECURITY")
        try:
            code, wrong = examine()
            out = io.StringIO()
            with pytest.raises(SystemExit):
                call_command("doctor", stdout=out)
        finally:
            superuser.execute("ALTER TABLE threads_run ENABLE ROW LEVEL SECURITY")
    assert code == 1
    assert "threads_run" in wrong["walls"]["detail"]
    assert "threads_run" in out.getvalue()
    assert "->" in out.getvalue()


def test_doctor_lane_silent_or_unseen_tells_to_start_the_worker(
    healthy: None, settings: Any, superuser_url: str
) -> None:
    settings.CREDENCE_MEMORY_LANES = 2
    with psycopg.connect(superuser_url, autocommit=True) as superuser:
        superuser.execute(
            "UPDATE memory_lane SET heartbeat_at = now() - interval '1 hour' WHERE name = 'memory0'"
        )
    code, wrong = examine()
    assert code == 1
    assert set(wrong) == {"lane memory0", "lane memory1"}
    assert "worker" in wrong["lane memory1"]["remedy"]


def test_doctor_migration_pending_named(healthy: None, superuser_url: str) -> None:
    row = (
        "app = 'threads' AND name = (SELECT max(name) FROM django_migrations WHERE app = 'threads')"
    )
    with psycopg.connect(superuser_url, autocommit=True) as superuser:
        undone = superuser.execute(
            f"DELETE FROM django_migrations WHERE {row} RETURNING app, name, applied"
        ).fetchone()
        try:
            code, wrong = examine()
        finally:
            superuser.execute(
                "INSERT INTO django_migrations (app, name, applied) VALUES (%s, %s, %s)", undone
            )
    assert code == 1
    assert undone is not None
    assert undone[1] in wrong["migrations"]["detail"]
    assert "migrate --database owner" in wrong["migrations"]["remedy"]


def test_doctor_rows_that_wait_long_for_their_seal_ask_for_a_worker(
    healthy: None, superuser_url: str
) -> None:
    """Old rows in both tables count; fresh ones, and ids whose row is gone, do not."""
    now = timezone.now()
    tenant = make_tenant()
    try:
        while seal_pending(now=now):
            pass
        act(tenant, times=2, now=now)
        assert examine() == (0, {})
        act(tenant, times=2, now=now - timedelta(minutes=2))
        with scoped_transaction(scope_of(tenant)):
            Disclosure.objects.create(
                tenant=tenant,
                at=now - timedelta(hours=1),
                kind="run",
                run_id=new_id("run"),
                agent_id=new_id("ag"),
            )
        code, wrong = examine()
        assert code == 1
        assert set(wrong) == {"sealer"}
        assert wrong["sealer"]["detail"].startswith("3 rows")
        assert "manage.py worker" in wrong["sealer"]["remedy"]
        seal_pending(now=now)
        assert examine() == (0, {})
    finally:
        empty_tables(superuser_url)


@pytest.mark.parametrize(
    ("name", "value", "check"),
    [
        ("CREDENCE_KEY_PEPPERS", {}, "key peppers"),
        ("CREDENCE_KEY_PEPPERS", {1: ""}, "key peppers"),
        ("CREDENCE_ENCRYPTION_KEYS", [], "encryption keys"),
        ("CREDENCE_ENCRYPTION_KEYS", ["short"], "encryption keys"),
        ("CREDENCE_VAR", "/nowhere/at/all", "data folder"),
    ],
)
def test_doctor_setting_missing_named_without_its_value(
    healthy: None, settings: Any, name: str, value: Any, check: str
) -> None:
    setattr(settings, name, value)
    code, wrong = examine()
    assert code == 1
    assert set(wrong) == {check}
    assert "short" not in wrong[check]["detail"]


def test_doctor_no_provider_host_is_a_hint_only(healthy: None, settings: Any) -> None:
    settings.CREDENCE_PROVIDER_HOSTS = []
    assert examine() == (0, {})


def test_doctor_database_down_is_a_finding_not_a_crash(healthy: None) -> None:
    connections["default"].close()
    before = connections["default"].settings_dict
    connections["default"].settings_dict = {**before, "HOST": "127.0.0.1", "PORT": 1}
    try:
        code, wrong = examine()
    finally:
        connections["default"].settings_dict = before
    assert code == 1
    assert set(wrong) == {"database"}
