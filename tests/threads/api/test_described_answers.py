"""The OpenAPI document says of runs, contexts, files and nodes what the answers really hold."""

from __future__ import annotations

from typing import Any

import pytest

from memory.rls import scoped_transaction
from tests.asgi_client import AsgiClient
from tests.factories import make_artifact, scope_of
from tests.fakes.openai_replies import calls, text
from tests.foresting import grow, pairs, set_strategy
from tests.talking import tell
from tests.threads.api.client import Api, Place
from tests.threads.api.stage import ASK, Stage

EVENTS = ("started", "context", "delta", "tool_call", "tool_result", "completed", "failed")


def document() -> Any:
    return Api(None).get("/v1/openapi.json").json()


def schema_of(doc: Any, path: str, method: str = "get", status: str = "200") -> Any:
    return doc["paths"][path][method]["responses"][status]["content"]["application/json"]["schema"]


def disagreements(doc: Any, schema: Any, value: Any, place: str = "") -> list[str]:
    """Where a value has other fields than its schema, down to the last list and object."""
    while "$ref" in schema or "allOf" in schema:
        name = schema.get("$ref") or schema["allOf"][0]["$ref"]
        schema = doc["components"]["schemas"][name.rpartition("/")[2]]
    if isinstance(value, list):
        inner = schema.get("items", {})
        return [wrong for one in value for wrong in disagreements(doc, inner, one, f"{place}[]")]
    if not isinstance(value, dict) or "properties" not in schema:
        return []
    told = schema["properties"]
    odd = [f"{place}.{name}" for name in told.keys() ^ value.keys()]
    return odd + [
        wrong
        for name in told.keys() & value.keys()
        for wrong in disagreements(doc, told[name], value[name], f"{place}.{name}")
    ]


@pytest.mark.req("E03")
def test_assembled_context_is_as_described(a: Place) -> None:
    doc, path = document(), "/v1/agents/{agent_id}/context"
    body = {
        "input": "第三题？",
        "user_id": a.person.user_id,
        "thread_id": a.thread.pk,
        "facts": [{"label": "库存", "value": "12", "as_of": "2020-06-12T08:00:00Z"}],
    }
    answer = a.api.post(path.replace("{agent_id}", a.agent.pk), body).json()
    assert {item["section"] for item in answer["items"]} == {"guidelines", "facts", "thread"}
    assert disagreements(doc, schema_of(doc, path, "post"), answer) == []


@pytest.mark.req("E03")
def test_file_and_run_are_as_described(a: Place) -> None:
    doc, made = document(), make_artifact(a.run)
    path = "/v1/runs/{run_id}/artifacts/{artifact_id}"
    answer = a.api.get(f"/v1/runs/{a.run.pk}/artifacts/{made.pk}").json()
    assert disagreements(doc, schema_of(doc, path), answer) == []
    run = a.api.get(f"/v1/runs/{a.run.pk}").json()
    assert [file["id"] for file in run["artifacts"]] == [made.pk]
    run.pop("context")  # empty of a turn made elsewhere
    wrong = disagreements(doc, schema_of(doc, "/v1/runs/{run_id}"), run)
    assert wrong == [".context"]


@pytest.mark.req("E03")
def test_nodes_of_a_summary_are_as_described(a: Place) -> None:
    with scoped_transaction(scope_of(a.tenant)):
        a.agent.policy = {"forest_base_turns": 2, "forest_base_tokens": 200}
        a.agent.policy["forest_consolidation_k"] = 2
        a.agent.save(update_fields=["policy"])
    set_strategy(a.thread, "lossless")
    tell(a.thread, pairs(20))
    grow(a.thread)
    doc, path = document(), "/v1/threads/{thread_id}/summary"
    answer = a.api.get(path.replace("{thread_id}", a.thread.pk)).json()
    node = doc["components"]["schemas"]["SummaryNodeAnswer"]
    assert {one["level"] for one in answer["nodes"]} >= {0, 1}
    for one in answer["nodes"]:
        is_leaf = one["level"] == 0
        assert ("message_ids" in one) is is_leaf
        wrong = disagreements(doc, node, one)
        assert wrong == ([] if is_leaf else [".message_ids"])
    assert "message_ids" not in node.get("required", ())


@pytest.mark.req("E03")
def test_run_with_tools_its_trace_and_its_context_are_as_described(stage: Stage) -> None:
    with scoped_transaction(scope_of(stage.tenant)):
        stage.agent.tools = ["write_artifact"]
        stage.agent.save(update_fields=["tools"])
    stage.server.script(
        calls(("write_artifact", '{"name": "a.md", "content": "一"}')), text("写好了。")
    )

    async def scene(client: AsgiClient) -> Any:
        async with client.stream(stage.stream_path, ASK) as stream:
            await stream.over()
        events = stream.events()
        run = events[-1].data
        paths = [f"/v1/runs/{run['id']}{tail}" for tail in ("", "/trace", "/context")]
        read = [(await client.get(path)).json() for path in paths]
        return [event.name for event in events], [run, *read]

    names, (streamed, run, trace, context) = stage.play(scene)
    doc = document()
    told = doc["paths"]["/v1/agents/{agent_id}/run/stream"]["post"]["description"]
    assert [name for name in {*names, *EVENTS} if f"`{name}`" not in told] == []
    assert streamed == run
    for tail, answer in (("", run), ("/trace", trace), ("/context", context)):
        schema = schema_of(doc, "/v1/runs/{run_id}" + tail)
        if tail == "/context":
            assert {"role", "content"} <= set(answer["messages"][0])
            answer["messages"] = []  # a message shows its calls only where it has some
        assert disagreements(doc, schema, answer) == [], tail
