"""Rolling summaries: the prompt, the check of the answer, and the summary without a model."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from memory.compression.summary import (
    SummaryTurn,
    check_summary,
    extractive_summary,
    summary_messages,
)
from memory.language import Language
from memory.tokens import estimate

START = datetime(2026, 6, 12, 9, 30, tzinfo=UTC)


def _turn(seq: int, user: str, assistant: str = "", *, is_failed: bool = False) -> SummaryTurn:
    return SummaryTurn(
        seq=seq,
        user_text=user,
        assistant_text=assistant,
        at=START + timedelta(days=seq),
        is_failed=is_failed,
    )


CHINESE = [
    _turn(
        1,
        "出一份数据结构期末试卷，满分100分，6月20日考试。",
        "好的。\n\n已出好，文件是《期末卷A》。",
    ),
    _turn(2, "嗯", "还有别的要改吗？"),
    _turn(3, "简答题换两道，难度降低。", "HTTP 500 Traceback", is_failed=True),
    _turn(4, "决定用开卷形式，截止日期6月15日。", "已记录，改为开卷。"),
]
ENGLISH = [
    _turn(1, "Our staging database runs out of connections every night at 02:00.", "I see."),
    _turn(2, "ok", "Anything else?"),
    _turn(3, "We agreed to raise the pool to 40 and ship it on Friday.", "Noted: pool 40, Friday."),
]


@pytest.mark.req("A16")
@pytest.mark.parametrize(
    ("language", "words"),
    [
        (
            "zh",
            [
                "身份证",
                "成绩",
                "健康",
                "(涉及学生成绩，略)",
                "不是给你的指令",
                "待办",
                "用中文写",
                "600",
            ],
        ),
        (
            "en",
            [
                "identity",
                "grades",
                "health",
                "(grades omitted)",
                "not instructions",
                "Open:",
                "450",
            ],
        ),
    ],
)
def test_summary_prompt_states_task_red_line_language_and_open_items(
    language: Language, words: list[str]
) -> None:
    system_text, _ = summary_messages(previous="", turns=CHINESE, language=language, max_tokens=600)
    assert system_text.split("\n")[0] == "Task: summarize"
    assert [word for word in words if word not in system_text] == []


def test_summary_prompt_holds_previous_and_dated_turns_in_order() -> None:
    _, user_text = summary_messages(
        previous="- 2026-06-01 待办：订教室", turns=CHINESE, language="zh", max_tokens=600
    )
    parts = [
        "待办：订教室",
        "[2026-06-13 09:30 第 1 轮]",
        "用户：出一份",
        "《期末卷A》",
        "第 4 轮",
        "用户：决定",
    ]
    places = [user_text.index(part) for part in parts]
    assert places == sorted(places)
    assert "好的。\n已出好" in user_text


@pytest.mark.req("A11")
def test_summary_prompt_of_a_failed_turn_has_the_placeholder_and_no_output() -> None:
    _, user_text = summary_messages(previous="", turns=CHINESE, language="zh", max_tokens=600)
    assert "助手：（该轮未成功完成，已跳过）" in user_text
    assert "Traceback" not in user_text


def test_summary_prompt_of_format_strings_keeps_them_literal() -> None:
    hostile = "{n} {seq} {0.__class__} %s"
    _, user_text = summary_messages(
        previous=hostile, turns=[_turn(1, hostile, hostile)], language="en", max_tokens=600
    )
    assert user_text.count(hostile) == 3


@pytest.mark.parametrize(
    ("text", "language", "reason"),
    [
        ("- 2026-06-13 用户要一份数据结构试卷", "zh", ""),
        ("- 2026-06-13 the user wants the pool at 40", "en", ""),
        ("- 2026-06-13 Bo said sorry, he can't come", "en", ""),
        ("- 2026-06-13 用户说抱歉，周五无法出席", "zh", ""),
        ("- 2026-06-13 пользователь просит отчёт", "en", ""),
        ("", "zh", "empty"),
        (" \n- … \n", "en", "empty"),
        ("抱歉，我无法总结这段对话。", "zh", "refusal"),
        ("我不能提供这份内容的摘要", "zh", "refusal"),
        ("作为一个AI，我没有记忆", "zh", "refusal"),
        ("I'm sorry, but I can't help with that.", "en", "refusal"),
        ("I cannot summarize this conversation", "en", "refusal"),
        ("As an AI language model, I have no memory", "en", "refusal"),
        ("- 2026-06-13 the user wants an exam paper", "zh", "wrong_language"),
        ("- 2026-06-13 用户要一份数据结构试卷", "en", "wrong_language"),
        ("- 2026-06-13 ユーザーは試験を作りたいです", "zh", "wrong_language"),
        ("Task: summarize\n- 2026-06-13 done", "en", "echo"),
        ("你在维护一段长对话的滚动摘要。用户消息里有“已有摘要”", "zh", "echo"),
        ("1. Output the summary alone: plain text, one point a line", "en", "echo"),
        ("- 2026-06-13 " + "说了很多话" * 100, "zh", "not_shorter"),
        ("- 2026-06-13 " + "说了很多话" * 20, "zh", "too_long"),
    ],
)
def test_check_summary_of_an_answer_names_the_first_fault(
    text: str, language: Language, reason: str
) -> None:
    """Bug reports D4 and K3, attack cases 184 and 188."""
    verdict = check_summary(text=text, source_tokens=300, language=language, max_tokens=60)
    assert verdict.reason == reason
    assert verdict.is_ok == (not reason)


def test_check_summary_as_long_as_its_source_is_refused() -> None:
    text = "- 2026-06-13 用户要试卷"
    tokens = estimate(text)
    assert not check_summary(text=text, source_tokens=tokens, language="zh", max_tokens=600).is_ok
    assert check_summary(text=text, source_tokens=tokens + 1, language="zh", max_tokens=600).is_ok


def test_extractive_summary_in_chinese_keeps_dates_decisions_and_open_items() -> None:
    summary = extractive_summary(
        previous="- 2026-06-01 待办：订教室\n- 2026-06-02 用户：随便聊聊天气",
        turns=CHINESE,
        language="zh",
        max_tokens=110,
    )
    lines = summary.split("\n")
    assert "- 2026-06-01 待办：订教室" in lines
    assert "- 2026-06-16 用户：决定用开卷形式，截止日期6月15日。" in lines
    assert "Traceback" not in summary
    assert lines == sorted(lines, key=lambda line: line[:12])


def test_extractive_summary_in_english_prefers_what_tells_most() -> None:
    summary = extractive_summary(previous="", turns=ENGLISH, language="en", max_tokens=40)
    assert "pool to 40" in summary
    assert "- 2026-06-15 User: We agreed" in summary
    assert "ok" not in summary.split()


def test_extractive_summary_of_turns_that_say_the_same_keeps_one() -> None:
    turns = [_turn(seq, "每周五下午三点开周会。", "好") for seq in range(1, 9)]
    summary = extractive_summary(previous="", turns=turns, language="zh", max_tokens=600)
    assert summary.count("周会") == 1
    other = [_turn(1, "第 3 版改好了，发给教务。"), _turn(2, "第 4 版改好了，发给教务。")]
    both = extractive_summary(previous="", turns=other, language="zh", max_tokens=600)
    assert "第 3 版" in both
    assert "第 4 版" in both


@pytest.mark.parametrize(
    "turns",
    [
        [_turn(1, "？")],
        [_turn(1, "", "x", is_failed=True)],
        [_turn(7, "", "")],
        [_turn(1, "a" * 5000)],
    ],
)
@pytest.mark.parametrize("language", ["zh", "en"])
def test_extractive_summary_of_hardly_anything_is_not_empty(
    turns: list[SummaryTurn], language: Language
) -> None:
    summary = extractive_summary(previous="", turns=turns, language=language, max_tokens=30)
    assert summary.strip()
    assert estimate(summary) <= 30


def test_extractive_summary_of_nothing_is_nothing() -> None:
    assert extractive_summary(previous="", turns=[], language="zh", max_tokens=600) == ""


sentences = st.one_of(
    st.sampled_from([turn.user_text for turn in CHINESE + ENGLISH]),
    st.sampled_from([turn.assistant_text for turn in CHINESE + ENGLISH]),
    st.text(max_size=60),
)
some_turns = st.lists(
    st.builds(
        SummaryTurn,
        seq=st.integers(1, 99),
        user_text=st.lists(sentences, max_size=3).map("".join),
        assistant_text=sentences,
        at=st.sampled_from([None, START]),
        is_failed=st.booleans(),
    ),
    min_size=1,
    max_size=8,
)


@pytest.mark.req("A08")
@settings(deadline=None, max_examples=100)
@given(
    previous=st.one_of(st.just(""), sentences),
    turns=some_turns,
    language=st.sampled_from(["zh", "en"]),
    max_tokens=st.integers(1, 200),
)
def test_extractive_summary_of_anything_fits_and_is_the_same_each_time(
    previous: str, turns: list[SummaryTurn], language: Language, max_tokens: int
) -> None:
    def summarise() -> str:
        return extractive_summary(
            previous=previous, turns=turns, language=language, max_tokens=max_tokens
        )

    summary = summarise()
    assert estimate(summary) <= max_tokens
    assert summary == summarise()
    if max_tokens >= 20:
        assert summary
