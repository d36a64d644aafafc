"""The in-run window: whatever tools return, no call is over it, and nothing is lost on the way."""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from memory.boundary import CHINESE
from memory.compression.veto import RecentTurn, VetoList
from memory.providers.base import ChatMessage, ToolCall
from memory.tokens import estimate
from tests.threads.tooled import outcome_of
from threads.round_frame import RoundFrame
from threads.run_prompt import MOST_CHARS, MOST_TOKENS, RunPrompt
from threads.tool_rounds import ToolRound, without_calls

NOW = datetime(2026, 11, 2, tzinfo=UTC)
TAG = "#0123456789abcdef0123"
FRAME = RoundFrame(wording=CHINESE, tag=TAG)
QUESTION = "这是本轮的问题：库存还有多少？"
SENTENCES = "".join(
    f"第{number}条记录：库存 {number * 7} 件，编号 SKU-{number:05d}。\n" for number in range(900)
)


def tokens_of(messages: Any) -> int:
    """What a real tokenizer counts, tool calls included."""
    said = [without_calls(message).content for message in messages]
    return sum(estimate(text, kind="tokenizer", model="gpt-4o") for text in said)


@dataclass(frozen=True)
class ShrinkingPrompt:
    """A prompt with a past of so many tokens that can go, counted by the real tokenizer."""

    target: int
    past_tokens: int = 0
    veto: VetoList = field(default_factory=VetoList)

    @property
    def frame(self) -> RoundFrame:
        return RoundFrame(wording=CHINESE, tag=TAG)

    @property
    def messages(self) -> tuple[ChatMessage, ...]:
        return self._with(self.past_tokens)

    def count(self, messages: Any, tools: Any) -> int:
        return tokens_of(messages)

    def shrink(self, tokens_less: int) -> tuple[ChatMessage, ...] | None:
        left = self.past_tokens - tokens_less
        return self._with(left) if left > 0 else None

    def _with(self, tokens: int) -> tuple[ChatMessage, ...]:
        past = "past " * tokens
        return (
            ChatMessage(role="system", content="Be brief."),
            ChatMessage(role="user", content=f"{past}\n{QUESTION}"),
        )


def round_of(*texts: str, number: int = 1) -> ToolRound:
    calls = [
        ToolCall(id=f"call_{number}_{at}", name="look", arguments="{}") for at in range(len(texts))
    ]
    outcomes = [outcome_of(call, text, now=NOW) for call, text in zip(calls, texts, strict=True)]
    return ToolRound(text="", outcomes=tuple(outcomes))


def prompt_of(base: Any, *rounds: ToolRound) -> RunPrompt:
    prompt = RunPrompt(base=base, language="zh")
    for done in rounds:
        prompt.add(done)
    return prompt


def levels_of(window: Any) -> list[tuple[str, str]]:
    return [
        (step["data"]["level"], step["data"]["outcome"])
        for step in window.steps
        if step["kind"] == "compress"
    ]


def is_paired(messages: Any) -> bool:
    """Every call has exactly one result, in order, and no result is without its call."""
    waiting: list[str] = []
    for message in messages:
        if message.role == "tool":
            if not waiting or waiting.pop(0) != message.tool_call_id:
                return False
            continue
        if waiting:
            return False
        waiting = [call.id for call in message.tool_calls]
    return not waiting


def test_first_call_is_not_counted_again() -> None:
    window = prompt_of(ShrinkingPrompt(target=10)).fit(tools=(), now=NOW)
    assert (window.tokens, window.steps, window.is_within) == (None, (), True)


@pytest.mark.req("A25")
def test_window_holds_below_a_larger_target() -> None:
    done = round_of("字库 " * 60_000)
    window = prompt_of(ShrinkingPrompt(target=10**6), done).fit(tools=(), now=NOW)
    assert window.is_within
    assert tokens_of(window.messages) <= MOST_TOKENS
    assert window.steps[0]["data"]["target_budget"] == MOST_TOKENS


@pytest.mark.req("A25")
def test_limit_of_characters_holds_beside_that_of_tokens() -> None:
    blank = " " * (MOST_CHARS - 100)
    prompt = prompt_of(
        ShrinkingPrompt(target=MOST_TOKENS), round_of(blank), round_of("x" * 300, number=2)
    )
    window = prompt.fit(tools=(), now=NOW)
    assert window.is_within
    assert sum(len(message.content) for message in window.messages) <= MOST_CHARS
    assert ("tool_results", "kept") in levels_of(window)


