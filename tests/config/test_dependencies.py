"""What `make audit` says about reports of every kind."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

from tests.dependencies import judge

CLEAN: dict[str, Any] = {"name": "django", "version": "5.2.19", "vulns": []}
BAD: dict[str, Any] = {
    "name": "lib",
    "version": "1.0",
    "vulns": [{"id": "PYSEC-2026-1", "fix_versions": ["1.1"], "aliases": []}],
}
UNKNOWN: dict[str, Any] = {"name": "ours", "skip_reason": "not found"}


def test_an_advisory_is_bad_and_says_what_to_do() -> None:
    verdict = judge({"dependencies": [CLEAN, BAD]}, resolving="")
    assert verdict.is_bad
    assert "PYSEC-2026-1" in verdict.lines[0]
    assert "--upgrade-package lib" in verdict.lines[0]


def test_an_advisory_without_a_release_says_so() -> None:
    hopeless = {**BAD, "vulns": [{"id": "PYSEC-2026-2", "fix_versions": []}]}
    assert "no release" in judge({"dependencies": [hopeless]}, resolving="").lines[0]


def test_a_clean_report_counts_what_was_not_known() -> None:
    verdict = judge({"dependencies": [CLEAN, UNKNOWN]}, resolving="")
    assert (verdict.is_bad, verdict.was_audited) == (False, True)
    assert verdict.lines[-1] == "1 packages audited, 1 not known to the service."


def test_a_version_taken_back_is_bad_even_where_no_advisory_is_known() -> None:
    said = "WARNING: The candidate selected is a yanked version: 'lib' candidate\nReason: broken"
    verdict = judge({"dependencies": [CLEAN]}, resolving=said)
    assert verdict.is_bad
    assert "yanked" in verdict.lines[0]


def test_nothing_looked_up_is_told_as_that() -> None:
    reports: list[dict[str, Any] | None] = [None, {"dependencies": []}, {"dependencies": [UNKNOWN]}]
    for report in reports:
        verdict = judge(report, resolving="")
        assert (verdict.is_bad, verdict.was_audited) == (False, False)
        assert "No advisory was looked up" in verdict.lines[-1]


def test_ci_asks_for_it() -> None:
    assert re.search(r"^make .*\baudit\b", Path(".ci/run").read_text("utf-8"), re.MULTILINE)
