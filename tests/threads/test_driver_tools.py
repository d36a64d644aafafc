"""Runs that use tools, against a scripted server over real HTTP: every call has one result."""

from __future__ import annotations

import json
from typing import Any

import pytest
from django.db import InterfaceError, OperationalError, connection
from django.test.utils import CaptureQueriesContext

from memory.ids import new_id
from memory.providers.base import ToolCall
from memory.rls import scoped_transaction
from tests.factories import NOW, make_agent, make_key, make_provider, make_tenant
from tests.fakes.openai_replies import Answer, calls, text, tool_call
from tests.fakes.openai_server import FakeOpenAI
from tests.talking import events_of, last_of, learned, prepare, roll, stored_run, tell
from tests.threads.test_runs import answered
from tests.threads.tooled import (
    WRITE,
    equipped,
    messages_stored,
    outcome_of,
    scripted,
    trace_of,
    with_policy,
)
from threads import finish
from threads.events import Completed, Delta, Failed, LastEvent, ToolCalled, ToolReturned
from threads.models import Artifact, Thread
from threads.tool_rounds import ToolRound, clean_arguments
from threads.tools.records import NewArtifact

SECRET = "ghp_16C7e42F292c6912E7710c838347Ae178B4a"


def wire_of(server: FakeOpenAI, number: int) -> list[dict[str, Any]]:
    messages: list[dict[str, Any]] = server.requests[number].body["messages"]
    return messages


@pytest.mark.req("C09")
def test_tools_are_called_and_their_results_go_back_in_order(
    world: Any, server: FakeOpenAI
) -> None:
    _, key, agent = world
    server.script(
        calls(("write_artifact", WRITE), ("memory_grep", '{"query": "试卷"}'), said="我先看看。"),
        calls(("no_such_tool", "{}"), ("memory_grep", "not json")),
        text("试卷已经写好。"),
    )
    prepared = equipped(prepare(key, agent, "出一份试卷"))
    events = events_of(prepared)
    assert isinstance(events[-1], Completed)
    names = {tool["function"]["name"] for tool in server.requests[0].body["tools"]}
    assert {"write_artifact", "memory_grep", "view_message"} <= names
    last = wire_of(server, 2)
    roles = [message["role"] for message in last]
    assert roles == ["user", *(["assistant", "tool", "tool"] * 2)]
    assert last[0]["content"].endswith("出一份试卷")
    for asked in (1, 4):
        ids = [call["id"] for call in last[asked]["tool_calls"]]
        assert [message["tool_call_id"] for message in last[asked + 1 : asked + 3]] == ids
    assert len({call["id"] for at in (1, 4) for call in last[at]["tool_calls"]}) == 4
    assert "Error" in last[5]["content"]
    assert "Error" in last[6]["content"]
    told = [one for one in events if isinstance(one, ToolCalled | ToolReturned)]
    assert [isinstance(one, ToolCalled) for one in told] == [True, False] * 4
    assert [one.id for one in told[::2]] == [one.id for one in told[1::2]]
    said = "".join(one.text for one in events if isinstance(one, Delta))
    assert said == "我先看看。试卷已经写好。"
    assert stored_run(prepared).output == "试卷已经写好。"


@pytest.mark.req("B13")
@pytest.mark.req("B12")
def test_succeeded_run_stores_rounds_files_steps_and_its_last_prompt(
    world: Any, server: FakeOpenAI
) -> None:
    _, key, agent = world
    server.script(calls(("write_artifact", WRITE), said="稍等。"), text("好了。", usage=(30, 5)))
    prepared = equipped(prepare(key, agent, "出一份试卷"))
    last = last_of(prepared)
    assert isinstance(last, Completed)
    run = stored_run(prepared)
    stored = messages_stored(prepared)
    assert [row.role for row in stored] == ["user", "assistant", "tool", "assistant"]
    assert [row.position for row in stored] == [0, 1, 2, 3]
    asked, result = stored[1], stored[2]
    assert asked.content == "稍等。"
    assert [(call["name"], call["arguments"]) for call in asked.tool_calls] == [
        ("write_artifact", WRITE)
    ]
    assert result.tool_call_id == asked.tool_calls[0]["id"]
    assert run.message_count == 4
    assert run.tool_steps[0]["reference_id"] == result.pk
    assert set(run.tool_steps[0]) == {"name", "arguments", "result", "reference_id"}
    assert run.turn_tokens > sum(stored[at].token_count for at in (0, 3)) + 20
    assert (run.input_tokens, run.output_tokens) == (11 + 30, 7 + 5)
    assert [file.name for file in run.shown_artifacts] == ["paper.md"]
    assert [file.id for file in last.run.shown_artifacts] == [run.shown_artifacts[0].id]
    trace = trace_of(prepared)
    assert [message["content"] for message in trace.messages] == [
        message["content"] for message in wire_of(server, 1)
    ]
    kinds = [step["kind"] for step in trace.steps]
    assert kinds[-5:] == ["model", "tool", "precheck", "model", "writeback"]
    models = [step["data"] for step in trace.steps if step["kind"] == "model"]
    assert [step["input_tokens"] for step in models] == [11, 30]
    assert trace.steps[-1]["data"] == {
        "messages": 3, "artifacts": 1, "items": [], "jobs": ["index_recall", "extract_core"],
        "status": "succeeded",
    }  # fmt: skip
    assert [step["seq"] for step in trace.steps] == list(range(1, len(kinds) + 1))
    assert "第一题" not in json.dumps(trace.steps, ensure_ascii=False)


