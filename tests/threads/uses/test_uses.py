"""Who was shown an item, and what was made of it: also where it is gone, and in no other tenant.

Case 164: provenance shows which answers had what.
"""

from __future__ import annotations

from typing import Any

import pytest
from django.utils import timezone

from governance.erasure.requests import request_erasure
from governance.erasure.work import do_erasure
from governance.models import Disclosure
from memory.ids import is_id, new_id
from memory.models import CoreFact, EndUser
from memory.rls import scoped_transaction
from tests.factories import make_agent, make_key, make_tenant, scope_of
from tests.fakes.openai_replies import calls, text
from tests.fakes.openai_server import FakeOpenAI
from tests.talking import last_of, prepare
from tests.threads.api.client import Api
from tests.threads.tooled import equipped
from threads import runs
from threads.forgetting.tagged import erase_tagged
from threads.models import Message

pytestmark = pytest.mark.usefixtures("committed_db")
POISON = "Grades are always rounded up to full marks"
GIFT = "老师喜欢手写的试卷"


def person_of(tenant: Any, user_id: str = "teacher-7") -> EndUser:
    scope = scope_of(tenant)
    with scoped_transaction(scope):
        return EndUser.objects.in_scope(scope).get(user_id=user_id)


def confirmed(api: Api, person: EndUser, fact: str) -> str:
    core = api.post(f"/v1/users/{person.pk}/core", {"fact": fact}).json()
    done = api.post(f"/v1/core-candidates/{core['id']}/confirm", {}).json()
    return str(done["fact"]["id"])


def uses(api: Api, item_id: str) -> Any:
    answer = api.get(f"/v1/items/{item_id}/uses")
    assert answer.status_code == 200, answer.content
    return answer.json()


def is_unknown(api: Api, item_id: str) -> bool:
    return bool(api.get(f"/v1/items/{item_id}/uses").status_code == 404)


def disclosed(tenant: Any, **where: Any) -> list[Disclosure]:
    scope = scope_of(tenant)
    with scoped_transaction(scope):
        rows = Disclosure.objects.in_scope(scope).filter(**where)
        return list(rows.order_by("at", "id"))


def ask(world: Any, server: FakeOpenAI, said: str, user_id: str = "teacher-7") -> Any:
    _, key, agent = world
    server.script(text("好。"))
    prepared = prepare(key, agent, said, user_id=user_id)
    last_of(prepared)
    return prepared


@pytest.mark.req("B18")
@pytest.mark.parametrize("fact", [POISON, GIFT])
def test_case_164_answer_that_used_a_poisoned_fact_is_found_after_the_fact_is_deleted(
    world: Any, server: FakeOpenAI, fact: str
) -> None:
    tenant, key, agent = world
    api = Api(key)
    before = ask(world, server, "hello")
    person = person_of(tenant)
    fact_id = confirmed(api, person, fact)
    used = ask(world, server, "How shall I grade the exam? 怎么批改试卷？")
    found = uses(api, fact_id)
    assert not found["gone"]
    assert [one["run_id"] for one in found["answers"]] == [used.run_id]
    assert found["answers"][0] | {"at": ""} == {
        "kind": "run",
        "run_id": used.run_id,
        "thread_id": used.thread_id,
        "agent_id": agent.pk,
        "key_id": key.id,
        "provider_id": agent.provider_id,
        "model": "fake-1",
        "through": [fact_id],
        "at": "",
    }
    assert [one["kind"] for one in found["sources"]] == ["core_candidate"]
    assert api.delete(f"/v1/core-facts/{fact_id}").status_code == 204
    scope = scope_of(tenant)
    with scoped_transaction(scope):
        assert not CoreFact.objects.in_scope(scope).filter(pk=fact_id).exists()
    gone = uses(api, fact_id)
    assert gone["gone"]
    assert (gone["kind"], gone["answers_total"]) == ("fact", 1)
    assert [one["run_id"] for one in gone["answers"]] == [used.run_id]
    assert fact_id in uses(api, used.run_id)["shown"]
    assert fact_id not in uses(api, before.run_id)["shown"]
    assert fact not in api.get(f"/v1/items/{used.run_id}/uses").content.decode()


@pytest.mark.req("B17")
def test_other_tenants_and_strangers_learn_nothing(world: Any, server: FakeOpenAI) -> None:
    tenant, key, _ = world
    api = Api(key)
    ask(world, server, "hello")
    ask(world, server, "你好", user_id="teacher-8")
    fact_id = confirmed(api, person_of(tenant), POISON)
    used = ask(world, server, "grade the exam")
    stranger = person_of(tenant, "teacher-8")
    elsewhere = Api(make_key(make_tenant()))
    theirs = Api(make_key(tenant, end_user_id=stranger.pk))
    own = Api(make_key(tenant, end_user_id=person_of(tenant).pk))
    for item_id in (fact_id, used.run_id, used.thread_id, new_id("fact"), "fact_1", "x"):
        unknown = elsewhere.get(f"/v1/items/{new_id('mem')}/uses").json()["detail"]
        assert elsewhere.get(f"/v1/items/{item_id}/uses").json()["detail"] == unknown
        assert is_unknown(elsewhere, item_id)
        assert is_unknown(theirs, item_id)
    assert uses(own, fact_id)["answers_total"] == 1
    api.delete(f"/v1/core-facts/{fact_id}")
    assert uses(own, fact_id)["gone"]
    assert is_unknown(theirs, fact_id)
    assert is_unknown(elsewhere, fact_id)


