"""Reading chunks: whatever a server sends, it is an answer or a ProviderError."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from memory.providers.base import Finished, TextDelta
from memory.providers.chunks import MAX_TOOL_CALLS, AnswerReader, mended
from memory.providers.errors import ProviderError

WORDS = st.sampled_from(
    ["choices", "delta", "message", "content", "tool_calls", "function", "name", "arguments",
     "index", "id", "usage", "prompt_tokens", "completion_tokens", "finish_reason", "error",
     "refusal", "model"]
)  # fmt: skip
LEAVES = st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=8)
VALUES = st.recursive(
    LEAVES,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(WORDS, inner, max_size=5),
    max_leaves=25,
)


def reader() -> AnswerReader:
    return AnswerReader(model="asked", describe_error=lambda _: "")


def delta(**fields: object) -> dict[str, object]:
    return {"choices": [{"index": 0, "delta": fields, "finish_reason": None}]}


@settings(deadline=None)
@given(values=st.lists(VALUES, max_size=4), saw_done=st.booleans())
def test_any_json_is_an_answer_or_a_provider_error(values: list[object], saw_done: bool) -> None:
    one = reader()
    try:
        events = [event for value in values for event in one.feed(value)]
        events += one.finish(saw_done=saw_done)
    except ProviderError:
        return
    assert isinstance(events[-1], Finished)
    assert sum(isinstance(event, Finished) for event in events) == 1


@settings(deadline=None)
@given(text=st.text(st.characters(codec=None), max_size=30), at=st.integers(0, 30))
def test_text_is_storable_however_it_is_cut(text: str, at: int) -> None:
    one = reader()
    events = one.feed(delta(content="x" + text[:at])) + one.feed(delta(content=text[at:]))
    events += one.finish(saw_done=True)
    joined = "".join(event.text for event in events if isinstance(event, TextDelta))
    assert joined == mended("x" + text)
    assert "\x00" not in joined
    joined.encode()


def test_other_choices_are_left_alone() -> None:
    one = reader()
    assert one.feed({"choices": [{"index": 1, "delta": {"content": "second"}}]}) == []


def test_only_what_the_model_says_is_progress() -> None:
    one = reader()
    for fields, has_progressed in [
        ({"role": "assistant"}, False),
        ({"content": ""}, False),
        ({"content": None}, False),
        ({"content": "a"}, True),
        ({"reasoning_content": "hm"}, True),
        ({"tool_calls": [{"index": 0, "function": {"name": "f"}}]}, True),
    ]:
        one.feed(delta(**fields))  # type: ignore[arg-type]
        assert one.has_progressed is has_progressed
    one.feed({"choices": []})
    assert one.has_progressed is False


def test_model_falls_back_to_the_one_asked_for() -> None:
    one = reader()
    one.feed(delta(content="a"))
    end = one.finish(saw_done=True)[-1]
    assert isinstance(end, Finished)
    assert end.model == "asked"


def test_too_many_tool_calls_are_an_error() -> None:
    one = reader()
    calls = [{"function": {"name": "f"}}] * (MAX_TOOL_CALLS + 1)
    with pytest.raises(ProviderError):
        one.feed(delta(tool_calls=calls))
