"""A person goes over HTTP, and nothing of the API knows of them any more: I1, I10, case 158."""

from __future__ import annotations

from typing import Any
from urllib.parse import quote, urlsplit

import pytest
from django.db import connection
from django.test import Client

from governance.erasure.receipts import sha256_of
from memory.models import EndUser
from memory.rls import scoped_transaction
from tests.dumping import grep
from tests.exporting import lines_of
from tests.factories import make_end_user, make_run, make_thread, scope_of
from tests.isolation.learned_rows import fill_learned
from tests.isolation.recall_rows import fill_person, make_model
from tests.threads.api.client import Api, Place, make_place
from threads.models import Artifact, ThreadSummary
from threads.tasks import control_tick

MARK = "Oelsen4711翡翠"


def _fill(a: Place) -> dict[str, str]:
    """Give the person a row of each kind; return where each one is read."""
    whose: dict[str, Any] = {"tenant": a.tenant, "end_user": a.person}
    scope = scope_of(a.tenant)
    with scoped_transaction(scope):
        model = make_model(a.tenant, "plain")
    with scoped_transaction(scope_of(a.tenant, a.person)):
        fill_person(a.run, a.agent, model, MARK)
        fill_learned(a.run, MARK)
    with scoped_transaction(scope_of(a.tenant, a.person, a.thread)):
        file = Artifact.objects.create(
            **whose, thread=a.thread, run=a.run, name=f"{MARK}.md", content=MARK, bytes=1
        )
        ThreadSummary.objects.create(**whose, thread=a.thread, rolling_summary=f"{MARK} 摘要")
    who = {"user_id": a.person.user_id}
    note = {"title": MARK, "content": MARK} | who
    headers = {"Idempotency-Key": "once-only"}
    made = a.api.post("/v1/knowledge/documents", note | {"kind": "note"}, headers=headers)
    assert made.status_code == 201, made.content
    item = a.api.send("PUT", "/v1/memories/memo/course", note)
    assert item.status_code == 201, item.content
    link = a.api.post(f"/v1/users/{a.person.pk}/exports", {})
    assert link.status_code == 201, link.content
    return {
        "run": f"/v1/runs/{a.run.pk}",
        "thread": f"/v1/threads/{a.thread.pk}",
        "messages": f"/v1/threads/{a.thread.pk}/messages",
        "summary": f"/v1/threads/{a.thread.pk}/summary",
        "message": f"/v1/messages/{a.message_id}",
        "artifact": f"/v1/runs/{a.run.pk}/artifacts/{file.pk}",
        "document": f"/v1/knowledge/documents/{made.json()['id']}",
        "item uses": f"/v1/items/{item.json()['id']}/uses",
        "link": link.json()["url"],
    }


def _seen(a: Place, user_id: str) -> dict[str, Any]:
    """What each list and search of the API answers for somebody."""
    user, api = quote(user_id, safe=""), a.api
    who = {"user_id": user_id}
    return {
        "search": api.post("/v1/memories/search", {"query": MARK} | who),
        "grep": api.post("/v1/memories/grep", {"query": MARK} | who),
        "memories": api.get("/v1/memories", who),
        "timeline": api.get(f"/v1/users/{user}/timeline"),
        "core": api.get(f"/v1/users/{user}/core"),
        "threads": api.get(f"/v1/agents/{a.agent.pk}/threads", who),
        "context": api.post(f"/v1/agents/{a.agent.pk}/context", {"input": "还记得我吗？"} | who),
        "users": api.get("/v1/users"),
        "documents": api.get("/v1/knowledge/documents"),
        "audit": api.get("/v1/audit"),
        "jobs": api.get("/v1/jobs"),
        "entities": api.get("/v1/entities"),
        "candidates": api.get("/v1/entity-candidates"),
        "erasures": api.get("/v1/erasures"),
    }


