"""A person's export against a world in which each text says whose it is."""

from __future__ import annotations

import json
from typing import Any

import pytest

from memory.checks import walled_models
from memory.models import KnowledgeDocument
from memory.rls import scoped_transaction
from tests.exporting import lines_of
from tests.factories import make_key
from tests.isolation.conftest import Worlds
from tests.isolation.recall_rows import document, index, make_shelf
from tests.isolation.worlds import rows_of
from tests.threads.api.client import Api


def types_of(lines: list[dict[str, Any]]) -> dict[str, int]:
    counted: dict[str, int] = {}
    for line in lines[1:-1]:
        counted[line["type"]] = counted.get(line["type"], 0) + 1
    return counted


@pytest.mark.req("E06")
def test_export_has_every_row_of_a_person_and_nothing_of_others(worlds: Worlds) -> None:
    """Each personal text of the world holds whose it is, so what is missing or too much shows."""
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


@pytest.mark.req("E06")
def test_team_documents_that_a_persons_run_made_are_exported_with_their_chunks(
    worlds: Worlds,
) -> None:
    a, _, _ = worlds
    mine, other = a.people
    scope = a.scope()
    with scoped_transaction(scope):
        whose = {"tenant": a.tenant, "team": a.spare_team}
        chunk, *_ = document(whose, f"{a.mark}team words ", chunks=1)
        entry = index(make_shelf(whose), whose, a.mark, chunk=chunk)
        rows = KnowledgeDocument.objects.in_scope(scope).filter(pk=chunk.document_id)
        rows.update(run_id=mine.run.pk)
    api = Api(make_key(a.tenant))
    for person, is_theirs in ((mine, True), (other, False)):
        lines = lines_of(api.get(f"/v1/users/{person.row.pk}/export"))
        told = {line["id"] for line in lines if line["type"] in ("document", "document_chunk")}
        assert (chunk.document_id in told) is is_theirs
        assert (chunk.pk in told) is is_theirs
        led = {line.get("chunk_id") for line in lines if line["type"] == "index_entry"}
        assert (chunk.pk in led) is is_theirs
    with scoped_transaction(scope):  # the worlds are everybody's
        entry.delete()
        entry.shelf.delete()
        rows.delete()
