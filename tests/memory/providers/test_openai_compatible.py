"""The OpenAI-compatible client against a server that answers well, oddly, or wrongly."""

from __future__ import annotations

from typing import Any

import pytest

from memory.providers.base import (
    ChatMessage,
    ChatRequest,
    Finished,
    TextDelta,
    ToolCall,
    ToolSpec,
    Usage,
    complete,
)
from memory.providers.errors import (
    ProviderError,
)
from tests.fakes.openai_replies import (
    DONE,
    JSON_TYPE,
    SSE,
    Answer,
    Body,
    HangUp,
    Huge,
    Reply,
    Stream,
    chunk,
    event,
    text,
    tool_call,
)
from tests.fakes.openai_server import FakeOpenAI
from tests.memory.providers.conftest import KEY, Caller

HELLO = event(chunk({"content": "hello"}))
STOP = event(chunk({}, finish="stop"))
CALLED = event(chunk({"tool_calls": [tool_call("find", '{"q": "墨"}')]}))


def test_stream_yields_deltas_then_one_finished(caller: Caller, server: FakeOpenAI) -> None:
    server.script(Answer(deltas=["你", "好", ", 世界"], usage=(5, 3)))
    events = caller.events()
    assert events[:3] == [TextDelta(text="你"), TextDelta(text="好"), TextDelta(text=", 世界")]
    assert events[3:] == [
        Finished(reason="stop", model="fake-1", usage=Usage(input_tokens=5, output_tokens=3))
    ]


def test_request_is_written_as_the_api_wants_it(caller: Caller, server: FakeOpenAI) -> None:
    call = ToolCall(id="c1", name="find", arguments="{}")
    spec = ToolSpec(name="find", description="Find.", parameters={"type": "object"})
    messages = (
        ChatMessage(role="assistant", content="", tool_calls=(call,)),
        ChatMessage(role="tool", content="12 份", tool_call_id="c1", name="find"),
    )
    asked = ChatRequest(model="m-1", messages=messages, max_output_tokens=9, tools=(spec,))
    caller.use(lambda provider: complete(provider, request=asked))
    sent = server.requests[0]
    assert sent.path == "/v1/chat/completions"
    assert sent.headers["authorization"] == f"Bearer {KEY}"
    assert sent.body == {
        "model": "m-1",
        "max_tokens": 9,
        "stream": True,
        "stream_options": {"include_usage": True},
        "messages": [
            {
                "role": "assistant",
                "content": "",
                "tool_calls": [
                    {
                        "id": "c1",
                        "type": "function",
                        "function": {"name": "find", "arguments": "{}"},
                    }
                ],
            },
            {"role": "tool", "content": "12 份", "tool_call_id": "c1", "name": "find"},
        ],
        "tools": [
            {
                "type": "function",
                "function": {
                    "name": "find",
                    "description": "Find.",
                    "parameters": {"type": "object"},
                },
            }
        ],
    }


