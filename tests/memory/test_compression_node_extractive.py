"""Summary nodes without a model."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from memory.compression.nodes import (
    NodeContent,
    NodeSource,
    TimelineEntry,
    check_node,
    extractive_node,
    render,
    rendered_whole,
)
from memory.compression.turns import SummaryTurn
from memory.language import Language
from memory.tokens import estimate
from tests.node_samples import (
    CHINESE,
    ENGLISH,
    NODE,
    SOURCES,
    START,
    child,
    contents,
    languages,
    turn,
)


def test_extractive_node_in_chinese_fills_each_list() -> None:
    node = extractive_node(source=CHINESE, language="zh", max_tokens=400)
    assert node.open_items == ("2026-06-17 给教务处发最终稿。",)
    assert "2026-06-16 决定用开卷形式，截止日期6月15日。" in node.decisions
    assert node.files == ("期末卷.docx", "exam/final.tex")
    assert any("数据结构" in entry.text for entry in node.timeline)
    assert all(entry.date for entry in node.timeline)
    assert "Traceback" not in " ".join(node.texts)


def test_extractive_node_in_english_fills_each_list() -> None:
    node = extractive_node(source=ENGLISH, language="en", max_tokens=400)
    assert node.open_items == ("2026-06-16 write the postmortem.",)
    assert any("pool to 40" in line for line in node.decisions)
    assert node.files == ("config/pool.yaml",)
    assert node.timeline[0].date == "2026-06-13"


@pytest.mark.parametrize(
    ("language", "said"),
    [
        ("zh", "我很喜欢读小说，不过最近还没有看完那一本。"),
        ("en", "I'll never forget it, and I always enjoy an open fire."),
    ],
)
def test_extractive_node_of_small_talk_has_no_decision_and_nothing_open(
    language: Language, said: str
) -> None:
    source = NodeSource(turns=(turn(1, said * 3), turn(2, said)))
    node = extractive_node(source=source, language=language, max_tokens=300)
    assert node.timeline
    assert (node.decisions, node.open_items) == ((), ())


def test_extractive_node_of_nodes_merges_by_date_and_keeps_every_open_item() -> None:
    later = NodeContent(
        timeline=(
            TimelineEntry(date="2026-06-20", text="考试顺利结束"),
            TimelineEntry(date="2026-06-12", text="用户要一份数据结构期末试卷"),
        ),
        decisions=("2026-06-15 改为开卷", "下学期换教材"),
        open_items=("补第三题答案。", "补第四题答案", "退还押金 300 元"),
        files=("期末卷.docx",),
    )
    source = NodeSource(children=(child(NODE), child(later, 8)))
    node = extractive_node(source=source, language="zh", max_tokens=600)
    assert node.open_items == (
        "给教务处发最终稿",
        "补第三题答案",
        "补第四题答案",
        "退还押金 300 元",
    )
    assert node.decisions == ("2026-06-15 改为开卷", "满分100分", "下学期换教材")
    assert node.files == ("期末卷.docx", "exam/final.tex")
    assert node.timeline[-1].date == "2026-06-20"
    small = extractive_node(source=source, language="zh", max_tokens=70)
    assert small.open_items == node.open_items
    verdict = check_node(
        small,
        rendered_whole(small, language="zh"),
        source_tokens=source.source_tokens,
        language="zh",
        max_tokens=70,
        open_before=source.open_before,
    )
    assert verdict.is_ok


@pytest.mark.parametrize(
    "turns",
    [
        (turn(1, "？"),),
        (turn(1, "", "x", is_failed=True),),
        (turn(7, ""), turn(8, "")),
        (turn(1, "a" * 5000),),
        (turn(1, "好"), turn(2, "嗯")),
    ],
)
@pytest.mark.parametrize("language", ["zh", "en"])
def test_extractive_node_of_hardly_anything_is_not_empty(
    turns: tuple[SummaryTurn, ...], language: Language
) -> None:
    node = extractive_node(source=NodeSource(turns=turns), language=language, max_tokens=30)
    text = render(node, language=language, max_tokens=30)
    assert any(letter.isalnum() for letter in text)
    assert text == rendered_whole(node, language=language)


def test_extractive_node_of_a_giant_message_ends_187() -> None:
    """187: bounded, and it terminates."""
    giant = NodeSource(
        turns=(turn(1, "这一段很长，没有句号，" * 20_000), turn(2, "文件.a" * 50_000))
    )
    node = extractive_node(source=giant, language="zh", max_tokens=600)
    assert 0 < estimate(render(node, language="zh", max_tokens=600)) <= 600


said = st.lists(
    st.one_of(
        st.sampled_from([t.user_text for s, _ in SOURCES for t in s.turns]),
        st.text(max_size=60),
    ),
    max_size=3,
).map("".join)
turn_sources = st.lists(
    st.builds(
        SummaryTurn,
        seq=st.integers(1, 99),
        user_text=said,
        assistant_text=said,
        at=st.sampled_from([None, START]),
        is_failed=st.booleans(),
    ),
    min_size=1,
    max_size=8,
).map(lambda turns: NodeSource(turns=tuple(turns)))
node_sources = st.lists(contents, min_size=1, max_size=4).map(
    lambda made: NodeSource(children=tuple(child(c, day) for day, c in enumerate(made)))
)


@pytest.mark.req("A08")
@settings(deadline=None, max_examples=100)
@given(
    source=st.one_of(turn_sources, node_sources),
    language=languages,
    max_tokens=st.integers(24, 300),
)
def test_extractive_node_of_anything_is_shorter_than_its_source_and_not_empty(
    source: NodeSource, language: Language, max_tokens: int
) -> None:
    """188, K3: always converges."""
    node = extractive_node(source=source, language=language, max_tokens=max_tokens)
    text = rendered_whole(node, language=language)
    assert text.strip()
    assert estimate(text) <= max_tokens
    if source.source_tokens > 60:
        assert estimate(text) < source.source_tokens
    again = extractive_node(source=source, language=language, max_tokens=max_tokens)
    assert node == again


def test_forest_without_a_model_shrinks_at_every_level_and_keeps_its_open_items() -> None:
    """Level 0 to 3 by fours: the root is within its cap and still names what is open."""
    level: list[NodeContent] = []
    for number in range(64):
        turns = tuple(
            turn(
                seq,
                f"第{seq}次讨论方案{number}的预算，大约{seq * 137}元，细节另议。",
                "好的，已了解。",
            )
            for seq in range(1, 9)
        )
        if number % 16 == 0:
            turns = (*turns, turn(9, f"待办：给{number}号客户寄样品。"))
        node = extractive_node(source=NodeSource(turns=turns), language="zh", max_tokens=150)
        level.append(node)
    while len(level) > 1:
        level = [
            extractive_node(
                source=NodeSource(children=tuple(child(c) for c in level[at : at + 4])),
                language="zh",
                max_tokens=150,
            )
            for at in range(0, len(level), 4)
        ]
    (root,) = level
    assert estimate(rendered_whole(root, language="zh")) <= 150
    assert len(root.open_items) == 4
    assert root.timeline