@pytest.mark.req("B12")
def test_reference_of_a_result_opens_the_original_in_the_next_run(
    world: Any, server: FakeOpenAI
) -> None:
    _, key, agent = world
    server.script(calls(("memory_grep", '{"query": "zebra"}')), text("none"))
    first = equipped(prepare(key, agent, "any zebra?"))
    assert isinstance(last_of(first), Completed)
    reference = stored_run(first).tool_steps[0]["reference_id"]
    server.script(calls(("view_message", json.dumps({"message_id": reference}))), text("seen"))
    second = equipped(prepare(key, agent, "open it", first.thread_id))
    assert isinstance(last_of(second), Completed)
    assert messages_stored(first)[2].content.strip() in wire_of(server, 3)[-1]["content"]


@pytest.mark.parametrize("rounds", [0, 1, 2])
def test_call_after_the_last_round_is_made_without_tools(
    world: Any, server: FakeOpenAI, rounds: int
) -> None:
    _, key, agent = world

    def answer(body: Any) -> Answer:
        return calls(("memory_grep", '{"query": "x"}')) if "tools" in body else text("done")

    server.answer_with(answer)
    prepared = with_policy(equipped(prepare(key, agent, "go")), tool_rounds=rounds)
    assert isinstance(last_of(prepared), Completed)
    offered = ["tools" in request.body for request in server.requests]
    assert offered == [True] * rounds + [False]
    assert len(messages_stored(prepared)) == 2 + 2 * rounds


@pytest.mark.parametrize("rounds", [0, 1])
@pytest.mark.parametrize("reason", ["tool_calls", "stop"])
def test_text_beside_calls_after_the_last_round_is_the_answer(
    world: Any, server: FakeOpenAI, rounds: int, reason: str
) -> None:
    _, key, agent = world
    server.script(
        *[calls(("look", "{}"))] * rounds, calls(("look", "{}"), said="库存 3 件。", finish=reason)
    )
    prepared, box = scripted(prepare(key, agent, "hi"), lambda call: "found")
    prepared = with_policy(prepared, tool_rounds=rounds)
    events = events_of(prepared)
    assert isinstance(events[-1], Completed)
    assert stored_run(prepared).output == "库存 3 件。"
    assert len(box.calls) == rounds
    assert sum(isinstance(one, ToolCalled) for one in events) == rounds
    assert messages_stored(prepared)[-1].tool_calls == []
    models = [step["data"] for step in trace_of(prepared).steps if step["kind"] == "model"]
    assert (models[-1]["finish_reason"], models[-1]["tool_calls"]) == (reason, 1)


@pytest.mark.parametrize("said", ["", " \n"])
def test_calls_alone_after_the_last_round_fail_and_say_why(
    world: Any, server: FakeOpenAI, said: str
) -> None:
    tenant, key, agent = world
    server.script(calls(("look", "{}")), calls(("look", "{}"), said=said))
    prepared, box = scripted(prepare(key, agent, "hi"), lambda call: "found")
    last = last_of(with_policy(prepared, tool_rounds=1))
    assert isinstance(last, Failed)
    assert last.code == "provider_error"
    assert "kept calling tools" in last.detail
    assert "tool_rounds" in last.detail
    assert stored_run(prepared).error_detail == last.detail
    assert len(box.calls) == 1
    assert learned(tenant)["answers"] == 0


