"""What every chat provider keeps, told by the same tests: the real client and the built-in model.

The OpenAI-compatible one talks to the fake server, so the fake is held to the contract too.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator
from contextlib import aclosing, closing
from dataclasses import dataclass, field

import pytest

from memory.providers.base import (
    ChatAnswer,
    ChatEvent,
    ChatMessage,
    ChatProvider,
    ChatRequest,
    Finished,
    ProviderConfig,
    TextDelta,
    ToolCallMade,
    ToolSpec,
    complete,
)
from memory.providers.offline import OfflineProvider
from memory.providers.registry import chat_provider, run
from tests.fakes.openai_replies import Answer, tool_call
from tests.fakes.openai_server import FakeOpenAI

QUESTION = "试卷 Zephyr 什么时候交？😀"
CONTEXT = "试卷 Zephyr 在 2026-06-18 交。"


@dataclass(frozen=True, kw_only=True)
class Subject:
    """A provider under test; `server` is where it connects to, if anywhere."""

    make: Callable[[], ChatProvider]
    server: FakeOpenAI | None = field(default=None)

    def close(self) -> None:
        if self.server is not None:
            self.server.stop()


def offline() -> Subject:
    return Subject(make=OfflineProvider)


def openai_compatible() -> Subject:
    server = FakeOpenAI().start()
    config = ProviderConfig(
        id="prov_1",
        kind="openai_compatible",
        base_url=server.base_url,
        api_key="sk-test",
        locality="local",
        vendor="fake",
        allowed_hosts=("loopback",),
    )
    return Subject(make=lambda: chat_provider(config), server=server)


@pytest.fixture(params=[offline, openai_compatible], ids=lambda make: make.__name__)
def subject(request: pytest.FixtureRequest) -> Iterator[Subject]:
    with closing(request.param()) as made:
        yield made


def prompt(*, tools: tuple[ToolSpec, ...] = ()) -> ChatRequest:
    messages = (
        ChatMessage(role="system", content="Be brief."),
        ChatMessage(role="user", content=CONTEXT),
        ChatMessage(role="assistant", content="好的。"),
        ChatMessage(role="user", content=QUESTION),
    )
    return ChatRequest(model="any", messages=messages, max_output_tokens=200, tools=tools)


def events_of(subject: Subject, asked: ChatRequest) -> list[ChatEvent]:
    async def collect() -> list[ChatEvent]:
        return [event async for event in subject.make().stream(request=asked)]

    return run(collect())


def answer_of(subject: Subject, asked: ChatRequest) -> ChatAnswer:
    async def drain() -> ChatAnswer:
        return await complete(subject.make(), request=asked)

    return run(drain())


def test_text_comes_first_and_finished_once_and_last(subject: Subject) -> None:
    events = events_of(subject, prompt())
    assert [type(event) for event in events[:-1]] == [TextDelta] * (len(events) - 1)
    assert len(events) > 2
    assert isinstance(events[-1], Finished)


def test_no_delta_is_empty_and_text_is_storable(subject: Subject) -> None:
    for event in events_of(subject, prompt()):
        if isinstance(event, TextDelta):
            assert event.text
            assert event.text.encode().decode() == event.text


def test_complete_is_the_stream_joined(subject: Subject) -> None:
    events = events_of(subject, prompt())
    answer = answer_of(subject, prompt())
    end = events[-1]
    assert isinstance(end, Finished)
    joined = "".join(event.text for event in events if isinstance(event, TextDelta))
    assert answer == ChatAnswer(
        text=joined, tool_calls=(), reason=end.reason, model=end.model, usage=end.usage
    )


def test_chinese_and_mixed_text_arrives_whole(subject: Subject) -> None:
    assert "试卷 Zephyr" in answer_of(subject, prompt()).text


def test_usage_counts_both_ways(subject: Subject) -> None:
    answer = answer_of(subject, prompt())
    assert answer.usage is not None
    assert answer.usage.input_tokens > 0
    assert answer.usage.output_tokens > 0
    assert answer.reason == "stop"
    assert answer.model


def test_one_provider_serves_many_streams_at_once(subject: Subject) -> None:
    async def many() -> set[str]:
        provider = subject.make()
        answers = await asyncio.gather(*(complete(provider, request=prompt()) for _ in range(20)))
        return {answer.text for answer in answers}

    assert len(run(many())) == 1


def test_leaving_early_ends_the_stream_and_its_connection(subject: Subject) -> None:
    if subject.server is not None:
        subject.server.script(Answer(deltas=["a"] * 3, delay_seconds=60))

    async def leave() -> None:
        async with aclosing(subject.make().stream(request=prompt())) as events:
            assert isinstance(await anext(events), TextDelta)
        with pytest.raises(StopAsyncIteration):
            await anext(events)
        if subject.server is not None:
            left = subject.server.requests[0].client_left
            assert await asyncio.to_thread(left.wait, 10)

    run(leave())


def test_cancelling_the_reader_ends_the_stream(subject: Subject) -> None:
    if subject.server is not None:
        subject.server.script(Answer(deltas=["a"] * 3, delay_seconds=60))

    async def cancel() -> None:
        begun = asyncio.Event()

        async def read() -> None:
            async for _ in subject.make().stream(request=prompt()):
                begun.set()
                await asyncio.sleep(0)
            await asyncio.Event().wait()

        task = asyncio.create_task(read())
        await begun.wait()
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        if subject.server is not None:
            left = subject.server.requests[0].client_left
            assert await asyncio.to_thread(left.wait, 10)

    run(cancel())


def test_tools_are_offered_and_calls_come_before_the_end(subject: Subject) -> None:
    spec = ToolSpec(name="memory_grep", description="Find.", parameters={"type": "object"})
    if subject.server is None:
        answer = answer_of(subject, prompt(tools=(spec,)))
        assert answer.tool_calls == ()  # the built-in model calls none, and answers all the same
        assert answer.text
        return
    made = tool_call("memory_grep", '{"query": "试卷"}')
    subject.server.script(Answer(deltas=["找"], tool_calls=[made], finish="tool_calls"))
    events = events_of(subject, prompt(tools=(spec,)))
    assert [type(event) for event in events] == [TextDelta, ToolCallMade, Finished]
    assert isinstance(events[1], ToolCallMade)
    assert events[1].call.arguments == '{"query": "试卷"}'
    assert subject.server.requests[0].body["tools"][0]["function"]["name"] == "memory_grep"
