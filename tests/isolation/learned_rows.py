"""Rows of governed memory for a tenant of the isolation tests: of a person, and of the tenant."""

from __future__ import annotations

from typing import Any

from governance.models import (
    BulkDecision,
    CoreCandidate,
    Correction,
    EntityCandidate,
    Extraction,
)
from memory.models import (
    BehaviourSample,
    CoreFact,
    Entity,
    EntityEvent,
    EntityMerge,
    MemoryItem,
    MemoryItemVersion,
    Tenant,
)
from tests.factories import NOW
from threads.models import Run

# Of these there is none that the whole tenant shares.
OWNED = {"memory_memoryitem", "memory_memoryitemversion"}


def item_of(whose: dict[str, Any], mark: str, **source: Any) -> MemoryItem:
    """An item of an owner with its one version; `source` has origin and run."""
    said: dict[str, Any] = {
        **whose,
        "title": f"{mark}title 标题",
        "content": f"{mark}item 内容",
        "tier": "observed",
        "confidence": 0.5,
        "written_by": "test",
        **({"origin": "api"} | source),
    }
    item = MemoryItem.objects.create(**said, category="memo", key="canary", key_folded=f"{mark}key")
    MemoryItemVersion.objects.create(**said, item=item, version=1)
    return item


def fill_learned(run: Run, mark: str) -> None:
    """One row of each table that a person's memory is kept in."""
    whose: dict[str, Any] = {"tenant_id": run.tenant_id, "end_user_id": run.end_user_id}
    item_of(whose, mark, origin="run", run=run)
    _candidate(whose, run, mark)
    candidate = _candidate(whose, run, f"{mark}confirmed", status="confirmed", decided_at=NOW)
    CoreFact.objects.create(
        **whose,
        fact=f"{mark}fact 事实",
        subject=mark,
        fact_key=f"{mark}key",
        origin="run",
        run=run,
        candidate=candidate,
        valid_from=NOW,
        decided_by_kind="end_user",
        decided_by_id=f"{mark}decider",
    )
    Extraction.objects.create(**whose, thread_id=run.thread_id, run=run, outcome="ok")


def _candidate(whose: dict[str, Any], run: Run, mark: str, **values: Any) -> CoreCandidate:
    return CoreCandidate.objects.create(
        **whose,
        fact=f"{mark}candidate 候选",
        subject=mark,
        fact_key=f"{mark}key",
        evidence=f"{mark}evidence",
        origin="run",
        run=run,
        proposed_by="test",
        **values,
    )


def fill_vocabulary(tenant: Tenant, run: Run, mark: str) -> None:
    """One row of each table of a tenant's vocabulary and behaviour."""
    names: dict[str, Any] = {"tenant": tenant, "entity_type": "course", "term": f"{mark}term 词"}
    EntityCandidate.objects.create(**names, term_key=f"{mark}waits")
    candidate = EntityCandidate.objects.create(
        **names, term_key=f"{mark}key", status="approved", decided_at=NOW, decided_by="test"
    )
    Correction.objects.create(
        tenant=tenant,
        end_user_id=run.end_user_id,
        thread_id=run.thread_id,
        run=run,
        entity_type="course",
        term=f"{mark}term",
        term_key=f"{mark}key",
        wrong=f"{mark}wrong",
        right=f"{mark}right",
        candidate=candidate,
        created_by="test",
    )
    first, second = (
        Entity.objects.create(
            tenant=tenant,
            entity_type="course",
            term=f"{mark}term {number}",
            term_key=f"{mark}key {number}",
            aliases=[f"{mark}alias"],
            candidate=candidate,
            approved_at=NOW,
            approved_by="test",
        )
        for number in (1, 2)
    )
    EntityEvent.objects.create(
        tenant=tenant,
        entity=first,
        end_user_id=run.end_user_id,
        run=run,
        kind="hit",
        weight_before=1.0,
        weight_after=1.1,
        day=NOW.date(),
        by="worker",
    )
    EntityMerge.objects.create(
        tenant=tenant, source=first, target=second, score=0.9, before={"aliases": [mark]}
    )
    BehaviourSample.objects.create(
        tenant=tenant,
        kind="rule",
        content=f"{mark}rule 规则",
        sample_key=f"{mark}key",
        origin="api",
        proposed_by="test",
    )
    BulkDecision.objects.create(
        tenant=tenant, kind="core_candidate", action="reject", reason=mark, actor="staff:1"
    )
