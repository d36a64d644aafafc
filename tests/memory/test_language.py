"""Which language a prompt is spoken in."""

from __future__ import annotations

import pytest

from memory.language import dominant_language, resolve


@pytest.mark.parametrize(
    ("text", "language"),
    [
        ("出一份数据结构试卷", "zh"),
        ("請出一份資料結構試卷", "zh"),
        ("帮我写一个 Python function for parsing JSON", "zh"),
        ("把这个改成 async：```def f(): return some long piece of code in english words```", "zh"),
        ("看看 https://example.com/a/very/long/english/path/with/words 这个链接", "zh"),
        ("Please draft an exam paper", "en"),
        ("What does 数据 mean in this table?", "en"),
        ("データ構造の試験を作ってください", "other"),
        ("자료구조 시험을 만들어 주세요", "other"),
        ("Составь экзамен по структурам данных", "other"),
        ("สวัสดีครับ", "other"),
        ("12345 + 67", "other"),
        ("", "other"),
    ],
)
def test_dominant_language_of_text_is_the_one_most_of_it_is_in(text: str, language: str) -> None:
    assert dominant_language(text) == language


@pytest.mark.req("A09")
@pytest.mark.parametrize(
    ("agent", "request_text", "language"),
    [
        ("zh", "Hello there", "zh"),
        ("en", "你好", "en"),
        ("auto", "你好", "zh"),
        ("auto", "Hello there", "en"),
        ("auto", "こんにちは", "en"),
        ("auto", "", "en"),
    ],
)
def test_resolve_of_agent_and_request_takes_the_agents_unless_auto(
    agent: str, request_text: str, language: str
) -> None:
    assert resolve(agent, request_text) == language