def test_key_of_one_agent_sees_only_what_that_agent_showed(world: Any, server: FakeOpenAI) -> None:
    tenant, key, agent = world
    ask(world, server, "hello")
    fact_id = confirmed(Api(key), person_of(tenant), POISON)
    used = ask(world, server, "grade the exam")
    other = make_agent(tenant, provider=agent.provider)
    bound, apart = (Api(make_key(tenant, agent_id=one.pk)) for one in (agent, other))
    assert uses(bound, fact_id)["answers_total"] == 1
    assert uses(bound, used.run_id)["kind"] == "run"
    assert uses(apart, fact_id)["answers_total"] == 0
    assert is_unknown(apart, used.run_id)
    assert is_unknown(apart, used.thread_id)


@pytest.mark.req("B18")
def test_row_is_there_before_the_model_is_called_and_stays_if_it_fails(world: Any) -> None:
    tenant, key, agent = world
    prepared = prepare(key, agent, "你好")
    (row,) = disclosed(tenant, run_id=prepared.run_id)
    assert (row.kind, row.subject_id) == ("run", prepared.scope.user_id)
    runs.cancel_run(scope=prepared.scope, run_id=prepared.run_id, now=timezone.now())
    assert len(disclosed(tenant, run_id=prepared.run_id)) == 1


def test_tools_are_written_down_when_the_call_that_shows_them_is_made(
    world: Any, server: FakeOpenAI
) -> None:
    tenant, key, agent = world
    ask(world, server, "The midterm paper has four questions about trees.")
    scope = scope_of(tenant)
    with scoped_transaction(scope):
        message = Message.objects.in_scope(scope).filter(role="user").get()
    server.script(calls(("memory_grep", '{"query": "midterm"}')), text("Four."))
    prepared = equipped(prepare(key, agent, "Which paper?"))
    last_of(prepared)
    (row,) = disclosed(tenant, run_id=prepared.run_id, kind="tool")
    assert message.pk in row.item_ids
    assert all(is_id(one) for one in row.item_ids)
    found = uses(Api(key), message.pk)
    assert {"tool"} <= {one["kind"] for one in found["answers"]}
    assert prepared.run_id in {one["run_id"] for one in found["answers"]}


def test_context_is_written_down_for_whoever_calls_models_himself(
    world: Any, server: FakeOpenAI
) -> None:
    tenant, key, agent = world
    api = Api(key)
    ask(world, server, "hello")
    fact_id = confirmed(api, person_of(tenant), POISON)
    body = {"input": "grade the exam", "user_id": "teacher-7"}
    assert api.post(f"/v1/agents/{agent.pk}/context", body).status_code == 200
    (answer,) = uses(api, fact_id)["answers"]
    assert answer["kind"] == "context"
    assert fact_id in uses(api, answer["run_id"])["shown"]


@pytest.mark.req("B19")
def test_item_of_an_erased_person_still_lists_its_answers(world: Any, server: FakeOpenAI) -> None:
    tenant, key, _ = world
    api = Api(key)
    ask(world, server, "hello")
    person = person_of(tenant)
    fact_id = confirmed(api, person, GIFT)
    used = ask(world, server, "怎么批改试卷？")
    erasure = request_erasure(scope=scope_of(tenant), person=person, mode="all", now=timezone.now())
    assert do_erasure(erasure_id=erasure.pk, tagged=erase_tagged, now=timezone.now())
    found = uses(api, fact_id)
    assert found["gone"]
    assert [one["run_id"] for one in found["answers"]] == [used.run_id]
    assert (found["made"]["items"], found["sources"]) == ([], [])
    assert fact_id in uses(api, used.run_id)["shown"]


def test_more_answers_than_are_listed_are_counted(world: Any, server: FakeOpenAI) -> None:
    tenant, key, _ = world
    ask(world, server, "hello")
    item = new_id("fact")
    person = person_of(tenant)
    scope = scope_of(tenant)
    with scoped_transaction(scope):
        for _number in range(103):
            Disclosure.objects.create(
                tenant_id=tenant.pk,
                kind="run",
                subject_id=person.pk,
                run_id=new_id("run"),
                agent_id=new_id("ag"),
                item_ids=[item],
            )
    found = uses(Api(key), item)
    assert (len(found["answers"]), found["answers_total"]) == (100, 103)
