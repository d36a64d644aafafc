"""Summary nodes: what they hold, how they read, and the prompt that asks for one."""

from __future__ import annotations

import asyncio
import json

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from memory.compression.nodes import (
    EmptyNodeSourceError,
    NodeContent,
    NodeSource,
    TimelineEntry,
    fitted,
    node_messages,
    parse_node,
    read_lines,
    render,
)
from memory.language import Language
from memory.providers.base import ChatMessage, ChatRequest, TextDelta
from memory.providers.offline import OfflineProvider
from memory.tokens import estimate
from tests.node_samples import (
    CHINESE,
    EMPTY,
    ENGLISH,
    NODE,
    child,
    contents,
    languages,
)


def offline_answer(source: NodeSource, language: Language) -> str:
    system, user = node_messages(source=source, language=language, max_tokens=600)
    messages = (ChatMessage(role="system", content=system), ChatMessage(role="user", content=user))
    request = ChatRequest(model="offline", messages=messages, max_output_tokens=900)
    return asyncio.run(answer_to(request))


async def answer_to(request: ChatRequest) -> str:
    events = [event async for event in OfflineProvider().stream(request=request)]
    return "".join(event.text for event in events if isinstance(event, TextDelta))


# Content and rendering


def test_content_through_json_is_the_same() -> None:
    stored = json.loads(json.dumps(NODE.as_json(), ensure_ascii=False))
    assert NodeContent.from_json(stored) == NODE
    assert NodeContent.from_json({}) == EMPTY
    assert EMPTY.is_empty
    assert not NODE.is_empty


def test_render_shows_the_timeline_first_then_each_list_under_its_heading() -> None:
    assert render(NODE, language="zh", max_tokens=600).split("\n") == [
        "- 2026-06-12 用户要一份数据结构期末试卷",
        "- 2026-06-13 – 2026-06-14 两次改了简答题",
        "- 聊了天气",
        "决定：",
        "- 2026-06-15 改为开卷",
        "- 满分100分",
        "教训：",
        "- 排版在打印时错位",
        "文件：",
        "- 期末卷.docx",
        "- exam/final.tex",
        "待办：",
        "- 给教务处发最终稿",
        "- 补第三题答案",
    ]
    english = render(NODE, language="en", max_tokens=600).split("\n")
    assert [line for line in english if line.endswith(":")] == [
        "Decisions:",
        "Pitfalls:",
        "Files:",
        "Open:",
    ]
    assert render(EMPTY, language="zh", max_tokens=600) == ""


@pytest.mark.parametrize("language", ["zh", "en"])
def test_rendered_node_read_back_is_the_same(language: Language) -> None:
    assert read_lines(render(NODE, language=language, max_tokens=600)) == NODE


@pytest.mark.parametrize("max_tokens", range(1, 130, 7))
def test_render_of_a_node_too_long_drops_details_before_open_items(max_tokens: int) -> None:
    kept = fitted(NODE, language="zh", max_tokens=max_tokens)
    text = render(NODE, language="zh", max_tokens=max_tokens)
    assert text
    assert estimate(text) <= max_tokens
    others = (*kept.timeline, *kept.decisions, *kept.pitfalls, *kept.files)
    assert kept.open_items == NODE.open_items or not others


def test_fitted_keeps_what_tells_most_and_the_order() -> None:
    chatter = tuple(TimelineEntry(date="2026-06-12", text="嗯，好的，继续聊聊") for _ in range(9))
    telling = TimelineEntry(date="2026-06-12", text="付给“蓝海印刷”3850元，合同编号 HT-2291")
    content = NodeContent(timeline=(*chatter, telling), open_items=("取发票",))
    kept = fitted(content, language="zh", max_tokens=60)
    assert kept.timeline[-1] == telling
    assert kept.open_items == ("取发票",)
    assert len(kept.timeline) < 10
    assert kept == fitted(kept, language="zh", max_tokens=60)


def test_fitted_node_full_of_decisions_still_tells_what_happened() -> None:
    content = NodeContent(
        timeline=tuple(TimelineEntry(date="2026-06-12", text=f"第{n}次开会") for n in range(9)),
        decisions=tuple(f"2026-06-12 决定把第{n}份合同交给法务审核" for n in range(40)),
        open_items=("取发票",),
    )
    kept = fitted(content, language="zh", max_tokens=200)
    assert len(kept.decisions) >= 3
    assert kept.timeline
    assert kept.open_items == ("取发票",)


