"""POST /v1/agents/{agent_id}/context: a prompt, its account, and nothing else left behind."""

from __future__ import annotations

from typing import Any

import pytest

from memory.models import EndUser
from memory.rls import scoped_transaction
from tests.factories import make_key, scope_of
from tests.talking import new_thread, tell
from tests.threads.api.client import Api, Place
from threads.models import ContextTrace, Run, Thread

ASK = {"input": "第三题改成什么了？", "user_id": "nobody-yet"}


def path_of(place: Place) -> str:
    return f"/v1/agents/{place.agent.pk}/context"


def traces(place: Place) -> list[ContextTrace]:
    scope = scope_of(place.tenant)
    with scoped_transaction(scope):
        return list(ContextTrace.objects.in_scope(scope).order_by("id"))


def counts(place: Place) -> tuple[int, int, int]:
    scope = scope_of(place.tenant)
    with scoped_transaction(scope):
        return (
            EndUser.objects.in_scope(scope).count(),
            Thread.objects.in_scope(scope).count(),
            Run.objects.in_scope(scope).count(),
        )


@pytest.mark.req("D01")
@pytest.mark.req("D05")
@pytest.mark.req("D07")
def test_context_shows_facts_apart_from_material_each_with_its_account(a: Place) -> None:
    before = counts(a)
    answer = a.api.post(
        path_of(a),
        ASK
        | {
            "facts": [{"label": "库存", "value": "12", "as_of": "2020-06-12T08:00:00Z"}],
            "materials": [{"title": "考试大纲", "content": "树与图", "source": "wiki"}],
        },
    )
    assert answer.status_code == 200
    shown = answer.json()
    assert list(shown) == ["messages", "bootstrap", "context", "items"]
    assert shown["bootstrap"] is True
    content = shown["messages"][-1]["content"]
    assert content.endswith("[Current Request]\n" + ASK["input"])
    assert content.index("[已知事实") < content.index("库存") < content.index("[参考资料")
    items = {item["id"]: item for item in shown["items"]}
    assert (items["fact-1"]["tier"], items["fact-1"]["stale"]) == ("fact", True)
    assert items["fact-1"]["as_of"] == "2020-06-12T08:00:00.000000Z"
    assert (items["material-1"]["tier"], items["material-1"]["section"]) == (
        "material",
        "reference",
    )
    assert shown["context"]["decision"] == "pass"
    assert counts(a) == before


@pytest.mark.req("B05")
def test_context_leaves_its_trace_alone(a: Place) -> None:
    assert a.api.post(path_of(a), ASK).status_code == 200
    (trace,) = traces(a)
    assert [step["kind"] for step in trace.steps] == ["scope", "precheck", "retrieval", "assemble"]
    precheck = trace.steps[1]["data"]
    assert set(precheck) == {"current_tokens", "target_budget", "decision", "candidate_count"}
    assert trace.end_user_id is None
    # Of somebody whom nobody knows no text is kept: an erasure could never find it.
    assert (trace.messages, trace.items) == ([], [])


def test_context_of_somebody_known_keeps_its_text(a: Place) -> None:
    asked = ASK | {"user_id": a.person.user_id}
    assert a.api.post(path_of(a), asked).status_code == 200
    (trace,) = traces(a)
    assert trace.end_user_id == a.person.pk
    assert trace.messages[-1]["content"].endswith(ASK["input"])


def test_context_of_a_thread_shows_its_past_also_when_archived(a: Place) -> None:
    thread = new_thread(a.agent)
    tell(thread, [("把第三题换成红黑树", "已换成红黑树")])
    scope = scope_of(a.tenant)
    with scoped_transaction(scope):
        person = EndUser.objects.in_scope(scope).get(pk=thread.end_user_id)
        Thread.objects.in_scope(scope).update(status="archived")
    answer = a.api.post(path_of(a), ASK | {"user_id": person.user_id, "thread_id": thread.pk})
    assert answer.status_code == 200
    assert "已换成红黑树" in answer.json()["messages"][-1]["content"]
    assert answer.json()["bootstrap"] is False
    (trace,) = traces(a)
    assert (trace.thread_id, trace.end_user_id) == (thread.pk, thread.end_user_id)


@pytest.mark.req("B04")
def test_context_over_budget_is_refused_with_its_ledger_and_no_run(a: Place) -> None:
    answer = a.api.post(path_of(a), ASK | {"input": "数据结构" * 5000})
    assert answer.status_code == 422
    problem = answer.json()
    assert problem["code"] == "context_over_budget"
    assert problem["context"]["decision"] == "reject"
    assert "run_id" not in problem
    assert len(traces(a)) == 1


@pytest.mark.parametrize("thread", ["th_00000000000000000000000000", "nonsense"])
def test_context_of_an_unknown_thread_is_a_mismatch(a: Place, thread: str) -> None:
    answer = a.api.post(path_of(a), ASK | {"thread_id": thread})
    assert (answer.status_code, answer.json()["code"]) == (400, "thread_mismatch")


def test_context_of_another_tenants_agent_or_thread_does_not_exist(a: Place, b: Place) -> None:
    theirs = new_thread(a.agent)
    tell(theirs, [("CNRY", "CNRY")])
    assert b.api.post(path_of(a), ASK).status_code == 404
    answer = b.api.post(path_of(b), ASK | {"thread_id": theirs.pk})
    assert (answer.status_code, answer.json()["code"]) == (400, "thread_mismatch")
    assert "CNRY" not in answer.content.decode()


def test_key_of_one_person_gets_no_context_for_another(a: Place) -> None:
    thread = new_thread(a.agent)
    key = make_key(a.tenant, end_user_id=thread.end_user_id)
    for user_id in ("nobody-yet", "teacher-7"):
        answer = Api(key).post(path_of(a), ASK | {"user_id": user_id})
        assert (answer.status_code, answer.json()["code"]) == (403, "forbidden")


@pytest.mark.parametrize("extra", [{"metadata": {}}, {"context": {"run_id": "run_1"}}, {"x": 1}])
def test_context_refuses_fields_it_does_not_have(a: Place, extra: dict[str, Any]) -> None:
    answer = a.api.post(path_of(a), ASK | extra)
    assert (answer.status_code, answer.json()["code"]) == (400, "unknown_field")


def test_context_ignores_an_idempotency_key(a: Place) -> None:
    headers = {"Idempotency-Key": "same"}
    first = a.api.post(path_of(a), ASK, headers=headers)
    other = a.api.post(path_of(a), ASK | {"input": "另一个问题"}, headers=headers)
    assert (first.status_code, other.status_code) == (200, 200)
    assert other.json()["messages"][-1]["content"].endswith("另一个问题")
