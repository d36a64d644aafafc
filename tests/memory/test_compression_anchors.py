"""Anchors: what counts as telling, whether a text holds it, and the excerpts that keep it."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from memory.compression.anchors import MAX_ANCHORS, anchor_lines, anchors_of, held_by
from memory.compression.extractive import extractive_summary
from memory.compression.turns import SummaryTurn
from memory.language import Language
from memory.tokens import estimate

pytestmark = pytest.mark.req("B09")


def _shown(text: str) -> list[tuple[str, str]]:
    return [(anchor.kind, anchor.text) for anchor in anchors_of(text)]


@pytest.mark.parametrize(
    ("text", "wanted"),
    [
        ("截止2026-01-02。", [("date", "2026-01-02")]),
        ("截止2026-01-02T10:00:00Z。", [("date", "2026-01-02")]),
        ("会议定于2026年1月2日。", [("date", "2026年1月2日")]),
        ("会议定于 1 月 2 日。", [("date", "1 月 2 日")]),
        ("due Jan 2 2026 or March 3rd", [("date", "Jan 2 2026"), ("date", "March 3rd")]),
        ("on 5 May 2026; may 12 people come", [("date", "5 May 2026")]),
        ("on 3/14 at 14:30", [("date", "3/14"), ("date", "14:30")]),
        ("预算¥300，押金300元", [("amount", "¥300"), ("amount", "300元")]),
        (
            "from $1,200.50 up 12% or 3.5万",
            [("amount", "$1,200.50"), ("amount", "12%"), ("amount", "3.5万")],
        ),
        ("预算３００元", [("amount", "３００元")]),
        ("共 12345 次，系数 0.75", [("number", "12345"), ("number", "0.75")]),
        (
            "it was 12,345 then 100,2000",
            [("number", "12,345"), ("number", "100"), ("number", "2000")],
        ),
        ("合同HT-2024-001号", [("identifier", "HT-2024-001")]),
        ("用gpt4o跑main.py", [("identifier", "gpt4o"), ("identifier", "main.py")]),
        ("请看报告.pdf和末卷A.docx", [("identifier", "报告.pdf"), ("identifier", "末卷A.docx")]),
        ("电话138-0013-8000", [("identifier", "138-0013-8000")]),
        ("他说“你好世界”，见《期末卷A》", [("quoted", "“你好世界”"), ("quoted", "《期末卷A》")]),
        ("the \"blue whale\" and 'red fox'", [("quoted", '"blue whale"'), ("quoted", "'red fox'")]),
        ("见「合同 AB-1234」", [("quoted", "「合同 AB-1234」"), ("identifier", "AB-1234")]),
    ],
)
def test_anchors_of_a_telling_text_are_found_as_they_stand(
    text: str, wanted: list[tuple[str, str]]
) -> None:
    assert _shown(text) == wanted


@pytest.mark.parametrize(
    "text",
    [
        "1. 买菜 2. 吃饭 3) 睡觉",
        "第3章有5个人",
        "the 1st and 20th of 12",
        "写信给 bob1234@example.com，见 https://example.com/2024/1234?x=9999",
        "don't say it can't be the users' data or the others' either",
        "ok 好",
        "",
    ],
)
def test_anchors_of_small_numbers_lists_links_and_apostrophes_are_none(text: str) -> None:
    assert _shown(text) == []


@pytest.mark.parametrize(
    ("wanted", "text", "is_held"),
    [
        ("300元", "预算 300 元", True),
        ("３００元", "预算300元整", True),
        ("编号300", "共1300个", False),
        ("编号300", "共300.5个", False),
        ("编号300", "共1,300个", False),
        ("编号300", "结果是300.", True),
        ("编号300", "先是100，300，500", True),
        ("1月2日", "定在2026年1月2日", True),
        ("1月2日", "定在11月2日", False),
        ("order AB12", "order ab12 came", True),
        ("order AB12", "order XAB12 came", False),
        ("order AB12", "订单AB12到了", True),
        ("《期末卷A》", "文件“期末卷a”", True),
        ("Jan 2, 2026", "jan  2,\n2026", True),
    ],
)
def test_held_by_a_text_compares_folded_and_never_inside_a_longer_number(
    wanted: str, text: str, is_held: bool
) -> None:
    anchors = anchors_of(wanted)
    assert len(anchors) == 1
    assert bool(held_by(anchors, text)) == is_held


def test_anchors_of_very_many_numbers_are_bounded() -> None:
    assert len(anchors_of(" ".join(str(n) for n in range(1000, 9000)))) == MAX_ANCHORS


PIECES = st.one_of(
    st.sampled_from(
        [
            "2026-01-02",
            "2026年1月2日",
            "Jan 2 2026",
            "3/14",
            "¥300",
            "300 元",
            "$1,200.50",
            "12%",
            "HT-2024-001",
            "main.py",
            "报告.pdf",
            "“你好”",
            "《卷A》",
            '"a b"',
            "'c d'",
            "，",
            ",",
            ".",
            " ",
            "\n",
            "中",
            "号",
            "x",
            "don't",
            "1. ",
            "３",
            "½",
            "²",
            "e\u0301",
            "\ud800",
            "://",
            "@",
        ]
    ),
    st.integers(0, 99999).map(str),
    st.text(max_size=6),
)
TEXTS = st.lists(PIECES, max_size=14).map("".join)


@settings(deadline=None, max_examples=400)
@given(text=TEXTS)
def test_anchors_of_any_text_are_held_by_it_and_found_again_in_themselves(text: str) -> None:
    anchors = anchors_of(text)
    assert held_by(anchors, text) == anchors
    for anchor in anchors:
        assert anchor.text in text
        again = [(found.kind, found.folded) for found in anchors_of(anchor.text)]
        assert (anchor.kind, anchor.folded) in again


@settings(deadline=None, max_examples=200)
@given(
    request_text=TEXTS,
    texts=st.lists(st.tuples(st.sampled_from(["第1轮", "turn 2"]), TEXTS), max_size=4),
    max_tokens=st.integers(0, 120),
    language=st.sampled_from(["zh", "en"]),
)
def test_anchor_lines_of_anything_fit_and_tell_nothing_new(
    request_text: str, texts: list[tuple[str, str]], max_tokens: int, language: Language
) -> None:
    anchors = anchors_of(request_text)
    lines = anchor_lines(anchors=anchors, texts=texts, max_tokens=max_tokens, language=language)
    assert lines == anchor_lines(
        anchors=anchors, texts=texts, max_tokens=max_tokens, language=language
    )
    assert not lines or estimate(lines) <= max_tokens
    assert len(set(lines.split("\n"))) == len(lines.split("\n"))


CHINESE = [
    (
        "第1轮",
        "我们先谈了别的。\n合同 HT-2024-001 的金额为¥1,200，另有订金 300 元整，已经付清并且入账。",
    ),
    ("第2轮", "在11月2日谈过，然后在1月2日把文件“期末卷A”交给了教务处存档备查，别的以后再说吧。"),
]
ENGLISH = [
    ("turn 1", "We talked about the weather, and then about order AB-1234 for $1,200.50 in total."),
    ("turn 2", "It arrives on Jan 2 2026 unless the carrier is late again as it was last year."),
]


@pytest.mark.parametrize(
    ("request_text", "texts", "language", "labels"),
    [
        (
            "合同HT-2024-001、¥1,200、300元、1月2日、《期末卷A》",
            CHINESE,
            "zh",
            ["第1轮：", "第2轮："],
        ),
        ("AB-1234 for $1,200.50 by Jan 2 2026?", ENGLISH, "en", ["turn 1: ", "turn 2: "]),
    ],
)
def test_anchor_lines_with_room_hold_every_anchor_the_texts_hold(
    request_text: str, texts: list[tuple[str, str]], language: Language, labels: list[str]
) -> None:
    anchors = anchors_of(request_text)
    lines = anchor_lines(anchors=anchors, texts=texts, max_tokens=150, language=language)
    assert held_by(anchors, lines) == anchors
    assert [label for label in labels if label not in lines] == []
    assert "先谈了别的" not in lines
    most = estimate(lines) - 1
    tight = anchor_lines(anchors=anchors, texts=texts, max_tokens=most, language=language)
    assert held_by(anchors, tight)
    assert len(tight) < len(lines)


def test_anchor_lines_of_a_cut_never_cut_through_a_number() -> None:
    text = "1234567890123456789012345 300元 9876543210987654321098765"
    lines = anchor_lines(
        anchors=anchors_of("300元"), texts=[("x", text)], max_tokens=50, language="en"
    )
    assert lines == "- x: …300元…"


@pytest.mark.parametrize(
    ("request_text", "dull", "telling", "language"),
    [
        (
            "合同HT-2024-001？",
            "顺便说一句合同HT-2024-001已经放在桌上。",
            "我们决定改用《新方案》，截止6月15日。",
            "zh",
        ),
        (
            "AB-1234?",
            "By the way the box AB-1234 is on my table.",
            "We agreed that Bob must ship Apollo before the deadline of 15 June.",
            "en",
        ),
    ],
)
def test_extractive_summary_with_pinned_anchors_puts_what_holds_them_first(
    request_text: str, dull: str, telling: str, language: Language
) -> None:
    turns = [
        SummaryTurn(seq=1, user_text=telling, assistant_text="", at=None),
        SummaryTurn(seq=2, user_text=dull, assistant_text="", at=None),
    ]
    anchors = anchors_of(request_text)
    room = max(estimate(dull), estimate(telling)) + 8

    def summarise(*, is_pinned: bool) -> str:
        return extractive_summary(
            previous="",
            turns=turns,
            language=language,
            max_tokens=room,
            pinned=anchors if is_pinned else (),
        )

    assert dull not in summarise(is_pinned=False)
    assert dull in summarise(is_pinned=True)
    assert estimate(summarise(is_pinned=True)) <= room


def test_extractive_summary_with_many_anchors_in_one_turn_keeps_them_all() -> None:
    text = "\n".join(
        f"编号 AB-{n}00{n} 的箱子在仓库{word}。" for n, word in enumerate("东南西北中", 1)
    )
    summary = extractive_summary(
        previous="",
        turns=[SummaryTurn(seq=1, user_text=text, assistant_text="", at=None)],
        language="zh",
        max_tokens=400,
        pinned=anchors_of(text),
    )
    assert held_by(anchors_of(text), summary) == anchors_of(text)