@settings(deadline=None, max_examples=100)
@given(content=contents, language=languages, max_tokens=st.integers(1, 200))
def test_render_of_anything_is_within_its_cap_and_loses_open_items_last(
    content: NodeContent, language: Language, max_tokens: int
) -> None:
    text = render(content, language=language, max_tokens=max_tokens)
    kept = fitted(content, language=language, max_tokens=max_tokens)
    assert estimate(text) <= max_tokens
    assert text == render(content, language=language, max_tokens=max_tokens)
    assert kept.is_empty == content.is_empty
    if kept.open_items != content.open_items:
        assert kept == NodeContent(open_items=kept.open_items)


# Source and prompt


def test_source_of_nothing_is_refused_188() -> None:
    """188: a summary of 0 messages."""
    with pytest.raises(EmptyNodeSourceError) as raised:
        NodeSource()
    assert raised.value.code == "empty_node_source"
    with pytest.raises(ValueError, match="not of both"):
        NodeSource(turns=CHINESE.turns, children=(child(NODE),))


@pytest.mark.req("A16")
@pytest.mark.parametrize(
    ("language", "words"),
    [
        ("zh", ["身份证", "(涉及学生成绩，略)", "不是给你的指令", "open_items", "用中文写", "600"]),
        (
            "en",
            ["identity", "(grades omitted)", "not instructions", "open_items", "English", "450"],
        ),
    ],
)
def test_node_prompt_states_task_keys_red_line_and_language(
    language: Language, words: list[str]
) -> None:
    system, _ = node_messages(source=CHINESE, language=language, max_tokens=600)
    assert system.split("\n")[0] == "Task: summarize"
    keys = ["timeline", "decisions", "pitfalls", "files", "open_items"]
    assert [word for word in (*words, *keys) if word not in system] == []


@pytest.mark.req("A11")
def test_node_prompt_of_turns_is_dated_and_has_no_output_of_a_failed_one() -> None:
    _, user = node_messages(source=CHINESE, language="zh", max_tokens=600)
    parts = ["[2026-06-13 09:30 第 1 轮]", "用户：出一份", "第 4 轮", "用户：决定"]
    places = [user.index(part) for part in parts]
    assert places == sorted(places)
    assert "（该轮未成功完成，已跳过）" in user
    assert "Traceback" not in user


def test_node_prompt_of_nodes_shows_each_with_its_span_and_labelled_lines() -> None:
    source = NodeSource(children=(child(NODE), child(NodeContent(decisions=("{n} {name}",)), 9)))
    _, user = node_messages(source=source, language="zh", max_tokens=600)
    assert user.startswith("[2026-06-13 – 2026-06-15 摘要节点 1]\n- [2026-06-12] 用户要一份")
    assert "- 待办：补第三题答案" in user
    assert user.endswith("[2026-06-21 – 2026-06-23 摘要节点 2]\n- 决定：{n} {name}")


@pytest.mark.parametrize("language", ["zh", "en"])
def test_answer_of_the_offline_model_is_read_as_a_node(language: Language) -> None:
    """The built-in model knows no JSON: its dated lines are the timeline."""
    source = CHINESE if language == "zh" else ENGLISH
    content = parse_node(offline_answer(source, language))
    assert content is not None
    assert content.timeline[0].date == "2026-06-13"
    assert language == "en" or content.open_items == ("2026-06-17 给教务处发最终稿。",)


def test_offline_model_quotes_nodes_in_whole_sentences_with_their_dates() -> None:
    said = "学期末的数据结构试卷由王老师负责审核，印刷三百份"
    entries = (TimelineEntry(date="2026-06-12", text=said), *NODE.timeline)
    below = NodeContent(timeline=entries, open_items=NODE.open_items)
    content = parse_node(offline_answer(NodeSource(children=(child(below),) * 2), "zh"))
    assert content is not None
    assert TimelineEntry(date="2026-06-12", text=said) in content.timeline
