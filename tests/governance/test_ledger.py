"""The ledger outside the database: chained, private, whole after crashes and between processes."""

from __future__ import annotations

import json
import stat
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from governance import ledger
from governance.ledger import LedgerDamagedError, LedgerEntry
from memory.conf import erasure_ledger_path

AT = datetime(2026, 11, 2, 9, 0, tzinfo=UTC)


def entry(name: str, **values: Any) -> LedgerEntry:
    """An entry of an erasure."""
    one = LedgerEntry(
        kind="erased", id=name, tenant_id="tn_1", subject_id="usr_1", at=AT, hmacs=("a" * 64,)
    )
    return replace(one, **values)


def test_ledger_missing_file_is_empty() -> None:
    assert ledger.read() == []
    assert ledger.read_last(count=3) == []
    assert ledger.broken_links() == []
    assert ledger.position_of(erasure_id="era_1") is None


def test_ledger_appended_entries_are_read_in_order_and_chained() -> None:
    ledger.append(entry=entry("era_1", mode="tagged", kinds=("email",), before_at=AT))
    ledger.append(entry=entry("hold_1", kind="held"))
    ledger.append(entry=entry("hold_1", kind="released"))
    found = ledger.read()
    assert [(one.kind, one.id) for one in found] == [
        ("erased", "era_1"),
        ("held", "hold_1"),
        ("released", "hold_1"),
    ]
    assert found[0] == entry("era_1", mode="tagged", kinds=("email",), before_at=AT)
    assert found[0].previous == ""
    assert len({one.previous for one in found}) == 3
    assert ledger.broken_links() == []
    assert ledger.read_last(count=2) == found[1:]


def test_ledger_same_entry_again_changes_nothing() -> None:
    for _ in range(2):
        ledger.append(entry=entry("era_1"))
    assert len(ledger.read()) == 1


def test_ledger_file_is_its_owners_alone() -> None:
    ledger.append(entry=entry("era_1"))
    assert stat.S_IMODE(erasure_ledger_path().stat().st_mode) == 0o600


def test_ledger_line_torn_by_a_crash_is_passed_over_and_repaired() -> None:
    ledger.append(entry=entry("era_1"))
    path = erasure_ledger_path()
    whole = path.read_bytes()
    path.write_bytes(whole + b'{"kind":"erased","id":"era_2","ten')
    assert [one.id for one in ledger.read()] == ["era_1"]
    assert [one.id for one in ledger.read_last(count=5)] == ["era_1"]
    ledger.append(entry=entry("era_2"))
    assert [one.id for one in ledger.read()] == ["era_1", "era_2"]
    assert ledger.broken_links() == []


def _cut(lines: list[str]) -> list[str]:
    return lines[:1] + lines[2:]


def _swap(lines: list[str]) -> list[str]:
    return [lines[1], lines[0], lines[2]]


def _edit(lines: list[str]) -> list[str]:
    return [lines[0].replace("usr_1", "usr_2"), *lines[1:]]


@pytest.mark.parametrize(("change", "broken"), [(_cut, [2]), (_swap, [1, 2, 3]), (_edit, [2])])
def test_ledger_changed_by_hand_is_noticed(
    change: Callable[[list[str]], list[str]], broken: list[int]
) -> None:
    for name in ("era_1", "era_2", "era_3"):
        ledger.append(entry=entry(name))
    path = erasure_ledger_path()
    path.write_text("\n".join(change(path.read_text().splitlines())) + "\n")
    assert ledger.broken_links() == broken


@pytest.mark.parametrize("line", ["no json", "[]", "{}", '{"kind":"erased"}'])
def test_ledger_unreadable_line_is_an_error_not_an_omission(line: str) -> None:
    ledger.append(entry=entry("era_1"))
    path = erasure_ledger_path()
    path.write_text(f"{line}\n" + path.read_text())
    with pytest.raises(LedgerDamagedError):
        ledger.read()


def test_ledger_threads_at_once_lose_nothing() -> None:
    with ThreadPoolExecutor(8) as pool:
        list(pool.map(lambda n: ledger.append(entry=entry(f"era_{n}")), range(60)))
    assert {one.id for one in ledger.read()} == {f"era_{n}" for n in range(60)}
    assert ledger.broken_links() == []


def test_ledger_holds_no_more_than_its_names() -> None:
    ledger.append(entry=entry("era_1"))
    row = json.loads(erasure_ledger_path().read_text())
    assert set(row) == set(
        "kind id tenant_id subject_id at hmacs epoch mode kinds before_at receipt_sha256"
        " previous".split()
    )


def test_ledger_position_names_line_and_hash(tmp_path: Path) -> None:
    ledger.append(entry=entry("era_1"))
    ledger.append(entry=entry("era_2"))
    place = ledger.position_of(erasure_id="era_2")
    assert place is not None
    assert place[0] == 2
    ledger.append(entry=entry("era_3"))
    assert ledger.read()[-1].previous == place[1]