def _unchanged(api: Api, run_id: str, person_id: str) -> tuple[Any, list[Any]]:
    """What is told of somebody else: their run, and the lines of their export but its frame."""
    run = api.get(f"/v1/runs/{run_id}").json()
    lines = lines_of(api.get(f"/v1/users/{person_id}/export"))[1:-1]
    # It was exported before, and the tick asked for what their turn lacks.
    return run, [line for line in lines if line["type"] not in ("audit_entry", "job")]


@pytest.mark.req("B19", "E06")
def test_erased_person_is_nowhere_in_the_api_nor_the_database_i1_i10_case_158(
    committed_db: None, superuser_url: str
) -> None:
    """I1 and I10; case 158: who comes back is somebody new, of the next epoch."""
    a, b = make_place("A"), make_place("B")
    old, old_id = a.person.user_id, a.person.pk
    places = _fill(a)
    bystander = make_end_user(a.tenant, "bystander-9")
    their_run = make_run(make_thread(a.agent, bystander), input="The weather?", output="Mild.")
    link = urlsplit(places.pop("link")).path
    assert lines_of(Client().get(link))
    for name, path in places.items():
        assert a.api.get(path).status_code == 200, name
    assert MARK in a.api.get("/v1/memories", {"user_id": old}).content.decode()
    before = _unchanged(a.api, their_run.pk, bystander.pk), _unchanged(b.api, b.run.pk, b.person.pk)
    asked = a.api.delete(f"/v1/users/{quote(old, safe='')}?mode=all")
    assert asked.status_code == 202, asked.content
    control_tick()

    told = a.api.get(f"/v1/erasures/{asked.json()['id']}").json()
    assert (told["status"], told["verified"], told["findings"]) == ("done", True, [])
    _check_receipt(a, told)
    assert Client().get(link).status_code == 404
    for name, path in places.items():
        assert a.api.get(path).status_code == 404, name
    words = (MARK, old, f"{a.canary} 期末试卷什么时候交？", f"{a.canary} Friday.")
    assert grep(superuser_url, *words) == {}
    for name, answer in _seen(a, old).items():
        assert answer.status_code == 200, (name, answer.content)
        text = answer.content.decode()
        assert not any(word in text for word in words), name
    assert [line["type"] for line in lines_of(a.api.get(f"/v1/users/{old_id}/export"))] == [
        "export",
        "end",
    ]
    after = _unchanged(a.api, their_run.pk, bystander.pk), _unchanged(b.api, b.run.pk, b.person.pk)
    assert after == before
    _comes_back(a, old, old_id)
    assert connection.in_atomic_block is False


def _check_receipt(a: Place, told: dict[str, Any]) -> None:
    """I10: who, when, on what basis, counts a store, what the search found, and the hash."""
    receipt = told["receipt"]
    assert told["receipt_sha256"] == sha256_of(receipt)
    assert receipt["requested_by"] == told["requested_by"] == a.key.id
    assert receipt["basis"] == "request"
    assert receipt["requested_at"] <= receipt["erased_at"] <= receipt["verified_at"]
    for store in ("runs", "messages", "items", "core_facts"):
        assert receipt["counts"][store] > 0, store
    assert receipt["verified"] == "true"
    assert receipt["search"]["needles"]
    assert receipt["ledger"]["sha256"]
    assert a.canary not in str(receipt)


def _comes_back(a: Place, old: str, old_id: str) -> None:
    """The old name is a new person, of the next epoch, who sees nothing of the former one."""
    body = {"user_id": old}
    made = a.api.post(f"/v1/agents/{a.agent.pk}/threads", body)
    assert made.status_code == 201, made.content
    scope = scope_of(a.tenant)
    with scoped_transaction(scope):
        new = EndUser.objects.in_scope(scope).get(user_id=old)
    assert new.pk != old_id
    assert new.epoch == 2
    for name, answer in _seen(a, old).items():
        assert MARK not in answer.content.decode(), name
        assert a.canary + " " not in answer.content.decode(), name
