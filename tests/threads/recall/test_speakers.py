"""Who says a text, in both languages."""

from __future__ import annotations

import pytest

from threads.recall.speakers import speaker_in


@pytest.mark.parametrize(
    ("text", "name"),
    [
        ("Caroline: I went to a support group.", "Caroline"),
        ("Mary Ann Lee: hello", "Mary Ann Lee"),
        ("O'Brien: well", "O'Brien"),
        ("  Zoë:\nhi", "Zoë"),
        ("小王：我来晚了", "小王"),
        ("王小明: 我来晚了", "王小明"),
        ("小王:我来晚了", "小王"),
        ("さくら：おはよう", "さくら"),
    ],
)
def test_speaker_in_a_text_that_begins_with_a_name_is_the_name(text: str, name: str) -> None:
    assert speaker_in(text) == name


@pytest.mark.parametrize(
    "text",
    [
        "",
        "I went to a support group.",
        "User: hello",
        "ASSISTANT: hello",
        "用户：你好",
        "助手：你好",
        "Note: buy milk",
        "问题：怎么办",
        "One Two Three Four: too many words",
        "一二三四五六七：太长",
        "lower: case is a key of a file",
        "Http://example.org",
        "C:\\temp",
        "12:30 is fine",
        "He said: no",
        "Name :spaced",
    ],
)
def test_speaker_in_a_text_without_a_name_is_nobody(text: str) -> None:
    assert speaker_in(text) is None