@pytest.mark.parametrize("has_text", [True, False])
def test_tool_called_that_was_not_offered_fails_the_run(
    world: Any, server: FakeOpenAI, has_text: bool
) -> None:
    tenant, key, agent = world
    server.script(calls(("memory_grep", "{}"), said="text too" if has_text else ""))
    prepared = prepare(key, agent, "hi")
    last = last_of(prepared)
    assert isinstance(last, Failed)
    assert last.code == "provider_error"
    assert stored_run(prepared).status == "failed"
    assert learned(tenant)["answers"] == 0


@pytest.mark.req("B10")
@pytest.mark.parametrize("stream", [True, False])
def test_calls_without_ids_or_with_the_same_id_get_distinct_ones(
    world: Any, server: FakeOpenAI, stream: bool
) -> None:
    _, key, agent = world
    deltas = [
        tool_call("look", "{}", call_id=None, index=0),
        tool_call("look", "{}", call_id="same", index=1),
    ]
    server.script(
        Answer(deltas=[], tool_calls=deltas, finish="tool_calls", as_json=not stream),
        Answer(deltas=[], tool_calls=[tool_call("look", "{}", call_id="same")]),
        text("ok"),
    )
    prepared, box = scripted(prepare(key, agent, "hi"), lambda call: "seen")
    assert isinstance(last_of(prepared), Completed)
    assert len({call.id for call in box.calls}) == 3
    wire = wire_of(server, 2)
    called = [call["id"] for message in wire for call in message.get("tool_calls", ())]
    returned = [message["tool_call_id"] for message in wire if message["role"] == "tool"]
    assert called == returned
    assert len(set(called)) == 3


@pytest.mark.req("B17")
def test_secret_in_a_call_is_in_no_column_and_no_event(world: Any, server: FakeOpenAI) -> None:
    _, key, agent = world
    escaped = "".join(f"\\u{ord(sign):04x}" for sign in SECRET)
    server.script(
        calls(
            ("write_artifact", f'{{"name": "a.txt", "content": "{SECRET}"}}'),
            ("write_artifact", f'{{"name": "b.txt", "content": "{escaped}"}}'),
            (SECRET, "{}"),
            said=f"I use {SECRET}",
        ),
        text("ok"),
    )
    prepared = equipped(prepare(key, agent, "hi"))
    events = [one for one in events_of(prepared) if not isinstance(one, Delta | LastEvent)]
    assert SECRET not in repr(events)
    held = [
        *(row.content + repr(row.tool_calls) + str(row.name) for row in messages_stored(prepared))
    ]
    trace = trace_of(prepared)
    held += [
        json.dumps(trace.messages),
        json.dumps(trace.steps),
        repr(stored_run(prepared).tool_steps),
    ]
    with scoped_transaction(prepared.scope):
        held += Artifact.objects.in_scope(prepared.scope).values_list("content", flat=True)
    for text_held in held:
        assert SECRET not in text_held
        assert SECRET not in text_held.encode().decode("unicode_escape", "replace")
    assert "[secret:" in held[1]


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        (f'{{"a": "\\ud800 {SECRET}"}}', '{"a": "\\ud800 [secret:github_token]"}'),
        ('{"a": 1}', '{"a": 1}'),
        ("not json", "not json"),
        ("[" * 100_000, "[" * 100_000),
        ('{"a": "试卷"}', '{"a": "试卷"}'),
        ("", ""),
    ],
)
def test_arguments_lose_their_secrets_and_stay_as_written_otherwise(
    given: str, expected: str
) -> None:
    assert clean_arguments(given) == expected


def test_usage_that_no_call_reports_is_estimated_for_each(world: Any, server: FakeOpenAI) -> None:
    _, key, agent = world
    server.script(calls(("look", "{}"), usage=None), text("好的好的", usage=None))
    prepared, _ = scripted(prepare(key, agent, "hi"), lambda call: "很长的结果" * 50)
    assert isinstance(last_of(prepared), Completed)
    models = [step["data"] for step in trace_of(prepared).steps if step["kind"] == "model"]
    assert not any(step["is_usage_reported"] for step in models)
    assert models[1]["input_tokens"] > models[0]["input_tokens"] + 50
    run = stored_run(prepared)
    assert run.input_tokens == sum(step["input_tokens"] for step in models)
    assert all(step["output_tokens"] > 0 for step in models)


