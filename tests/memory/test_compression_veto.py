"""The veto list: what a prompt may not lose is found missing, and never found in the wrong place."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from memory.compression.anchors import anchors_of
from memory.compression.veto import FixedText, RecentTurn, VetoList, missing
from memory.providers.base import ChatMessage, ToolCall, ToolSpec

pytestmark = pytest.mark.req("B09")

REQUEST = "合同HT-2024-001的¥300付了吗？\n"
REFERENCE = "msg_01h455vb4pex5vsknk084sn02q"
VIEW = ToolSpec(name="view_message", description="Read it.", parameters={"type": "object"})
CALL = ToolCall(id="call_1", name="view_message", arguments="{}")
VETO = VetoList(
    system_prompt="你是财务助手。",
    request=REQUEST,
    tools=(VIEW,),
    fixed=(
        FixedText(kind="sample", id="smp_1", text="问：几点？答：九点。"),
        FixedText(kind="preference", id="itm_1", text="报告要短"),
        FixedText(kind="core", id="cor_1", text="The user lives in Graz."),
    ),
    recent=(RecentTurn(id="run_1", needles=("昨天谈了什么", "昨天…什么")),),
    tool_calls=("call_1",),
    reference_ids=(REFERENCE,),
    anchors=anchors_of(REQUEST),
    open_items=("待办：订 教室", "Open: call Bob"),
)
PAST = (
    "报告要短\nThe user lives in Graz.\n合同 HT-2024-001 的 ¥300 未付\n待办：订教室\n"
    f"open:  call bob\n（原文：{REFERENCE}）\n昨天…什么\n"
)
MESSAGES = (
    ChatMessage(role="system", content="你是财务助手。\n问：几点？答：九点。"),
    ChatMessage(role="user", content=f"{PAST}[Current Request]\n{REQUEST}"),
    ChatMessage(role="assistant", content="", tool_calls=(CALL,)),
    ChatMessage(role="tool", content="找到了", tool_call_id="call_1"),
)


def _lacking(messages: tuple[ChatMessage, ...], veto: VetoList = VETO) -> list[str]:
    return [str(item) for item in missing(veto, messages=messages, tools=(VIEW,))]


def _with_user(content: str) -> tuple[ChatMessage, ...]:
    return (MESSAGES[0], replace(MESSAGES[1], content=content), *MESSAGES[2:])


def test_missing_of_a_prompt_that_holds_everything_is_nothing() -> None:
    assert _lacking(MESSAGES) == []
    assert missing(VetoList(), messages=(), tools=()) == ()


@pytest.mark.parametrize(
    ("cut", "wanted"),
    [
        ("报告要短", "preference:itm_1"),
        ("The user lives in Graz.", "core:cor_1"),
        ("HT-2024-001 的", "anchor:identifier.1"),
        ("¥300 未付", "anchor:amount.2"),
        ("待办：订教室", "open_item:1"),
        ("call bob", "open_item:2"),
        (REFERENCE, f"reference:{REFERENCE}"),
        ("昨天…什么", "turn:run_1"),
    ],
)
def test_missing_of_a_prompt_without_one_thing_names_just_that(cut: str, wanted: str) -> None:
    assert _lacking(_with_user(MESSAGES[1].content.replace(cut, "", 1))) == [wanted]


@pytest.mark.parametrize(
    "request_text", [REQUEST + " ", REQUEST.strip(), REQUEST.replace("¥", "￥")]
)
def test_missing_of_a_request_that_is_not_byte_for_byte_at_the_end_names_it(
    request_text: str,
) -> None:
    assert "request:" in _lacking(_with_user(f"{PAST}{request_text}"))


def test_missing_of_anchors_that_only_the_request_and_the_system_prompt_hold_names_them() -> None:
    """The request is always there: what it names must be held by what was remembered."""
    prompt = "你是财务助手。HT-2024-001 ¥300"
    messages = (
        ChatMessage(role="system", content=prompt),
        ChatMessage(role="user", content=REQUEST),
    )
    veto = VetoList(system_prompt=prompt, request=REQUEST, anchors=anchors_of(REQUEST))
    assert _lacking(messages, veto) == ["anchor:identifier.1", "anchor:amount.2"]


def test_missing_of_a_reference_that_is_only_the_head_of_a_longer_one_names_it() -> None:
    messages = (ChatMessage(role="user", content="见 msg_12"),)
    assert _lacking(messages, VetoList(reference_ids=("msg_1",))) == ["reference:msg_1"]
    assert _lacking(messages, VetoList(reference_ids=("msg_12",))) == []


@pytest.mark.parametrize(
    "kept",
    [(0, 1, 2), (0, 1, 3), (0, 1, 3, 2)],
    ids=["no result", "no call", "the result before its call"],
)
def test_missing_of_half_a_tool_call_names_it(kept: tuple[int, ...]) -> None:
    """Bug report B10: calls and results stay paired."""
    assert _lacking(tuple(MESSAGES[at] for at in kept)) == ["tool_call:call_1"]


def test_missing_of_a_changed_tool_or_system_prompt_names_it() -> None:
    other = replace(VIEW, parameters={"type": "array"})
    found = missing(VETO, messages=MESSAGES, tools=(other,))
    assert [str(item) for item in found] == ["tool:view_message"]
    found = missing(VETO, messages=MESSAGES[1:], tools=(VIEW,))
    assert [str(item) for item in found] == ["system_prompt:", "sample:smp_1"]


@settings(deadline=None, max_examples=200)
@given(
    request_text=st.text(max_size=30),
    contents=st.lists(
        st.tuples(st.sampled_from(["system", "user", "assistant", "tool"]), st.text(max_size=30)),
        max_size=5,
    ),
)
def test_missing_of_any_messages_finds_the_request_only_at_the_end_of_the_last_user_one(
    request_text: str, contents: list[tuple[str, str]]
) -> None:
    messages = tuple(ChatMessage(role=role, content=content) for role, content in contents)
    said = [message.content for message in messages if message.role == "user"]
    is_there = (said[-1] if said else "").endswith(request_text)
    assert ("request:" in _lacking(messages, VetoList(request=request_text))) == (not is_there)
