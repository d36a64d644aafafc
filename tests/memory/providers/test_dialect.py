"""What a server's refusals teach of how to ask it, and for how long."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import replace
from typing import Any

import pytest

from memory.providers.base import complete
from memory.providers.dialect import Dialect, LearnedDialect
from memory.providers.errors import ProviderError
from memory.providers.openai_compatible import OpenAICompatibleProvider
from tests.fakes.openai_replies import Reply, status, text
from tests.fakes.openai_server import FakeOpenAI
from tests.memory.providers.conftest import Caller, request

FULL = Dialect()
SILENT = replace(FULL, asks_usage=False)


class Clock:
    """A clock that a test turns."""

    def __init__(self) -> None:
        self.seconds = 5.0

    def __call__(self) -> float:
        return self.seconds


def learned(*worked: Dialect) -> tuple[LearnedDialect, Clock]:
    clock = Clock()
    made = LearnedDialect(FULL, clock=clock)
    for dialect in worked:
        made.worked(dialect, first=made.current())
    return made, clock


@pytest.mark.parametrize(
    ("worked", "expected"),
    [
        ([], FULL),
        ([SILENT], FULL),
        ([SILENT, FULL, SILENT], FULL),
        ([SILENT, SILENT], SILENT),
        ([SILENT, SILENT, SILENT], SILENT),
    ],
)
def test_usage_is_given_up_after_two_refusals_in_a_row(
    worked: list[Dialect], expected: Dialect
) -> None:
    made, _ = learned(*worked)
    assert made.current() == expected


def test_usage_is_asked_for_again_after_a_while() -> None:
    made, clock = learned(SILENT, SILENT)
    clock.seconds += 599
    assert made.current() == SILENT
    clock.seconds += 2
    assert made.current() == FULL
    made.worked(SILENT, first=SILENT)  # it was not asked for: nothing new is known
    assert made.current() == FULL
    made.worked(SILENT, first=FULL)
    assert made.current() == SILENT
    clock.seconds += 601
    made.worked(FULL, first=FULL)
    made.worked(SILENT, first=FULL)
    assert made.current() == FULL


def test_name_of_the_limit_is_kept_at_once_and_beside_the_usage() -> None:
    renamed = replace(FULL, limit_name="max_completion_tokens")
    made, clock = learned(renamed)
    assert made.current() == renamed
    for _ in range(2):
        made.worked(replace(renamed, asks_usage=False), first=FULL)
    assert made.current() == replace(renamed, asks_usage=False)
    clock.seconds += 601
    assert made.current() == renamed


def asked_times(times: int) -> Callable[[OpenAICompatibleProvider], Awaitable[None]]:
    """Ask one provider so many times, and be answered each time."""

    async def ask(provider: OpenAICompatibleProvider) -> None:
        for _ in range(times):
            assert (await complete(provider, request=request())).text == "ok"

    return ask


class TestDialects:
    def test_stream_options_refused_is_tried_without_and_remembered(
        self, caller: Caller, server: FakeOpenAI
    ) -> None:
        def strict(body: Any) -> Reply:
            return status(400) if "stream_options" in body else text("ok")

        server.answer_with(strict)
        caller.use(asked_times(4))
        asked = ["stream_options" in sent.body for sent in server.requests]
        assert asked == [True, False, True, False, False, False]

    @pytest.mark.parametrize("code", [400, 422])
    def test_one_refusal_of_something_else_costs_no_later_run_its_usage(
        self, caller: Caller, server: FakeOpenAI, code: int
    ) -> None:
        replies: list[Reply] = [status(code), text("ok"), text("ok")]
        server.script(*replies * 3)
        caller.use(asked_times(6))
        asked = ["stream_options" in sent.body for sent in server.requests]
        assert asked == [True, False, True] * 3

    def test_output_limit_is_renamed_when_asked(self, caller: Caller, server: FakeOpenAI) -> None:
        said = "Unsupported parameter: 'max_tokens'. Use 'max_completion_tokens' instead."

        def strict(body: Any) -> Reply:
            return status(400, message=said) if "max_tokens" in body else text("ok")

        server.answer_with(strict)
        assert caller.complete().text == "ok"
        assert server.requests[1].body["max_completion_tokens"] == 64
        assert "stream_options" in server.requests[1].body

    def test_a_prompt_too_long_is_not_tried_again(self, caller: Caller, server: FakeOpenAI) -> None:
        server.answer_with(lambda _: status(400, code="context_length_exceeded"))
        with pytest.raises(ProviderError):
            caller.complete()
        assert len(server.requests) == 1

    def test_always_400_ends(self, caller: Caller, server: FakeOpenAI) -> None:
        server.answer_with(lambda _: status(400))
        with pytest.raises(ProviderError):
            caller.complete()
        assert len(server.requests) == 2
