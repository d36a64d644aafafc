"""Who says a text, where it tells so itself: "Anna: I am late", "小王：我来晚了". Pure."""

from __future__ import annotations

from typing import Final

import re2

# One to three capitalised words, or one to six Chinese, Japanese or Korean letters; then a colon.
_NAMED: Final = re2.compile(
    r"^\s*(?P<name>\p{Lu}[\p{L}\p{M}'’.-]{0,30}(?: \p{Lu}[\p{L}\p{M}'’.-]{0,30}){0,2}"
    r"|[\p{Han}\p{Hiragana}\p{Katakana}\p{Hangul}]{1,6})(?:：|:(?:\s|[^\x00-\x7f]))"
)
# What stands before a colon without being anybody's name.
_NOBODY: Final = frozenset(
    """
    user assistant system human ai bot tool developer model you me i question answer q a note notes
    todo task reminder re fwd subject title summary example context input output warning error
    important update edit ps p.s. date time place step tip fact info result results reason
    用户 助手 系统 助理 机器人 工具 模型 你 我 问 答 问题 回答 答案 注 注意 备注 提示 提醒 标题 主题
    总结 摘要 例如 比如 例子 背景 输入 输出 警告 错误 重要 更新 日期 时间 地点 步骤 结果 原因 结论
    """.split()
)


def speaker_in(text: str) -> str | None:
    """Return the name that a text begins with, None where it begins with none.

    "User: …" and its like name nobody. Looks at the beginning alone.
    """
    found = _NAMED.match(text[:120])
    if found is None:
        return None
    name: str = found["name"]
    return None if name.casefold() in _NOBODY else name