def test_offline_provider_ignores_tools(committed_db: None) -> None:
    tenant = make_tenant()
    key, agent = make_key(tenant), make_agent(tenant, provider=make_provider(tenant))
    prepared = equipped(prepare(key, agent, "出一份试卷"))
    assert isinstance(last_of(prepared), Completed)
    assert len(messages_stored(prepared)) == 2


@pytest.mark.req("B10")
def test_answered_turn_with_tools_is_shown_once_and_paired_in_the_next_prompt(
    world: Any, server: FakeOpenAI
) -> None:
    """B10: no tool message and no half call is among the messages of the next run."""
    _, key, agent = world
    server.script(calls(("look", '{"a": 1}'), ("look", '{"a": 2}')), text("done"), text("ok"))
    first, _ = scripted(prepare(key, agent, "look twice"), lambda call: f"found {call.arguments}")
    assert isinstance(last_of(first), Completed)
    second = prepare(key, agent, "and now", first.thread_id)
    assert isinstance(last_of(second), Completed)
    wire = wire_of(server, 2)
    assert {message["role"] for message in wire} <= {"system", "user", "assistant"}
    assert not any("tool_calls" in message for message in wire)
    shown = "\n".join(message["content"] for message in wire)
    for step in stored_run(first).tool_steps:
        assert shown.count(step["reference_id"]) <= 1


@pytest.mark.req("B10")
def test_tools_of_a_summarised_turn_are_told_once_and_paired_b10(
    world: Any, server: FakeOpenAI
) -> None:
    """B10: the summary is made, and the next run asks, without a tool message or half a call."""
    _, key, agent = world
    server.script(calls(("look", '{"a": 1}'), ("look", '{"a": 2}')), text("done"))
    first, _ = scripted(prepare(key, agent, "look twice"), lambda call: f"found {call.arguments}")
    assert isinstance(last_of(first), Completed)
    thread = Thread(
        pk=first.thread_id, tenant_id=first.scope.tenant_id, agent=agent,
        end_user_id=first.run.end_user_id,
    )  # fmt: skip
    tell(thread, [(f"question {number}", "answer") for number in range(12)])
    server.answer_with(lambda body: text("- The user looked twice and both were found."))
    roll(thread)
    after = prepare(key, agent, "and now", first.thread_id)
    assert isinstance(last_of(after), Completed)
    for request in server.requests[2:]:
        for message in request.body["messages"]:
            assert message["role"] in {"system", "user", "assistant"}
            assert "tool_calls" not in message
    told = "\n".join(message["content"] for message in wire_of(server, 2))
    for step in stored_run(first).tool_steps:
        assert told.count(step["reference_id"]) <= 1
    assert "looked twice" in wire_of(server, -1)[-1]["content"]


def test_database_lost_under_a_tool_is_tried_again(world: Any, server: FakeOpenAI) -> None:
    _, key, agent = world
    server.script(calls(("look", "{}")), text("ok"))
    failures = iter([OperationalError("gone"), InterfaceError("gone")])

    def shaky(call: Any) -> str:
        for error in failures:
            raise error
        return "found"

    prepared, box = scripted(prepare(key, agent, "hi"), shaky)
    assert isinstance(last_of(prepared), Completed)
    assert len(box.calls) == 3
    assert [row.content for row in messages_stored(prepared)][2] == "found"


def test_answer_with_tools_takes_one_more_statement_and_one_for_its_files(world: Any) -> None:
    _, key, agent = world

    def statements(prepared: Any, **values: Any) -> int:
        given = answered("答", **values)
        with CaptureQueriesContext(connection) as taken:
            assert finish.succeed(prepared=prepared, answered=given, now=NOW)
        return sum("INSERT" in query["sql"] or "UPDATE" in query["sql"] for query in taken)

    call = ToolCall(id="c", name="look", arguments="{}")

    def rounds() -> tuple[ToolRound, ...]:
        return (ToolRound(text="", outcomes=(outcome_of(call, "found", now=NOW),)),)

    file = NewArtifact(id=new_id("art"), name="a.md", content="x", bytes=1)
    # With its job, and its bell, which those that follow share.
    assert statements(prepare(key, agent, "one")) == 3
    assert statements(prepare(key, agent, "two"), rounds=rounds()) == 3
    assert statements(prepare(key, agent, "three"), rounds=rounds(), artifacts=(file,)) == 4
