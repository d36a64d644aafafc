"""A lossless past as messages: order, account, frames, prefixes. Pure."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from memory.boundary import (
    CHINESE,
    ENGLISH,
    SkeletonNode,
    ToolLine,
    Wording,
    acknowledgement,
    message_label,
    skeleton,
    wrap_message,
)
from memory.sanitize import sanitize
from tests.threads.lossless.lossless_pasts import (
    EN,
    HOSTILE,
    TAG,
    TOOL,
    ZH,
    assert_sound,
    cost,
    distinct,
    everything,
    past_of,
    root,
    turn,
)
from threads.lossless.packing import LosslessPast, Unloaded
from threads.past import PackedPast, Squeeze

TEXTS = st.builds(
    lambda piece, times: piece * times,
    st.sampled_from([ZH, EN, HOSTILE, "好", "😀", "", "```py\nx = {0}\n```\n", "系统：", "a\n\n"]),
    st.sampled_from([0, 1, 1, 2, 8, 30]),
)
TOOLS = st.lists(
    st.builds(
        ToolLine,
        name=st.sampled_from(["memory_grep", "[System]"]),
        arguments=TEXTS,
        result=TEXTS,
        reference_id=st.sampled_from(["", "msg_t1", "msg_t2"]),
    ),
    max_size=2,
)


@st.composite
def pasts(draw: Any) -> LosslessPast:
    nodes = draw(st.integers(0, 4))
    head = draw(st.integers(0, 2))
    turns = []
    first = head + 1 + 4 * nodes
    backlog = draw(st.sampled_from([0, 0, 7]))
    after = first + backlog
    numbers = [*range(1, head + 1), *range(after, after + draw(st.integers(0, 9)))]
    for number in numbers:
        is_failed = draw(st.sampled_from([False, False, False, True]))
        tools = () if is_failed else tuple(draw(TOOLS))
        turns.append(turn(number, draw(TEXTS), draw(TEXTS), is_failed=is_failed, tool_lines=tools))
    roots = [
        root(
            index,
            head + 1 + 4 * index,
            head + 4 + 4 * index,
            draw(TEXTS),
            open_items=tuple(draw(st.lists(st.sampled_from(["批改", HOSTILE]), max_size=2))),
        )
        for index in range(nodes)
    ]
    unloaded = Unloaded(turn_count=7, first_seq=first, last_seq=after - 1, tokens=900)
    return past_of(
        turns,
        roots,
        wording=draw(st.sampled_from([CHINESE, ENGLISH])),
        head_turns=head,
        tail_turns=draw(st.integers(2, 5)),
        unloaded=unloaded if backlog else None,
        can_open_originals=draw(st.booleans()),
    )


@pytest.mark.req("A08")
@pytest.mark.req("C08")
@settings(max_examples=150, deadline=None, suppress_health_check=list(HealthCheck))
@given(
    past=pasts(),
    cap=st.sampled_from([0, 100, 300, 350, 400, 500, 700, 1000, 1500, 2500, 5000, 20_000]),
    stand_in=st.sampled_from(["", "", "- 2026-05-03：改为红黑树", HOSTILE * 9]),
    squeezes=st.permutations(list(Squeeze)),
)
def test_any_past_within_any_cap_is_sound(
    past: LosslessPast, cap: int, stand_in: str, squeezes: list[Squeeze]
) -> None:
    for squeeze in squeezes:
        packed = past.pack(cap=cap, squeeze=squeeze, stand_in=stand_in)
        assert_sound(past, packed)
        if squeeze is Squeeze.SUMMARISED:
            assert cost(packed) <= cap or not packed.messages
        else:
            assert not packed.leaving
    levels = [past.pack(cap=10**9, squeeze=squeeze).tokens for squeeze in Squeeze]
    assert levels == sorted(levels, reverse=True)


@pytest.mark.req("A08")
@pytest.mark.parametrize("wording", [CHINESE, ENGLISH])
def test_order_is_head_skeleton_acknowledgement_middle_tail(wording: Wording) -> None:
    turns = [turn(1, "开头的问题"), *distinct(5, first=10)]
    roots = [root(0, 2, 5), root(1, 6, 9)]
    packed = past_of(turns, roots, wording=wording, can_open_originals=True).pack(cap=10_000)
    contents = [message.content for message in packed.messages]
    assert len(contents) == 2 + 2 + 10
    assert "开头的问题" in contents[0]
    assert contents[3] == acknowledgement(wording=wording, tag=TAG)
    assert wording.skeleton_open_heading in contents[2]
    assert contents[2].index("node_000") < contents[2].index("node_001")
    assert "2026-05-03" in contents[2]
    assert "4" in contents[2].splitlines()[2]
    assert "10问" in contents[4]
    assert "14 answer" in contents[-1]
    kinds = [(item.kind, item.tier) for item in packed.items]
    assert kinds == [("turn", "observed"), *[("node", "derived")] * 2, *[("turn", "observed")] * 5]


def test_messages_are_those_of_the_boundary_byte_for_byte() -> None:
    turns = [turn(9, "问", "答"), turn(10, "又问", "又答")]
    packed = past_of(turns, [root(0, 1, 8, "摘要")], head_turns=0).pack(cap=5_000)
    shown = [item.content.partition("\n") for item in packed.items if item.kind == "node"]
    nodes = [SkeletonNode(heading=f"{head}\n", body=body) for head, _, body in shown]
    outline = skeleton(wording=CHINESE, tag=TAG, nodes=nodes, can_open_originals=False)
    assert packed.messages[0].content.endswith("\n" + outline)
    label = message_label(wording=CHINESE, speaker="user", on=turns[0].at.date())
    wrapped = wrap_message(wording=CHINESE, tag=TAG, label=label, body="问")
    assert packed.messages[2].content == wrapped


@pytest.mark.req("C08")
@pytest.mark.parametrize("wording", [CHINESE, ENGLISH])
def test_failed_turn_shows_placeholder_and_never_output(wording: Wording) -> None:
    failed = replace(turn(1, is_failed=True), answer="半截输出 secret half", tool_lines=(TOOL,))
    packed = past_of([failed, *distinct(2, first=2)], wording=wording).pack(cap=9_000)
    assert wording.failed_placeholder in packed.messages[1].content
    assert "half" not in everything(packed)
    assert "kb_search" not in everything(packed)
    assert packed.messages[1].role == "assistant"


@pytest.mark.req("C08")
def test_failed_last_turn_ends_with_the_placeholder_of_the_assistant() -> None:
    packed = past_of([turn(1), turn(2, is_failed=True)]).pack(cap=9_000)
    assert packed.messages[-1].role == "assistant"
    assert CHINESE.failed_placeholder in packed.messages[-1].content


@pytest.mark.req("A09")
@pytest.mark.parametrize("wording", [CHINESE, ENGLISH])
def test_injected_text_in_every_place_stays_inside_its_frame(wording: Wording) -> None:
    """Attacks 5.4: remembered text closes no frame, opens no role, and is no format string."""
    step = ToolLine(name=HOSTILE, arguments=HOSTILE, result=HOSTILE, reference_id=HOSTILE)
    turns = [turn(n, f"{n}{HOSTILE}", f"{HOSTILE}{n}", tool_lines=(step,)) for n in range(9, 15)]
    roots = [root(0, 1, 8, HOSTILE, open_items=(HOSTILE,))]
    past = past_of(turns, roots, wording=wording, head_turns=0)
    for cap in (400, 900, 2_000, 100_000):
        packed = past.pack(cap=cap, squeeze=Squeeze.SUMMARISED, stand_in=HOSTILE)
        assert_sound(past, packed)
        if packed.messages:
            for message in packed.messages:
                tagged = [line for line in message.content.splitlines() if TAG in line]
                assert all(line.endswith(f"] {TAG}") and line[0] == "[" for line in tagged)
                assert "[System]" not in message.content
            assert "{count} {id} %s" in everything(packed)


@pytest.mark.req("D02")
def test_tool_steps_stand_before_the_answer_with_their_reference() -> None:
    turns = [turn(1), turn(2, "查一下", "查到了", tool_lines=(TOOL,)), turn(3)]
    past = past_of(turns)
    whole = past.pack(cap=9_000)
    answer = whole.messages[3].content
    assert answer.index("kb_search(") < answer.index("msg_tool_1") < answer.index("查到了")
    assert "第 1 条" in answer
    bare = past.pack(cap=9_000, squeeze=Squeeze.REFERENCED)
    assert "第 1 条" not in bare.messages[3].content
    assert "kb_search（引用 msg_tool_1）" in bare.messages[3].content
    assert bare.reference_ids == whole.reference_ids == ("msg_tool_1",)
    assert {row.id: row.reason for row in bare.dropped} == {"run_002": "cut"}
    assert_sound(past, bare)


def test_tool_result_without_reference_is_never_reduced() -> None:
    step = replace(TOOL, reference_id="")
    past = past_of([turn(1), turn(2, tool_lines=(step,)), turn(3)])
    assert "第 1 条" in everything(past.pack(cap=9_000, squeeze=Squeeze.REFERENCED))


@pytest.mark.req("B12")
def test_code_blocks_stay_when_tool_results_are_reduced() -> None:
    code = "```python\n" + "print('x')\n" * 60 + "```"
    past = past_of([turn(1, "写代码", code, tool_lines=(TOOL,)), *distinct(3, first=2)])
    assert code in everything(past.pack(cap=99_000, squeeze=Squeeze.REFERENCED))


@pytest.mark.req("C08")
@pytest.mark.parametrize("wording", [CHINESE, ENGLISH])
def test_one_turn_more_leaves_everything_before_it_byte_equal(wording: Wording) -> None:
    turns = [turn(1), *distinct(20, first=6)]
    roots = [root(0, 2, 5)]
    closing = "\n" + wording.close_line(section=wording.history, tag=TAG)
    for squeeze in (Squeeze.WHOLE, Squeeze.REFERENCED):
        before: tuple[str, ...] = ()
        for count in range(3, len(turns) + 1):
            packed = past_of(turns[:count], roots, wording=wording).pack(cap=10**6, squeeze=squeeze)
            contents = tuple(message.content for message in packed.messages)
            assert contents[: len(before)] == before
            before = (*contents[:-1], contents[-1].removesuffix(closing))


@pytest.mark.req("D01")
@pytest.mark.req("D02")
def test_items_say_where_they_come_from() -> None:
    turns = [replace(turn(9, "问题", "回答"), external_id="ext-9"), turn(10)]
    packed = past_of(turns, [root(0, 1, 8)], head_turns=0).pack(cap=9_000)
    node, first, _ = packed.items
    assert node.source is not None
    assert first.source is not None
    assert (node.tier, node.source.kind, node.source.id) == ("derived", "thread", "th_1")
    assert (first.source.kind, first.source.id, first.source.external_id) == (
        "run",
        "run_009",
        "ext-9",
    )
    assert first.content == "问题\n回答"
    assert first.created_at == turns[0].at
    assert sum(item.tokens for item in packed.items) <= packed.tokens


def test_nothing_to_show_is_nothing() -> None:
    packed = past_of([]).pack(cap=1_000, squeeze=Squeeze.SUMMARISED)
    assert packed == PackedPast()


def test_backlog_that_was_not_loaded_is_named_and_told() -> None:
    unloaded = Unloaded(turn_count=40, first_seq=2, last_seq=41, tokens=90_000)
    past = past_of([turn(1), *distinct(3, first=42)], unloaded=unloaded)
    packed = past.pack(cap=99_000)
    assert packed.dropped[0].id == "2-41"
    assert packed.dropped[0].reason == "awaiting_summary"
    assert packed.wanted == packed.tokens + 90_000
    assert CHINESE.awaiting.replace("{count}", "40") in packed.messages[2].content
    assert packed.leaving == ()


def test_packing_again_gives_the_same_and_cleans_nothing_anew() -> None:
    past = past_of(distinct(30))
    for squeeze in Squeeze:
        assert past.pack(cap=2_000, squeeze=squeeze) == past.pack(cap=2_000, squeeze=squeeze)
    other = past_of(distinct(30))
    assert other.pack(cap=2_000) == past.pack(cap=2_000)


@pytest.mark.parametrize("text", [HOSTILE, "a\u200bb", "[System] x", "正常", f"echo {TAG}"])
def test_text_seen_before_is_shown_as_the_first_time(text: str) -> None:
    first, second = (past_of([turn(1, text), turn(2)]).pack(cap=9_000) for _ in range(2))
    assert first == second
    assert sanitize(text).text.replace(TAG, "#…") in first.messages[0].content


def test_usual_cap_is_the_target_and_texts_are_as_stored() -> None:
    past = past_of([turn(1, HOSTILE, tool_lines=(TOOL,))], [root(0, 2, 5, "摘要")])
    assert past.usual_cap() == 6_000
    assert set(past.texts()) == {HOSTILE, EN, TOOL.result, "摘要"}
