"""The files that runs wrote, over the API."""

from __future__ import annotations

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext

from tests.factories import (
    make_agent,
    make_artifact,
    make_end_user,
    make_key,
    make_run,
    make_thread,
)
from tests.threads.api.client import Api, Place, agent_body, code_of


def test_artifact_is_read_with_its_text(a: Place) -> None:
    made = make_artifact(a.run, name="试卷.md", content="# 数据结构\n{0.__class__} %s")
    answer = a.api.get(f"/v1/runs/{a.run.pk}/artifacts/{made.pk}")
    assert answer.json() == {
        "id": made.pk,
        "run_id": a.run.pk,
        "name": "试卷.md",
        "bytes": len("# 数据结构\n{0.__class__} %s".encode()),
        "content": "# 数据结构\n{0.__class__} %s",
        "created_at": "2026-11-02T09:00:00.000000Z",
    }


def test_artifact_under_another_run_of_the_same_thread_is_not_found(a: Place) -> None:
    made = make_artifact(make_run(a.thread))
    assert code_of(a.api.get(f"/v1/runs/{a.run.pk}/artifacts/{made.pk}")) == (404, "not_found")


@pytest.mark.req("B18")
def test_artifact_of_another_tenant_person_or_agent_is_not_found(a: Place, b: Place) -> None:
    path = f"/v1/runs/{a.run.pk}/artifacts/{make_artifact(a.run).pk}"
    stranger = make_key(a.tenant, end_user_id=make_end_user(a.tenant).pk)
    other_agent = make_key(a.tenant, agent_id=make_agent(a.tenant).pk)
    assert a.api.get(path).status_code == 200
    for api in (b.api, Api(stranger), Api(other_agent)):
        assert code_of(api.get(path)) == (404, "not_found")


def test_run_lists_its_files_in_the_order_of_writing(a: Place) -> None:
    first, second = make_artifact(a.run, name="b.md"), make_artifact(a.run, name="a.md")
    listed = [{"id": m.pk, "name": m.name, "bytes": m.bytes} for m in (first, second)]
    assert a.api.get(f"/v1/runs/{a.run.pk}").json()["artifacts"] == listed
    page = a.api.get(f"/v1/threads/{a.thread.pk}/runs").json()["results"]
    assert [run["artifacts"] for run in page] == [listed]


def test_list_of_runs_costs_the_same_with_many_runs_and_files(a: Place) -> None:
    thread = make_thread(a.agent, a.person)
    path = f"/v1/threads/{thread.pk}/runs"
    make_run(thread)
    with CaptureQueriesContext(connection) as few:
        assert len(a.api.get(path).json()["results"]) == 1
    for _ in range(5):
        make_artifact(make_run(thread))
    with CaptureQueriesContext(connection) as many:
        page = a.api.get(path).json()["results"]
    assert [len(run["artifacts"]) for run in page] == [0, 1, 1, 1, 1, 1]
    assert len(many) == len(few)
    assert not any('"threads_artifact"."content"' in query["sql"] for query in many)


@pytest.mark.req("C09")
def test_agent_takes_the_tools_there_are_and_either_strategy(a: Place) -> None:
    tools = [
        "memory_grep", "memory_search", "view_message", "view_chat_history_summary",
        "write_artifact", "memory_upsert",
    ]  # fmt: skip
    body = agent_body(a, tools=tools, thread_strategy="lossless")
    agent = a.api.post("/v1/agents", body).json()
    assert (agent["tools"], agent["thread_strategy"]) == (tools, "lossless")
