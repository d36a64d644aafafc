"""Exam scores, grades and ranks of persons, in Chinese and English."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping

from governance.redlines.lexicon import EXAMS_EN, NUMBER_ZH, PEOPLE_ZH, SUBJECTS_EN, SUBJECTS_ZH
from memory.sanitize.patterns import Hit, PatternBook

_N = rf"(?P<n>{NUMBER_ZH})"
_GAP = r"[^\d。;,!?()\n%]"
_WHOSE = r"(?:(?:my|his|her|their|our|the|this|last|an?|final|midterm)\s+){0,3}"

BOOK = PatternBook(
    {
        "subject": rf"(?P<who>{SUBJECTS_ZH})\s?{_GAP}{{0,6}}?{_N}\s*(?P<unit>分(?:\s?,?\s?[不没]?及格)?|/\s*1[0-5]0|$|[^\s\d]|\s)",
        "taken": rf"考\s*(?:了|得|到|出|过|過)\s*{_GAP}{{0,2}}?{_N}\s*(?P<unit>分(?:\s?,?\s?[不没]?及格)?|$|[^\d\s]|\s)",
        "taken_short": rf"考\s*{_N}\s*(?P<unit>分)",
        "result": (
            rf"(?:成绩|成績|分数|分數|总分|總分|平均分)(?:单|單)?\s*(?:是|为|為|[:=])?\s*{_GAP}{{0,8}}?{_N}"
            r"\s*(?P<unit>分(?:\s?,?\s?[不没]?及格)?|/\s*1[0-5]0|$|[^\s\d]|\s)"
        ),
        "person": rf"(?:{PEOPLE_ZH}){_GAP}{{0,10}}?(?:得|拿|考|是|:|\s)了?{_GAP}{{0,3}}?{_N}\s*(?P<unit>分)",
        "failed": rf"(?:{SUBJECTS_ZH}|考试|考試){_GAP}{{0,6}}?(?:不及格|挂科|掛科|没及格|沒及格|挂了)",
        "rank": (
            r"(?P<where>[^。;,!?\n]{0,8}?)(?:排\s*名|名\s*次|排)\s*(?:是|为|:|在)?\s*(?:班级|年级|全班|全校|全年级|班里)?\s*"
            r"(?:倒数)?第?\s*(?:\d{1,4}|[一二三四五六七八九十]{1,3}|倒数)(?:\s*名)?"
        ),
        "rank_class": (
            r"(?:班级|班里|班上|全班|全校|全级|年级|年段|年級)\s*(?:排名?)?\s*(?:倒数)?第\s*(?:\d{1,4}|[一二三四五六七八九十]{1,3})"
            r"(?:\s*名)?(?P<next>[^\s]?)"
        ),
        "fraction": r"(?P<n>\d{1,3}(?:\.\d)?)\s{0,2}/\s{0,2}(?:100|120|150)\b",
        "letter": r"(?:^|[^A-Za-z0-9])(?P<v>[A-F][+\-])(?P<next>.?)",
        "letter_named": (
            r"(?i)(?:\bgrades?|\bgraded|成绩|成績|等级|等第|评级|評級)\s?(?:is|was|of|:|=|是|为|為)\s?(?:an?\s)?(?P<v>[A-F][+\-]?)"
            r"(?:$|[^A-Za-z0-9+\-])"
        ),
        "letter_in": (
            rf"(?i)\b(?:got|earned|received|gets?|has|have|gave (?:me|him|her))\s+(?:an?\s+)?[A-F][+\-]?\s+"
            rf"(?:in|on|for)\s+{_WHOSE}(?:{SUBJECTS_EN}|{EXAMS_EN})\b"
        ),
        "scored_en": (
            r"(?i)\b(?:scored?|got|received|earned|achieved|gets?)\s+(?:an?\s+)?(?P<n>\d{1,4}(?:\.\d+)?)"
            r"(?:\s*(?:%|percent|points?|marks?|/\s*\d{2,3}|out of \d{2,3}))?\s+(?:in|on|for|at)\s+"
            rf"{_WHOSE}(?:{SUBJECTS_EN}|{EXAMS_EN})\b(?P<after>\s+\w+)?"
        ),
        "score_of_en": (
            rf"(?i)\b(?:{SUBJECTS_EN}|{EXAMS_EN})\s+(?:exam\s+|test\s+)?(?:scores?|grades?|marks?|results?)\s*"
            r"(?:is|was|were|of|:|=)\s*(?:an?\s+)?(?:(?P<n>\d{1,4}(?:\.\d+)?)\s?%?|[A-F][+\-]?)(?:$|[^\w])"
        ),
        "subject_en": (
            rf"(?i)\b(?:{SUBJECTS_EN})\s*(?:[:=]|is|was)\s*(?P<n>\d{{2,3}})\s?(?:%|/\s?\d{{2,3}}|points)?(?:$|\s*[,.;)\n])"
        ),
        "average": (
            r"(?i)(?:\bgpa\b|绩点|績點)\s*(?:of\b|is\b|was\b|是|为|為|:|=)?\s*(?:a\s)?(?P<n>[0-5]\.\d{1,2})(?:$|[^\d])"
        ),
        "ranked_en": (
            r"(?i)\brank(?:ed|s)?\s+(?:#?\d{1,4}(?:st|nd|rd|th)?|first|second|third|last)\s+(?:in|of|out of)\s+"
            r"(?:my|his|her|the|their|our)\s+(?:class|grade|year|school)\b"
        ),
    }
)

_AFTER_SCORE = re.compile(
    r"\s*(?:钟|鐘|位|之|析|段|布|数线|數線|制|值|类|類|支|店|部|公司|工|配|享|米|秒|辨|卷|的(?:题|題|试|試|卷))"
)
_PAPER = re.compile(
    r"满分|滿分|试卷|試卷|卷子|[一二三四五每]题|每题|题型|选择题|填空题|简答题|综合题|大题|共计|占比|评分|評分|进度|出一份|出题|组卷"
)
_TAKEN = re.compile(r"[考得拿]\s*[了得到出]")
_PROGRESS = re.compile(
    r"progress|进度|通过|passed|tests?\s|uptime|复用|battery|电量|完成度|done|score:?\s*$|completed",
    re.IGNORECASE,
)
_GRADE_CONTEXT = re.compile(
    rf"{SUBJECTS_ZH}|成绩|考|评|得|grade|score|got|exam|{SUBJECTS_EN}|test", re.IGNORECASE
)
_NO_RANK = re.compile(
    r"搜索|销量|銷量|世界|全球|行业|下载|市场|市值|热度|谷歌|百度|网站|公司|品牌|应用|榜|票房|GDP|播放|关键词|收入|城市|国家"
)
_NO_CLASS = re.compile(r"[课課单單章册节節题題组組排学學期次届]")
_SOFTWARE = re.compile(
    r"\s+(?:suite|server|bench|set|data|cases?|run|runs|env|environment|coverage|page)",
    re.IGNORECASE,
)
_LEAST_BARE = 20
_CONTEXT_CHARS = 14


def grade_spans(text: str) -> Iterator[tuple[int, int]]:
    """Yield the spans of statements about somebody's scores in a shadow text."""
    for hit in BOOK.hits(text):
        start, end = hit.groups.get("v", (hit.start, hit.end))
        if _is_grade(text, hit):
            yield start, _end(text, hit, end)


