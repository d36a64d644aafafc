"""Whether what a model wrote may be stored as a summary node."""

from __future__ import annotations

from typing import Any

import pytest

from memory.compression.nodes import (
    NodeContent,
    TimelineEntry,
    check_node,
    rendered_whole,
)
from memory.language import Language
from tests.node_samples import (
    EMPTY,
    NODE,
)


def check(content: NodeContent, **values: Any) -> str:
    given: dict[str, Any] = {
        "source_tokens": 1000,
        "language": "zh",
        "max_tokens": 600,
        "open_before": (),
    } | values
    return check_node(content, rendered_whole(content, language=given["language"]), **given).reason


@pytest.mark.parametrize(
    ("content", "values", "reason"),
    [
        (NODE, {}, ""),
        (EMPTY, {}, "empty"),
        (NodeContent(files=("a.py",)), {}, "empty"),
        (NodeContent(timeline=(TimelineEntry(date="", text="抱歉，我无法总结"),)), {}, "refusal"),
        (NodeContent(decisions=("I'm sorry, I can't",)), {"language": "en"}, "refusal"),
        (NodeContent(decisions=("we raised the pool",)), {}, "wrong_language"),
        (NodeContent(decisions=("改为开卷",)), {"language": "en"}, "wrong_language"),
        (NodeContent(decisions=("改为开卷",), files=("src/a/b/c.py",) * 9), {}, ""),
        (NODE, {"source_tokens": 60}, "not_shorter"),
        (NODE, {"max_tokens": 30}, "too_long"),
        (NodeContent(decisions=("你在为一段长对话写摘要节点。用户消息里是其中一段",)), {}, "echo"),
        (
            NodeContent(pitfalls=("1. Output one JSON object alone: no code fence",)),
            {"language": "en"},
            "echo",
        ),
        (NODE, {"open_before": ("补第三题答案", "给教务处发最终稿。")}, ""),
        (NODE, {"open_before": ("补第四题答案",)}, "lost_open_items"),
        (NODE, {"open_before": ("2026-06-10 给王老师打电话",)}, "lost_open_items"),
        (NODE, {"open_before": ("……",)}, ""),
    ],
)
def test_check_node_names_the_first_fault_d4_k3(
    content: NodeContent, values: dict[str, Any], reason: str
) -> None:
    """D4, K3, 184, 188."""
    assert check(content, **values) == reason


@pytest.mark.parametrize(
    ("language", "item", "line", "is_lost"),
    [
        ("zh", "给教务处发最终稿", "已把最终稿发给教务处", False),
        ("zh", "给教务处发最终稿", "谈到把最终稿发给教务处", True),
        ("zh", "付 3850 元定金", "3850 元定金已付", False),
        ("zh", "付 3850 元定金", "定金 2000 元已付", True),
        ("en", "Book the room for 12 people", "The room for 12 people was booked", False),
        ("en", "Book the room for 12 people", "The room for 20 people was booked", True),
        ("en", "write the postmortem", "they talked about the postmortem they write", True),
        ("en", "write the postmortem", "cancelled writing the postmortem", False),
    ],
)
def test_open_item_named_as_done_is_not_lost(
    language: Language, item: str, line: str, is_lost: bool
) -> None:
    content = NodeContent(timeline=(TimelineEntry(date="2026-06-20", text=line),))
    reason = check(content, language=language, open_before=(item,))
    assert (reason == "lost_open_items") == is_lost
    still = NodeContent(open_items=(line,))
    assert check(still, language=language, open_before=(item,)) in {"", "lost_open_items"}
