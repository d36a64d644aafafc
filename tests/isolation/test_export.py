"""A person's export against a world in which each text says whose it is."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from memory.checks import walled_models
from tests.exporting import lines_of
from tests.factories import make_key
from tests.isolation.conftest import Worlds
from tests.isolation.worlds import rows_of
from tests.threads.api.client import Api


def types_of(lines: list[dict[str, Any]]) -> dict[str, int]:
    counted: dict[str, int] = {}
    for line in lines[1:-1]:
        counted[line["type"]] = counted.get(line["type"], 0) + 1
    return counted


@pytest.mark.req("E06")
def test_export_has_every_row_of_a_person_and_nothing_of_others(
    worlds: Worlds, settings: Any, tmp_path: Path
) -> None:
    """Each personal text of the world holds whose it is, so what is missing or too much shows."""
    settings.STATIC_ROOT = tmp_path
    a, b, _ = worlds
    mine, other = a.people
    key = make_key(a.tenant)
    lines = lines_of(Api(key).get(f"/v1/users/{mine.row.pk}/export"))
    text = json.dumps(lines, ensure_ascii=False)
    counts = lines[-1]["counts"]
    assert types_of(lines) == counts
    assert f"CNRY-{a.tenant.slug}-2-" not in text
    assert other.row.pk not in text
    assert b.mark not in text
    assert b.tenant.pk not in text
    assert "问题" in text, "Chinese stays readable"
    wanted = {
        "threads_message": "message",
        "threads_run": "run",
        "threads_thread": "thread",
        "threads_summarynode": "summary_node",
        "threads_threadsummary": "thread_summary",
        "threads_runtrace": "run_trace",
        "memory_recallentry": "recall_entry",
        "memory_corefact": "core_fact",
        "governance_corecandidate": "core_candidate",
        "governance_correction": "correction",
        "memory_indexentry": "index_entry",
        "governance_disclosure": "disclosure",
        "threads_artifact": "artifact",
    }
    for table, kind in wanted.items():
        model: Any = walled_models()[table]
        rows = rows_of(model, using="maint").unscoped(reason="test: counting")
        number = rows.filter(**{model.walls.user: mine.row.pk}).count()
        assert number, table
        assert counts[kind] == number, table
