"""The sealer's loop: it goes on after faults, and ends when it is told."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from threading import Event
from typing import Any

import psycopg
import pytest

from governance.sealing import read_heads, seal_pending
from memory.models import Tenant
from tests.factories import make_tenant
from tests.governance.sealing.test_chain import act, checked
from threads import sealer as module
from threads.sealer import Sealer

PATIENCE_SECONDS = 20


@pytest.fixture
def running(committed_db: None) -> Iterator[Callable[[], Sealer]]:
    """Starts sealers that rest a hundredth of a second; ends them."""
    should_stop, started = Event(), list[Sealer]()

    def start() -> Sealer:
        one = Sealer(should_stop=should_stop, period_seconds=0.01, export_seconds=0.01)
        started.append(one)
        one.start()
        return one

    yield start
    should_stop.set()
    for one in started:
        one.join(PATIENCE_SECONDS)
        assert not one.is_alive()


def wait_for(is_so: Callable[[], bool]) -> None:
    until = time.monotonic() + PATIENCE_SECONDS
    while not is_so():
        assert time.monotonic() < until, "waited in vain"


def is_sealed(tenant: Tenant) -> bool:
    report = checked(tenant)
    return report.seals > 0 and not report.unsealed


def codes(caplog: pytest.LogCaptureFixture, message: str) -> set[str]:
    return {getattr(one, "code", "") for one in caplog.records if one.message == message}


def test_loop_goes_on_after_the_database_dropped_it(
    running: Callable[[], Sealer], superuser_url: str, monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:  # fmt: skip
    """A restart of the server, as the loop sees it: its connection is gone in mid-transaction."""
    tenant = make_tenant()
    act(tenant)
    original, dropped = seal_pending, Event()

    def dropping(**named: Any) -> int:
        if not dropped.is_set():
            dropped.set()
            with psycopg.connect(superuser_url, autocommit=True) as superuser:
                backends = (
                    "SELECT pg_terminate_backend(pid) FROM pg_stat_activity"
                    " WHERE usename = 'credence_maint'"
                )
                ended = superuser.execute(backends).fetchall()
            assert ended, "the sealer's own connection was open"
        return original(**named)

    sealer = running()
    wait_for(lambda: is_sealed(tenant))
    monkeypatch.setattr(module, "seal_pending", dropping)
    with caplog.at_level(logging.WARNING, logger="credence.sealer"):
        wait_for(lambda: bool(codes(caplog, "seal_failed")))
    act(tenant)
    wait_for(lambda: is_sealed(tenant))
    assert sealer.is_alive()
    assert codes(caplog, "seal_failed") <= {"OperationalError", "InterfaceError"}


def test_loop_goes_on_after_any_fault_and_logs_a_code_only(
    running: Callable[[], Sealer], monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    tenant = make_tenant()
    act(tenant)
    original, is_broken = seal_pending, Event()
    is_broken.set()

    def breaking(**named: Any) -> int:
        if is_broken.is_set():
            raise KeyError("words of a person")
        return original(**named)

    monkeypatch.setattr(module, "seal_pending", breaking)
    with caplog.at_level(logging.WARNING, logger="credence.sealer"):
        running()
        wait_for(lambda: bool(codes(caplog, "seal_failed")))
    is_broken.clear()
    wait_for(lambda: is_sealed(tenant))
    assert codes(caplog, "seal_failed") == {"KeyError"}
    assert "words of a person" not in caplog.text


def test_heads_that_could_not_be_exported_are_exported_later(
    running: Callable[[], Sealer], settings: Any, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    tenant = make_tenant()
    act(tenant)
    blocked = tmp_path / "blocked"
    blocked.write_text("a file where a folder should be")
    settings.CREDENCE_AUDIT_HEADS = blocked / "heads.jsonl"
    with caplog.at_level(logging.WARNING, logger="credence.sealer"):
        running()
        wait_for(lambda: bool(codes(caplog, "heads_not_exported")))
    wait_for(lambda: is_sealed(tenant))
    blocked.unlink()
    wait_for(lambda: [head.tenant_id for head in read_heads()] == [tenant.pk])


def test_loop_that_rests_ends_at_once_when_told(committed_db: None) -> None:
    should_stop = Event()
    sealer = Sealer(should_stop=should_stop, period_seconds=3600)
    sealer.start()
    should_stop.set()
    sealer.join(PATIENCE_SECONDS)
    assert not sealer.is_alive()
