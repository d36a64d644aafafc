"""Sources and contents of summary nodes, in Chinese and English, and strategies for any of them."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

from hypothesis import strategies as st

from memory.compression.nodes import (
    NodeChild,
    NodeContent,
    NodeSource,
    TimelineEntry,
)
from memory.compression.turns import SummaryTurn
from memory.language import Language

START = datetime(2026, 6, 12, 9, 30, tzinfo=UTC)


def turn(seq: int, user: str, assistant: str = "", *, is_failed: bool = False) -> SummaryTurn:
    return SummaryTurn(
        seq=seq,
        user_text=user,
        assistant_text=assistant,
        at=START + timedelta(days=seq),
        is_failed=is_failed,
    )


CHINESE = NodeSource(
    turns=(
        turn(1, "出一份数据结构期末试卷，考试在六月二十日。", "好的，已出好，文件是期末卷.docx。"),
        turn(2, "嗯", "还有别的要改吗？"),
        turn(3, "简答题换两道，难度降低。", "HTTP 500 Traceback secret.py", is_failed=True),
        turn(4, "决定用开卷形式，截止日期6月15日。", "已记录，改为开卷。"),
        turn(5, "待办：给教务处发最终稿。", "记下了，发之前再核对一遍 exam/final.tex。"),
        turn(
            6, "好，今天先这样吧，下周再继续聊，谢谢你帮忙。", "不客气，随时可以再来找我，下周见。"
        ),
    )
)
ENGLISH = NodeSource(
    turns=(
        turn(1, "Our staging database runs out of connections every night at 02:00.", "I see."),
        turn(2, "We agreed to raise the pool to 40 and ship it on Friday.", "Noted: pool 40."),
        turn(3, "The change sits in config/pool.yaml. Still open: who tells the team?", "OK."),
        turn(4, "Open: write the postmortem.", "I will remind you of it."),
        turn(5, "Thanks, that was all for today, have a good evening.", "You too, see you soon."),
    )
)
SOURCES: list[tuple[NodeSource, Language]] = [(CHINESE, "zh"), (ENGLISH, "en")]
NODE = NodeContent(
    timeline=(
        TimelineEntry(date="2026-06-12", text="用户要一份数据结构期末试卷"),
        TimelineEntry(date="2026-06-13 – 2026-06-14", text="两次改了简答题"),
        TimelineEntry(date="", text="聊了天气"),
    ),
    decisions=("2026-06-15 改为开卷", "满分100分"),
    pitfalls=("排版在打印时错位",),
    files=("期末卷.docx", "exam/final.tex"),
    open_items=("给教务处发最终稿", "补第三题答案"),
)
EMPTY = NodeContent()


def child(content: NodeContent, day: int = 1) -> NodeChild:
    at = START + timedelta(days=day)
    return NodeChild(content=content, start_at=at, end_at=at + timedelta(days=2))


texts = st.one_of(
    st.sampled_from([*NODE.texts, "The pool is 40 now", "shipped on Friday, see a/b.py"]),
    st.text(max_size=80).map(lambda text: " ".join(text.split())).filter(bool),
)
dates = st.sampled_from(["", "2026-06-12", "2026-06-13", "2026-06-13 – 2026-07-01"])
text_lists = st.lists(texts, max_size=8).map(tuple)
contents = st.builds(
    NodeContent,
    timeline=st.lists(st.builds(TimelineEntry, date=dates, text=texts), max_size=8).map(tuple),
    decisions=text_lists,
    pitfalls=text_lists,
    files=text_lists,
    open_items=text_lists,
)
languages = st.sampled_from(["zh", "en"])
