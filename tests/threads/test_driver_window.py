"""The in-run window at the provider: judged on the raw requests by the real tokenizer."""

from __future__ import annotations

import json
from typing import Any

import pytest

from memory.rls import scoped_transaction
from memory.tokens import estimate
from tests.factories import make_end_user, scope_of
from tests.fakes.openai_replies import calls, text
from tests.fakes.openai_server import FakeOpenAI
from tests.talking import last_of, learned, new_thread, prepare, stored_run, tell
from tests.threads.tooled import messages_stored, scripted, trace_of
from threads.events import Completed, Failed


def real_tokens(body: Any) -> int:
    """What tiktoken counts of a request as it arrived: texts, calls as they were written, tools."""
    texts = [message["content"] for message in body["messages"]]
    for message in body["messages"]:
        for call in message.get("tool_calls", ()):
            texts += [call["id"], call["function"]["name"], call["function"]["arguments"]]
    texts += [json.dumps(tool, ensure_ascii=False) for tool in body.get("tools", ())]
    return sum(estimate(one, kind="tokenizer", model="gpt-4o") for one in texts)


@pytest.mark.req("A25")
@pytest.mark.req("B12")
def test_long_results_never_bring_a_call_over_the_target_187(
    world: Any, server: FakeOpenAI
) -> None:
    """187, for tools: judged on the raw requests at the provider by the real tokenizer."""
    _, key, agent = world
    server.script(*[calls(("look", "{}"), ("look", "{}"))] * 8, text("done"))
    pages = iter(range(1000))

    def long(call: Any) -> str:
        page = next(pages)
        return "".join(
            f"Page {page}, line {line}: 库存 {line * page} 件。\n" for line in range(400)
        )

    prepared, _ = scripted(prepare(key, agent, "要数清楚"), long)
    assert isinstance(last_of(prepared), Completed)
    target = prepared.context["target_budget"]
    assert len(server.requests) == 9
    for request in server.requests:
        assert real_tokens(request.body) <= target
    references = [step["reference_id"] for step in stored_run(prepared).tool_steps]
    last = server.requests[-1].raw.decode()
    assert all(reference in last for reference in references[:-2])
    stored = [row.content for row in messages_stored(prepared) if row.role == "tool"]
    assert all(len(content) > 5000 for content in stored)


@pytest.mark.req("A25")
@pytest.mark.req("B21")
def test_run_that_does_not_fit_any_more_is_rejected_and_reaches_no_model(
    world: Any, server: FakeOpenAI
) -> None:
    tenant, key, agent = world
    server.script(calls(*[("look", json.dumps({"q": "字" * 400}))] * 20))
    prepared, _ = scripted(prepare(key, agent, "hi"), lambda call: "found")
    last = last_of(prepared)
    assert isinstance(last, Failed)
    assert last.code == "context_over_budget"
    assert last.context is not None
    assert last.context["decision"] == "reject"
    assert last.context["current_tokens"] > last.context["target_budget"]
    assert len(server.requests) == 1
    run = stored_run(prepared)
    assert (run.status, run.error_code, run.context) == ("rejected", last.code, last.context)
    assert (run.tool_steps, run.message_count) == ([], 1)
    assert learned(tenant)["answers"] == 0
    kinds = [step["kind"] for step in trace_of(prepared).steps]
    assert kinds[-1] == "precheck"
    assert kinds.count("tool") == 20


@pytest.mark.req("A25")
def test_past_shrinks_when_the_tools_need_the_room(world: Any, server: FakeOpenAI) -> None:
    """With the prompt as it is assembled: the question, the last turns and every call stay."""
    tenant, key, agent = world
    agent.context_window, agent.max_output_tokens = 2600, 256
    with scoped_transaction(scope_of(tenant)):
        agent.save()
    thread = new_thread(agent, make_end_user(tenant, "teacher-7"))
    tell(thread, [(f"第{number}个问题" + "甲乙丙丁" * 30, "回答" * 40) for number in range(7)])
    asked = [("look", json.dumps({"q": f"{number}" + "字" * 40})) for number in range(6)]
    server.script(calls(*asked), text("done"))
    given = prepare(key, agent, "最后的问题", thread.pk)
    prepared, _ = scripted(given, lambda call: "found")
    last = last_of(prepared)
    steps = trace_of(prepared).steps
    assert isinstance(last, Completed)
    tried = {
        (step["data"]["level"], step["data"]["outcome"])
        for step in steps
        if step["kind"] == "compress"
    }
    assert ("summary", "kept") in tried
    for request in server.requests:
        assert real_tokens(request.body) <= prepared.context["target_budget"]
        users = [one["content"] for one in request.body["messages"] if one["role"] == "user"]
        assert users[-1].endswith("最后的问题")
    assert "第6个问题" in server.requests[-1].body["messages"][0]["content"]