@pytest.mark.req("B08")
def test_equal_results_become_references_first() -> None:
    text = SENTENCES[:6000]
    done, again = round_of(text), round_of(text, number=2)
    whole = tokens_of([*done.messages(frame=FRAME), *again.messages(frame=FRAME)])
    prompt = prompt_of(ShrinkingPrompt(target=whole - 500), done, again)
    window = prompt.fit(tools=(), now=NOW)
    assert levels_of(window) == [("dedupe", "kept")]
    results = [message.content for message in window.messages if message.role == "tool"]
    assert results[0] == FRAME.result(text)
    assert "call_1_0" in results[1]
    assert done.outcomes[0].reference_id in results[1]


def results_of(window: Any) -> list[str]:
    return [message.content for message in window.messages if message.role == "tool"]


@pytest.mark.req("B08")
def test_call_made_again_since_its_result_was_shortened_is_shown_and_names_no_shortened_one() -> (
    None
):
    """The first is no longer whole: to name it would be a dead end."""
    text = SENTENCES[:6000]
    first, other = round_of(text), round_of(SENTENCES[20_000:24_000], number=2)
    again, third = round_of(text, number=3), round_of(text, number=4)
    text_tokens = tokens_of(again.messages(frame=FRAME))
    prompt = prompt_of(ShrinkingPrompt(target=text_tokens + 1500), first, other)
    assert results_of(prompt.fit(tools=(), now=NOW))[0] != FRAME.result(text)
    prompt.add(again)
    window = prompt.fit(tools=(), now=NOW)
    assert window.is_within
    assert results_of(window)[2] == FRAME.result(text)
    prompt.add(third)
    window = prompt.fit(tools=(), now=NOW)
    assert window.is_within
    assert results_of(window)[2] == FRAME.result(text)
    assert "call_3_0" in results_of(window)[3]
    assert again.outcomes[0].reference_id in results_of(window)[3]


@pytest.mark.req("B08")
def test_result_that_another_names_is_shortened_only_together_with_that_one() -> None:
    text = SENTENCES[:6000]
    first, again = round_of(text), round_of(text, number=2)
    prompt = prompt_of(ShrinkingPrompt(target=1600), first, again)
    window = prompt.fit(tools=(), now=NOW)
    assert window.is_within
    for result, done in zip(results_of(window), (first, again), strict=True):
        assert result != FRAME.result(text)
        assert done.outcomes[0].reference_id in result
        assert "call_1_0" not in result


def no_dead_end(prompt: RunPrompt, window: Any) -> bool:
    """Whoever says it is the same as an earlier result names one that is shown whole."""
    outcomes = {one.call.id: one for done in prompt._rounds for one in done.outcomes}
    shown = {one.tool_call_id: one.content for one in window.messages if one.role == "tool"}
    named = (
        outcomes[call_id]
        for content in shown.values()
        for call_id in outcomes
        if f"调用 {call_id} " in content
    )
    return all(shown[one.call.id] == FRAME.result(one.shown) for one in named)


@settings(max_examples=40, deadline=None)
@given(
    picked=st.lists(st.lists(st.integers(0, 2), min_size=1, max_size=3), min_size=1, max_size=6),
    target=st.integers(900, 9000),
)
def test_no_result_names_a_shortened_one_whatever_is_called_again(picked: Any, target: int) -> None:
    texts = [SENTENCES[:6000], SENTENCES[6000:9000], SENTENCES[9000:9400]]
    prompt = prompt_of(ShrinkingPrompt(target=target))
    for number, which in enumerate(picked):
        prompt.add(round_of(*(texts[one] for one in which), number=number))
        window = prompt.fit(tools=(), now=NOW)
        assert no_dead_end(prompt, window)
        assert window.is_within == (tokens_of(window.messages) <= target)
        if not window.is_within:
            break


@pytest.mark.req("B12")
@pytest.mark.req("B11")
def test_long_results_become_summaries_with_their_reference_oldest_first() -> None:
    old, new = round_of(SENTENCES[:20_000]), round_of(SENTENCES[20_000:24_000], number=2)
    target = tokens_of(new.messages(frame=FRAME)) + 900
    window = prompt_of(ShrinkingPrompt(target=target), old, new).fit(tools=(), now=NOW)
    assert window.is_within
    results = [message.content for message in window.messages if message.role == "tool"]
    assert old.outcomes[0].reference_id in results[0]
    assert results[1] == FRAME.result(new.outcomes[0].shown)
    kept = [step["data"] for step in window.steps if step["data"].get("outcome") == "kept"]
    assert kept
    for step in kept:
        assert step["tokens_after"] < step["tokens_before"]
        assert step["summary_id"].startswith("sum_")
        assert step["veto"] == "ok"
    assert [step["data"]["decision"] for step in window.steps if step["kind"] == "precheck"] == [
        "compress",
        "pass",
    ]


