"""Who says a text, where it tells so itself: "Anna: I am late", "小王：我来晚了". Pure."""

from __future__ import annotations

import re
from typing import Final

# Of one line's beginning: what stands before its first colon, if that is followed as one is in talk.
_BEFORE_COLON: Final = re.compile(r"\s*([^\s:：][^:：\n]{0,99})(?:：|:(?=\s|[^\x00-\x7f]))")
_NOT_OF_NAMES: Final = re.compile(r"[^\w'’. -]|[\d_]")
_CJK: Final = re.compile(r"[\u3040-\u30ff\u3400-\u9fff\uac00-\ud7af]{1,6}")
_MOST_NAME_WORDS: Final = 3
_MOST_NAME_WORD_LETTERS: Final = 31
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

    One to three capitalised words, or one to six Chinese, Japanese or Korean letters, before a
    colon. "User: …" and its like name nobody. Looks at the beginning alone.
    """
    found = _BEFORE_COLON.match(text[:120])
    if found is None:
        return None
    name = found[1].strip()
    return name if _is_name(name) and name.casefold() not in _NOBODY else None


def _is_name(text: str) -> bool:
    if _CJK.fullmatch(text):
        return True
    words = text.split(" ")
    if len(words) > _MOST_NAME_WORDS or _NOT_OF_NAMES.search(text):
        return False
    return all(word[:1].isupper() and len(word) <= _MOST_NAME_WORD_LETTERS for word in words)
