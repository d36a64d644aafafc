"""Open items in summaries: which lines they are, and whether a new text lost one of them."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from memory.compression.extractive import extractive_summary
from memory.compression.open_items import (
    are_open_lines_lost,
    cut_before_open_lines,
    open_lines,
    still_open,
)
from memory.compression.turns import SummaryTurn
from memory.tokens import estimate


@pytest.mark.parametrize(
    ("summary", "items"),
    [
        ("", ()),
        ("2026-06-01 出卷\n待办：补答案", ("待办：补答案",)),
        (" - 待办: 补答案\n• Open: call Bob\n* open : pay", ("待办: 补答案", "Open: call Bob", "open : pay")),
        ("- 2026-06-01 待办：订教室\n[2026-06-02] Open: x", ("待办：订教室", "Open: x")),
        ("**Open:** call Bob", ("Open:** call Bob",)),
        ("Open:\n- call Bob\n\n- pay\nsold", ("call Bob", "pay")),
        ("待办事项：\n- 订教室\n- 2026-06-02 换题\n- 交稿", ("订教室",)),
        ("待办：无\nOpen: none.\nOpen:", ()),
        ("讨论待办：很多\nOpening: 9\nThe shop is open: yes", ()),
    ],
)  # fmt: skip
def test_open_lines_of_a_summary_name_themselves_at_their_head(
    summary: str, items: tuple[str, ...]
) -> None:
    assert open_lines(summary) == items


@pytest.mark.parametrize(
    ("before", "summary", "is_lost"),
    [
        ("待办：补第三题答案", "待办：第三题的答案还要补", False),
        ("待办：补第三题答案", "- 2026-06-12 换题。待办：补第三题答案。", False),
        ("待办：补第三题答案", "待办：补第四题答案", True),
        ("待办：补第三题答案", "2026-06-12 谈到补第三题答案", True),
        ("待办：补第三题答案", "2026-06-12 第三题答案已补。待办：无", False),
        ("待办：补答案；订教室；发试卷；付定金", "待办：补答案；订教室；发试卷", True),
        ("待办：补答案；订教室", "待办事项：\n- 订教室\n- 补答案", False),
        ("Open: book room 12", "Open:\n- room 12 to be booked", False),
        ("Open: book room 12", "Open: book room 13", True),
        ("Open: book room 12", "2026-06-12 Room 12 was booked.", False),
        ("待办：补第3题答案", "Open: write the answer of question 3", False),
        ("待办：补第3题答案", "Open: write the answer of question 4", True),
        ("Open: email Bob", "待办：补答案", False),
        ("Open: email Bob\n待办：补答案", "待办：补答案", True),
        ("Open: email Bob", "2026-06-12 无", True),
        ("", "2026-06-12 无", False),
    ],
)
def test_open_line_is_lost_unless_it_is_open_still_or_named_as_done(
    before: str, summary: str, *, is_lost: bool
) -> None:
    """Wording may change; numbers may not. Of a translated item only the numbers are compared."""
    assert are_open_lines_lost(open_before=open_lines(before), summary=summary) == is_lost


@pytest.mark.parametrize(
    ("item", "said", "is_done"),
    [
        ("待办：给教务处发最终稿", "最终稿已经发给教务处了，请查收。", True),
        ("待办：给教务处发最终稿", "最终稿要在周五前完成，再发给教务处。", False),
        ("待办：给教务处发最终稿", "最终稿还没发给教务处。", False),
        ("待办：给教务处发最终稿", "最终稿已经发给教务处了吗？", False),
        ("待办：付 3850 元定金", "定金 3850 元已付", True),
        ("待办：付 3850 元定金", "定金 2000 元已付", False),
        ("Open: book room 12", "Room 12 is booked, please tell Bob.", True),
        ("Open: book room 12", "Room 12 isn't booked.", False),
        ("Open: book room 12", "Is room 12 booked?", False),
        ("Open: book room 12", "Room 12 will be booked.", False),
        ("Open: book room 12; call Bob", "Room 12 is booked.", False),
    ],
)
def test_item_is_open_still_unless_the_new_turns_say_that_it_is_done(
    item: str, said: str, *, is_done: bool
) -> None:
    user = SummaryTurn(seq=1, user_text=said, assistant_text="", at=None)
    failed = SummaryTurn(seq=2, user_text="", assistant_text=said, at=None, is_failed=True)
    assert still_open(previous=item, turns=[user]) == (() if is_done else (item,))
    assert still_open(previous=item, turns=[failed]) == (item,)


@pytest.mark.parametrize("heads", [("待办：", "第{}题的解析"), ("Open: ", "explain question {}")])
def test_extractive_summary_keeps_the_open_lines_before_all_else(heads: tuple[str, str]) -> None:
    items = [heads[0] + heads[1].format(number) for number in range(3, 6)]
    previous = "\n".join(["- 2026-06-01 决定 ABC 合同 99 万元，必须周五完成。", *items])
    said = "我们决定采用 ABC 方案，截止 6 月 12 日，必须完成《期末卷》。"
    turns = [SummaryTurn(seq=n, user_text=said * n, assistant_text=said, at=None) for n in (1, 2)]
    summary = extractive_summary(previous=previous, turns=turns, language="zh", max_tokens=60)
    assert [item for item in items if item not in summary] == []


@settings(deadline=None, max_examples=60)
@given(
    lines=st.lists(
        st.one_of(
            st.text(max_size=60),
            st.sampled_from(["待办：补答案", "- Open: call Bob", "Open:", "- x", "决定换题。" * 9]),
        ),
        max_size=9,
    ),
    max_tokens=st.integers(1, 80),
)
def test_cutting_of_anything_fits_and_loses_no_open_line_that_has_room(
    lines: list[str], max_tokens: int
) -> None:
    text = "\n".join(lines)
    cut = cut_before_open_lines(text, max_tokens=max_tokens)
    assert estimate(cut) <= max_tokens
    needed = 2 * sum(estimate(line) + 2 for line in text.splitlines() if len(line) < 20)
    if needed < max_tokens:
        assert [item for item in open_lines(text) if item not in cut] == []