def test_environment_adds_nothing_to_a_request(
    caller: Caller, server: FakeOpenAI, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Case 182: proxies of the environment, and OPENAI_* variables, are not heeded."""
    for name in ("HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY", "http_proxy", "all_proxy"):
        monkeypatch.setenv(name, "http://127.0.0.1:9")
    monkeypatch.setenv("OPENAI_ORG_ID", "org-leak")
    monkeypatch.setenv("OPENAI_API_KEY", "sk-environment")
    monkeypatch.setenv("OPENAI_CUSTOM_HEADERS", "X-Leak: yes")
    caller.complete(api_key=None)
    assert set(server.requests[0].headers) == {
        "host", "content-type", "content-length", "accept", "accept-encoding", "user-agent"
    }  # fmt: skip


@pytest.mark.parametrize(
    "reply",
    [
        text("答案 answer", as_json=True, usage=(4, 2)),
        Stream(parts=[event(chunk({"content": "答案 answer"})), STOP, DONE]),
        Stream(parts=[event(chunk({"content": "答案 answer"})), DONE]),
        Stream(parts=[event(chunk({"content": "答案 answer"})), STOP]),
        Stream(parts=[event(chunk({"content": "答案 answer"})), STOP], breaks=True),
        Stream(parts=[event(chunk({"content": [{"type": "text", "text": "答案 answer"}]})), STOP]),
        Answer(deltas=["答案 answer"], usage=None),
        Answer(deltas=["答案 ", "answer"], finish="length"),
        Answer(deltas=["答案 answer"], extra=[{"reasoning_content": "hmm, 让我想想"}]),
        Stream(parts=[bytes([byte]) for byte in event(chunk({"content": "答案 answer"})) + STOP]),
        Stream(parts=[b": ping\r\n\r\n", event(chunk({"content": "答案 answer"})), b"\r\n", STOP]),
    ],
    ids=lambda reply: type(reply).__name__,
)
def test_variants_of_a_good_answer_are_understood(
    caller: Caller, server: FakeOpenAI, reply: Reply
) -> None:
    server.script(reply)
    assert caller.complete().text == "答案 answer"


def test_usage_is_none_when_the_server_does_not_count(caller: Caller, server: FakeOpenAI) -> None:
    server.script(Answer(usage=None), Answer(usage=(-1, 4)))
    assert caller.complete().usage is None
    assert caller.complete().usage is None


def test_finish_length_is_a_success(caller: Caller, server: FakeOpenAI) -> None:
    server.script(Answer(finish="length"))
    assert caller.complete().reason == "length"


def test_surrogate_halves_are_joined_and_lone_ones_replaced(
    caller: Caller, server: FakeOpenAI
) -> None:
    parts = [
        b'data: {"choices":[{"index":0,"delta":{"content":"a\\ud83d"}}]}\n\n',
        b'data: {"choices":[{"index":0,"delta":{"content":"\\ude00 b\\udc00\\u0000"}}]}\n\n',
        STOP,
    ]
    server.script(Stream(parts=parts))
    assert caller.complete().text == "a😀 b\ufffd\ufffd"


class TestToolCalls:
    def test_fragments_are_assembled_in_order(self, caller: Caller, server: FakeOpenAI) -> None:
        deltas = [
            tool_call("find", "", call_id="call_a"),
            {"index": 1, "id": "call_b", "function": {"name": "read", "arguments": '{"i'}},
            {"index": 0, "function": {"arguments": '{"q": "链'}},
            {"index": 0, "function": {"arguments": '表"}'}},
            {"index": 1, "function": {"arguments": 'd": 1}'}},
        ]
        server.script(Answer(deltas=[], tool_calls=deltas, finish="tool_calls"))
        answer = caller.complete()
        assert answer.text == ""
        assert answer.reason == "tool_calls"
        assert answer.tool_calls == (
            ToolCall(id="call_a", name="find", arguments='{"q": "链表"}'),
            ToolCall(id="call_b", name="read", arguments='{"id": 1}'),
        )

    def test_missing_ids_and_indexes_are_made_up(self, caller: Caller, server: FakeOpenAI) -> None:
        deltas: list[dict[str, Any]] = [
            {"function": {"name": "find", "arguments": '{"a": 1}'}},
            {"function": {"name": "find", "arguments": {"a": 2}}},
            {"id": "", "function": {"name": "stop"}},
        ]
        server.script(Answer(deltas=[], tool_calls=deltas))
        calls = caller.complete().tool_calls
        assert [call.arguments for call in calls] == ['{"a": 1}', '{"a": 2}', "{}"]
        assert len({call.id for call in calls}) == 3

    def test_same_index_with_another_id_is_another_call(
        self, caller: Caller, server: FakeOpenAI
    ) -> None:
        deltas = [tool_call("a", "{}", call_id="x"), tool_call("b", "{}", call_id="y")]
        server.script(Answer(deltas=[], tool_calls=deltas))
        assert [call.name for call in caller.complete().tool_calls] == ["a", "b"]

    def test_whole_json_answers_may_call_tools(self, caller: Caller, server: FakeOpenAI) -> None:
        server.script(Answer(deltas=[], tool_calls=[tool_call("f", "not json")], as_json=True))
        assert caller.complete().tool_calls[0].arguments == "not json"

    def test_a_call_without_a_name_is_an_error(self, caller: Caller, server: FakeOpenAI) -> None:
        server.script(Answer(deltas=["x"], tool_calls=[{"index": 0, "function": {}}]))
        with pytest.raises(ProviderError):
            caller.complete()


GARBAGE: dict[str, Reply] = {
    "html": Body(content=b"<html>login</html>", headers={"content-type": "text/html"}),
    "empty": Body(content=b""),
    "no content": Body(status=204),
    "null": Body(content=b"null"),
    "list": Body(content=b"[]"),
    "number": Body(content=b"12"),
    "truncated": Body(content=b'{"choices": [{"message": {"content": "hel'),
    "deep": Body(content=b"[" * 200_000),
    "other schema": Body(content=b'{"result": "hello"}'),
    "choices are text": Body(content=b'{"choices": "hello"}'),
    "content is a number": Body(content=b'{"choices": [{"message": {"content": 5}}]}'),
    "no choice": Body(content=b'{"choices": []}'),
    "bad utf-8": Body(content=b'{"choices": [{"message": {"content": "\xff\xfe"}}]}'),
    "error with 200": Body(content=b'{"error": {"message": "boom"}}'),
    "compressed": Body(content=b"\x1f\x8b", headers={**JSON_TYPE, "content-encoding": "gzip"}),
    "stream null": Stream(parts=[b"data: null\n\n", DONE]),
    "stream html": Stream(parts=[b"<html>no</html>\n\n"]),
    "stream bad json": Stream(parts=[HELLO, b"data: {oops\n\n", STOP]),
    "stream bad utf-8": Stream(parts=[HELLO, b"data: \xff\xfe\n\n", STOP]),
    "stream empty": Stream(parts=[]),
    "stream only done": Stream(parts=[DONE]),
    "stream without end": Stream(parts=[HELLO]),
    "stream broken": Stream(parts=[HELLO], breaks=True),
    "stream tool call broken": Stream(parts=[CALLED], breaks=True),
    "stream error": Stream(parts=[HELLO, event({"error": {"message": "overloaded"}})]),
    "only reasoning": Answer(deltas=[], extra=[{"reasoning_content": "think"}], finish="length"),
    "only blanks": Answer(deltas=[" ", "\n"]),
    "content filter": Answer(deltas=["half"], finish="content_filter"),
    "refusal": Answer(deltas=[], extra=[{"refusal": "I can't."}]),
    "broken header": HangUp(after=b"HTTP/1.1 200 OK\r\ncontent-"),
    "no http": HangUp(after=b"SSH-2.0-OpenSSH_9.6\r\n\r\n"),
    "huge json": Huge(size=100_000_000),
    "huge stream": Huge(size=100_000_000, headers=SSE, begin=b"data: "),
    "huge error": Huge(size=100_000_000, status=400),
}


@pytest.mark.parametrize("name", GARBAGE)
def test_garbled_answer_is_an_error_case_184(caller: Caller, server: FakeOpenAI, name: str) -> None:
    """Case 184: whatever is not a whole, usable answer fails the call; nothing is made of it."""
    server.answer_with(lambda _: GARBAGE[name])
    with pytest.raises(ProviderError) as caught:
        caller.complete()
    assert caught.value.code == "provider_error"
    assert len(caught.value.detail) < 300


@pytest.mark.parametrize("name", ["huge json", "huge stream"])
def test_huge_body_is_not_read_to_its_end_case_184(
    caller: Caller, server: FakeOpenAI, name: str
) -> None:
    server.script(GARBAGE[name])
    with pytest.raises(ProviderError, match="too large"):
        caller.complete()
    assert server.requests[0].client_left.wait(10)


def test_too_much_text_is_an_error(caller: Caller, server: FakeOpenAI) -> None:
    server.script(Answer(deltas=["字" * 300_000] * 3))
    with pytest.raises(ProviderError, match="too long"):
        caller.complete()


def test_refusals_say_what_happened(caller: Caller, server: FakeOpenAI) -> None:
    server.script(GARBAGE["content filter"], GARBAGE["refusal"])
    with pytest.raises(ProviderError, match="content filter"):
        caller.complete()
    with pytest.raises(ProviderError, match="refused"):
        caller.complete()
