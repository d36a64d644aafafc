"""Finding lasting facts without a model: what a person says of themselves in so many words. Pure.

For the built-in provider, which can only quote. Linear patterns over single sentences, in Chinese
and English; questions tell nothing.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Final

import re2

from threads.learning.fact_answers import ModelFact

_MOST_CHARACTERS: Final = 120
_SURE: Final = 0.8
_LIKELY: Final = 0.6


@dataclass(frozen=True, slots=True, kw_only=True)
class _Pattern:
    """What a sentence looks like; `subject` may name groups, and `fact` is a group or all of it."""

    shape: Any
    subject: str = ""
    confidence: float = _LIKELY
    group: int = 0


def _pattern(
    shape: str, subject: str = "", confidence: float = _LIKELY, group: int = 0
) -> _Pattern:
    compiled = re2.compile(f"(?i)^(?:{shape})$")
    return _Pattern(shape=compiled, subject=subject, confidence=confidence, group=group)


_WORK_ZH: Final = (
    "老师|教师|教授|学生|工程师|程序员|医生|护士|律师|会计|设计师|经理|主任|校长|编辑|记者|司机|厨师|作家|研究员|家长"
    "|班主任|开发者|产品经理|公务员|警察|军人|农民|翻译|导师|教练"
)
_WORK_EN: Final = (
    "teacher|professor|lecturer|student|engineer|developer|programmer|doctor|nurse|lawyer"
    "|accountant|designer|manager|director|editor|journalist|driver|cook|chef|writer|researcher"
    "|parent|principal|scientist|analyst|consultant|translator|tutor|coach|librarian"
)
_PATTERNS: Final = (
    _pattern("(?:请|麻烦)?(?:你)?(?:记住|记得|记一下|记下)[，,：: ]*(.{2,})", "", _SURE, 1),
    _pattern("(?:please )?(?:remember|note|keep in mind)(?: that|:)? (.{3,})", "", _SURE, 1),
    _pattern("我(?:的名字)?(?:叫做?|是叫)(.{1,20})", "姓名", _SURE),
    _pattern("我的名字是(.{1,20})", "姓名", _SURE),
    _pattern("(?:my name is|call me) (.{1,60})", "name", _SURE),
    _pattern("我最(?:喜欢|爱)的(.{1,12})是(.{1,40})", "最喜欢的{1}"),
    _pattern(r"my favou?rite ([\w ]{1,30}) is (.{1,60})", "favourite {1}"),
    _pattern(f"我是(?:一名|一位|一个|个|名)?(.{{0,30}}(?:{_WORK_ZH}))", "职业", _SURE),
    _pattern(rf"(?:i am|i['’]m) (?:a |an |the )(?:[\w-]+ ){{0,6}}(?:{_WORK_EN})\b.{{0,60}}", "work", _SURE),
    _pattern("我(?:住在|家在|现居)(.{2,30})", "住处", _SURE),
    _pattern("i live in (.{2,60})", "home", _SURE),
    _pattern("我来自(.{2,30})", "来处", _SURE),
    _pattern("i(?: am|['’]m)? (?:come )?from (.{2,60})", "origin", _SURE),
    _pattern("我在(.{2,30})(?:工作|上班|任教|教书)(?:.{0,20})", "工作", _SURE),
    _pattern("i work (?:at|for|as|in) (.{2,80})", "work", _SURE),
    _pattern("i teach (.{2,80})", "", _SURE),
    _pattern("我(?:更|比较|很|特别|最|一直)?(?:喜欢|偏好|偏爱|习惯|爱)(.{2,60})"),
    _pattern("我(?:不喜欢|讨厌|不爱|不习惯|从不|不吃|不喝)(.{1,60})"),
    _pattern("(?:以后|今后|从现在起)[，, ]?(?:请|都|就|每次|一律|凡是).{2,80}"),
    _pattern(".{2,40}一直(?:是|都是|用|按)(?:这个|这样|这么).{0,60}"),
    _pattern(r"(?:from now on|in future|going forward),? .{3,100}"),
    _pattern(r"we (?:run|own|teach|manage) .{3,100}", "work"),
    _pattern(r"i (?:really |always |usually |much )?(?:prefer|like|love|enjoy) (.{2,90})"),
    _pattern(r"i (?:don['’]t like|do not like|dislike|hate|never) (.{2,90})"),
)  # fmt: skip
_QUESTION: Final = re2.compile(r"[?？]\s*$|[吗呢么嘛][。.!！]*$")
_OPENING: Final = re2.compile(
    r"^(?i:(?:另外|还有|对了|顺便说一下|其实|你好|您好|嗯|好的|by the way|also|and|well|hi|hello|oh|so)[，,。.! ]+)+"
)
_ENDING: Final = "。.!！；;，, \t"


def find_facts(sentences: Sequence[str]) -> list[ModelFact]:
    """Return what sentences say of whoever wrote them, one fact a sentence at most."""
    return list(_found(sentences))


def _found(sentences: Sequence[str]) -> Iterator[ModelFact]:
    for sentence in sentences:
        said = _OPENING.sub("", sentence.strip()).strip(_ENDING)
        if not said or len(said) > _MOST_CHARACTERS or _QUESTION.search(sentence):
            continue
        fact = next((fact for one in _PATTERNS if (fact := _match(one, said))), None)
        if fact is not None:
            yield fact


def _match(pattern: _Pattern, said: str) -> ModelFact | None:
    match = pattern.shape.match(said)
    if match is None:
        return None
    fact = match[pattern.group].strip(_ENDING)
    if not fact:
        return None
    subject = pattern.subject.replace("{1}", match[1].strip() if "{1}" in pattern.subject else "")
    return ModelFact(fact=fact, confidence=pattern.confidence, subject=subject)
