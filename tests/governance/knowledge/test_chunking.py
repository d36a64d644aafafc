"""Chunks: they cover the text, none is too long, they stand where they say, sections are known."""

from __future__ import annotations

from itertools import pairwise

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from governance.knowledge.chunking import MOST_TOKENS, Chunk, chunks
from governance.knowledge.headings import MOST_PATH_CHARACTERS, sections
from memory.tokens import estimate

PIECES = st.sampled_from(
    [
        "# 标题\n", "## Part two\n", "第三章 图论\n", "3.1 Trees\n", "Title\n===\n", "```\n# no\n```\n",
        "数据结构的试卷共八道大题，图论占三成。", "The exam takes ninety minutes. ", "Is it? ", "\n",
        "\n\n", "- item\n", "无标点" * 70, "word " * 90, "x" * 700, "😀" * 90, "e\u0301" * 50, "a,b," * 80,
        " ", "\t", "……", "。", "\u2028", "\r", "1234567890" * 30, "\u200d", "🏽",
    ]
)  # fmt: skip


def check(text: str, found: list[Chunk]) -> None:
    covered: set[int] = set()
    for place, chunk in enumerate(found):
        assert chunk.position == place
        assert chunk.content == text[chunk.start : chunk.end]
        assert chunk.content == chunk.content.strip() != ""
        assert estimate(chunk.content) <= MOST_TOKENS
        assert len(chunk.heading) <= MOST_PATH_CHARACTERS
        covered.update(range(chunk.start, chunk.end))
    for before, after in pairwise(found):
        assert before.start < after.start
        assert before.end < after.end
    assert all(not letter.strip() for at, letter in enumerate(text) if at not in covered)


@settings(max_examples=300, deadline=None)
@given(st.lists(PIECES, max_size=25).map("".join))
@example("a" * 481 + "\u0301" * 200)
@example(
    "# 标题\n# 标题\n# 标题\n数据结构的试卷共八道大题，图论占三成。"
    + "1234567890" * 30
    + "# 标题\n```\n# no\n```\n"
)
def test_chunks_cover_the_text_in_order_and_none_is_too_long(text: str) -> None:
    check(text, chunks(text))


@settings(max_examples=150, deadline=None)
@given(st.text(max_size=800))
def test_chunks_of_any_text_hold_the_same(text: str) -> None:
    check(text, chunks(text))


@settings(max_examples=150, deadline=None)
@given(st.lists(PIECES, max_size=12).map("".join))
def test_sections_are_all_of_the_text(text: str) -> None:
    found = sections(text)
    assert "".join(text[section.start : section.end] for section in found) == text


def test_empty_text_has_no_chunks() -> None:
    assert chunks("") == chunks(" \n\n\t") == []


@pytest.mark.parametrize(
    ("sentence", "first", "middle", "last"),
    [
        (
            "The committee met again and talked about the usual matters at length. ",
            "Opening word: aardvark. ",
            "Halfway the budget was fixed at 81,370 crowns. ",
            "It closed with a zebra.",
        ),
        (
            "委员会又开了一次例会，照例讨论了各项日常事务。",
            "开头提到了食蚁兽。",
            "中间把预算定为八万一千三百七十元。",
            "结尾提到了斑马。",
        ),
    ],
)
def test_bug_a5_first_middle_and_last_sentence_of_a_long_document_each_have_their_chunk(
    sentence: str, first: str, middle: str, last: str
) -> None:
    half = sentence * (31_500 // estimate(sentence))
    text = first + half + middle + half + last
    assert estimate(text) > 60_000
    found = chunks(text)
    check(text, found)
    for said in (first, middle, last):
        assert any(said.strip() in chunk.content for chunk in found)
    sizes = [estimate(chunk.content) for chunk in found[:-1]]
    assert min(sizes) >= 60
    assert 80 <= sum(sizes) / len(sizes) <= MOST_TOKENS


def test_headings_lead_to_their_chunks() -> None:
    body = "这一节说的是评分办法，满分一百分，六十分及格。请各位老师按照附表打分。"
    text = f"# 手册\n\n{body}\n\n## 第一节\n\n{body}\n\n### 细则\n\n{body}\n\n## 第二节\n\n{body}\n"
    assert [chunk.heading for chunk in chunks(text)] == [
        "手册",
        "手册 > 第一节",
        "手册 > 第一节 > 细则",
        "手册 > 第二节",
    ]


@pytest.mark.parametrize(
    ("line", "is_heading"),
    [
        ("第三章 图论", True),
        ("第三章里我们讨论了图论。", False),
        ("Chapter 4 Graphs", True),
        ("Chapter 4 deals with graphs.", False),
        ("3.1 评分标准", True),
        ("3.5 million people came to the city to see what had been built there over years", False),
        ("#hashtag", False),
        ("    # indented code", False),
        ("###### Six ######", True),
        ("####### seven", False),
    ],
)
def test_lines_that_are_headings_and_lines_that_are_not(line: str, is_heading: bool) -> None:
    found = sections(f"intro\n\n{line}\nbody\n")
    assert (len(found) == 2) is is_heading


def test_hashes_inside_code_are_no_headings() -> None:
    assert len(sections("# a\n\n```sh\n# not one\n```\ntext")) == 1


def test_underlined_titles_are_headings_and_rules_are_not() -> None:
    assert [section.path for section in sections("One\n===\nx\n\nTwo\n---\ny\n")] == [
        "One",
        "One > Two",
    ]
    assert len(sections("x\n\n---\n\ny\n")) == 1


def test_short_sections_share_a_chunk_under_what_they_have_in_common() -> None:
    text = "# FAQ\n" + "".join(f"## Q{number}\nYes.\n" for number in range(40))
    found = chunks(text)
    assert len(found) < 20
    assert {chunk.heading for chunk in found[:-1]} == {"FAQ"}


def test_last_short_sentence_is_repeated_within_its_paragraph() -> None:
    sentences = [f"这是第{number}句话，说明一件很平常的事情。" for number in range(20)]
    first, second, *_ = chunks("".join(sentences))
    repeated = first.content.split("。")[-2] + "。"
    assert second.content.startswith(repeated)
    assert second.start == first.end - len(repeated)


def test_deep_headings_keep_the_innermost_titles_of_a_path() -> None:
    text = "".join(f"{'#' * level} {'很长的标题' * 16}{level}\nbody\n" for level in range(1, 7))
    shown = sections(text)[-1].path
    assert len(shown) <= MOST_PATH_CHARACTERS
    assert shown.endswith("很长的标题" * 16)


def test_little_that_is_left_shares_with_the_chunk_before_it() -> None:
    text = "数据结构的试卷共八道大题，图论占三成。" * 7 + "最后一句。"
    found = chunks(text)
    check(text, found)
    assert min(estimate(chunk.content) for chunk in found) > 40
    assert found[-1].content.endswith("最后一句。")