@pytest.mark.req("B08")
def test_past_makes_room_when_the_results_can_not() -> None:
    rounds = [round_of(f"结果 {number}", number=number) for number in range(8)]
    base = ShrinkingPrompt(target=1000, past_tokens=960)
    window = prompt_of(base, *rounds).fit(tools=(), now=NOW)
    assert window.is_within
    assert ("summary", "kept") in levels_of(window)
    assert window.messages[1].content.endswith(QUESTION)
    assert is_paired(window.messages)


@pytest.mark.req("B09")
def test_level_that_loses_a_recent_turn_is_undone_and_the_run_refused() -> None:
    turn = RecentTurn(id="run_1", needles=("past " * 960,))
    base = ShrinkingPrompt(
        target=1000, past_tokens=960, veto=VetoList(request=QUESTION, recent=(turn,))
    )
    rounds = [round_of(f"结果 {number}", number=number) for number in range(8)]
    window = prompt_of(base, *rounds).fit(tools=(), now=NOW)
    assert not window.is_within
    undone = [step["data"] for step in window.steps if step["data"].get("outcome") == "undone"]
    assert {step["veto"] for step in undone} == {"turn:run_1"}
    assert window.steps[-1]["data"]["decision"] == "reject"


def test_what_was_compressed_stays_so_in_later_calls() -> None:
    prompt = prompt_of(ShrinkingPrompt(target=2500), round_of(SENTENCES[:20_000]))
    first = prompt.fit(tools=(), now=NOW)
    prompt.add(round_of("kurz", number=2))
    second = prompt.fit(tools=(), now=NOW)
    assert second.is_within
    assert second.messages[: len(first.messages)] == first.messages
    assert levels_of(second) == []


@pytest.mark.req("A25")
def test_arguments_of_calls_count_too() -> None:
    many = json.dumps({f"name {number}": "字 " * 50 for number in range(100)})
    call = ToolCall(id="c", name="write_artifact", arguments=many)
    done = ToolRound(text="", outcomes=(outcome_of(call, "ok", now=NOW),))
    window = prompt_of(ShrinkingPrompt(target=3000), done).fit(tools=(), now=NOW)
    assert not window.is_within


@pytest.mark.req("B08")
def test_long_texts_that_tools_were_called_with_are_cut_oldest_first() -> None:
    rounds = []
    for number in range(4):
        text = f"第{number}稿：" + "字 " * 1500
        arguments = json.dumps({"name": "a.md", "content": text}, ensure_ascii=False)
        call = ToolCall(id=f"c{number}", name="write_artifact", arguments=arguments)
        rounds.append(ToolRound(text="", outcomes=(outcome_of(call, "ok", now=NOW),)))
    window = prompt_of(ShrinkingPrompt(target=5000), *rounds).fit(tools=(), now=NOW)
    assert window.is_within
    assert is_paired(window.messages)
    sent = [json.loads(one.arguments) for said in window.messages for one in said.tool_calls]
    assert [value["content"][:3] for value in sent] == ["第0稿", "第1稿", "第2稿", "第3稿"]
    sizes = [len(value["content"]) for value in sent]
    assert sizes[0] < 200
    assert sizes[-1] > 2000
    levels = [step["data"].get("level") for step in window.steps]
    assert "tool_arguments" in levels


@settings(max_examples=25, deadline=None)
@given(
    sizes=st.lists(st.lists(st.integers(0, 30_000), min_size=1, max_size=3), max_size=6),
    target=st.integers(300, 20_000),
    past=st.integers(0, 3000),
)
def test_window_holds_for_any_results(sizes: Any, target: int, past: int) -> None:
    """Whatever comes, what is sent is within the target, paired, and ends with the question."""
    prompt = RunPrompt(
        base=ShrinkingPrompt(target=target, past_tokens=min(past, target // 2)), language="en"
    )
    for number, lengths in enumerate(sizes):
        texts = [(SENTENCES * 2)[length : 2 * length] for length in lengths]
        prompt.add(round_of(*texts, number=number))
        window = prompt.fit(tools=(), now=NOW)
        assert window.is_within == (tokens_of(window.messages) <= target)
        assert is_paired(window.messages)
        users = [message.content for message in window.messages if message.role == "user"]
        assert users[-1].endswith(QUESTION)
        if not window.is_within:
            break