def _end(text: str, hit: Hit, end: int) -> int:
    """Return where the statement ends: a unit that is no unit is not part of it."""
    for name in ("unit", "next", "after"):
        at, to = hit.groups.get(name, (end, end))
        if to == end and at < to and text[at] not in "分/":
            end = at
    return end


def _is_grade(text: str, hit: Hit) -> bool:
    """Say whether one hit is a statement about somebody's result."""
    before = text[max(0, hit.start - _CONTEXT_CHARS) : hit.start]
    if "unit" in hit.groups:
        return _is_score(text, hit, before)
    check = _CHECKS.get(hit.name)
    return check is None or check(text, hit, before)


def _is_rank(text: str, hit: Hit, before: str) -> bool:
    """Say whether a rank is not one of goods, searches or countries."""
    return not _NO_RANK.search(before + text[hit.start : hit.end])


def _is_rank_in_class(text: str, hit: Hit, _before: str) -> bool:
    """Say whether a number in a class is not that of a lesson or term."""
    return not _NO_CLASS.match(_group(text, hit, "next"))


def _is_fraction(text: str, hit: Hit, before: str) -> bool:
    """Say whether points out of a hundred are not the progress of something."""
    around = before + "|" + text[hit.end : hit.end + _CONTEXT_CHARS]
    return not _PROGRESS.search(around) and not text[hit.start - 1 : hit.start].isdigit()


def _is_letter(text: str, hit: Hit, before: str) -> bool:
    """Say whether a letter with a sign is a grade: alone, or where grades are spoken of."""
    follows = _group(text, hit, "next")
    if follows.isalnum() or follows in {"+", "-"}:
        return False
    return text.strip() == _group(text, hit, "v") or bool(_GRADE_CONTEXT.search(before))


def _is_score_en(text: str, hit: Hit, _before: str) -> bool:
    """Say whether the test is one that people sit."""
    return not _SOFTWARE.match(_group(text, hit, "after"))


def _is_score(text: str, hit: Hit, before: str) -> bool:
    """Say whether a Chinese number is points in an exam: its unit, its size, what it is about."""
    inside = text[hit.start : hit.end]
    start, end = hit.groups["unit"]
    unit = text[start:end]
    is_result = _TAKEN.search(inside)
    if not is_result and _PAPER.search(before + inside + text[end : end + _CONTEXT_CHARS]):
        return False
    if unit.startswith("分"):
        return not _AFTER_SCORE.match(text[end : end + 4])
    if unit.startswith("/"):
        return True
    number = _group(text, hit, "n")
    is_band = "雅思" in before + inside
    is_big = is_band or not number[0].isdigit() or float(number) >= _LEAST_BARE
    follows = text[start : start + 2].strip()
    is_bare = not follows or not (follows[0].isalnum() or follows[0] in "%°-:~")
    return is_big and is_bare and number not in {"满", "滿"}


def _group(text: str, hit: Hit, name: str) -> str:
    """Return what a named group matched, "" if it did not."""
    start, end = hit.groups.get(name, (0, 0))
    return text[start:end]


_CHECKS: Mapping[str, Callable[[str, Hit, str], bool]] = {
    "rank": _is_rank,
    "rank_class": _is_rank_in_class,
    "fraction": _is_fraction,
    "letter": _is_letter,
    "scored_en": _is_score_en,
}
