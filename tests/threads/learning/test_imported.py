"""Looking through what was imported: only where somebody asks for it, once, and nothing confirmed."""

from __future__ import annotations

import json

import pytest

from governance.models import CoreCandidate
from memory.models import CoreFact, Tenant
from memory.rls import scoped_transaction
from tests.factories import NOW, make_agent, make_provider, make_tenant, scope_of
from tests.jobbook import jobs_of
from threads.imports import import_conversations
from threads.models import Agent
from threads.tasks import HANDLERS, work_lane

LINES = [
    json.dumps({"user_id": "teacher-7", "thread": "t", "role": role, "content": said})
    for role, said in (
        ("user", "请记住，我教初二数学。"),
        ("assistant", "好的，您住在上海。"),
        ("user", "Please remember that I prefer short answers."),
        ("assistant", "Noted."),
    )
]


def school() -> tuple[Tenant, Agent]:
    tenant = make_tenant()
    return tenant, make_agent(tenant, make_provider(tenant, kind="offline", base_url=""))


def bring(tenant: Tenant, agent: Agent, *, learns: bool) -> None:
    import_conversations(scope=scope_of(tenant), agent=agent, lines=LINES, now=NOW, learns=learns)
    work_lane(lane=0, handlers=HANDLERS)


def facts_waiting(tenant: Tenant) -> list[str]:
    scope = scope_of(tenant)
    with scoped_transaction(scope):
        assert not CoreFact.objects.in_scope(scope).exists()
        rows = CoreCandidate.objects.in_scope(scope).order_by("id")
        assert {row.status for row in rows} <= {"pending"}
        return [row.fact for row in rows]


@pytest.mark.req("A18", "A19")
def test_import_teaches_only_when_asked_and_then_the_persons_own_words(committed_db: None) -> None:
    tenant, agent = school()
    bring(tenant, agent, learns=False)
    assert facts_waiting(tenant) == []
    bring(tenant, agent, learns=True)
    found = facts_waiting(tenant)
    assert len(found) == 2
    assert any("初二数学" in fact for fact in found)
    assert any("short answers" in fact for fact in found)
    assert not any("上海" in fact for fact in found)


@pytest.mark.req("A18")
def test_import_asked_twice_adds_nothing(committed_db: None) -> None:
    tenant, agent = school()
    for _ in range(2):
        bring(tenant, agent, learns=True)
    assert len(facts_waiting(tenant)) == 2
    kinds = [job.kind for job in jobs_of(tenant.pk) if job.kind == "extract_core"]
    assert kinds == ["extract_core"] * 2
