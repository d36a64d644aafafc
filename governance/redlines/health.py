"""Statements about somebody's health: an illness or drug together with a person or a diagnosis."""

from __future__ import annotations

import re
from collections.abc import Iterator

from governance.redlines.lexicon import (
    DRUGS_EN,
    DRUGS_ZH,
    ILLNESSES_EN,
    ILLNESSES_ZH,
    PEOPLE_EN,
    PEOPLE_ZH,
    WORK_EN,
    WORK_ZH,
)
from memory.sanitize.patterns import Hit, PatternBook

_GAP = r"[^。;!?\n()]"
_DIAGNOSED = r"(?:确诊|確診|诊断(?:为|出|是)|診斷|查出|检查出|检出|得了|得过|患有|患上|患了|罹患|感染|染上|被查|复发|病史)"
_AFTER_ILLNESS = r"(?:检测)?(?:阳性|陽性|晚期|早期|中期|复发|转移|发作|术后|化疗|放疗|患者|病史|住院|在吃|吃药|服药|治疗中|好几年|多年)"
_HAS = (
    r"(?:has|have|had|have got|has got|suffers?|suffering|suffered|lives?|living|was|is|am|are|been|got|developed"
    r"|takes?|taking|tested positive|struggles?|struggling|i'm|survived|beat)"
)
_FOR = rf"(?:\s+(?:for|and|against|because of)\s+(?:\w+\s+){{0,2}}?(?:{ILLNESSES_EN})\b)?"
_LAB = r"hba1c|a1c|糖化血红蛋白|空腹血糖|餐后血糖|血糖|血压|血壓|胆固醇|甘油三酯|尿酸|cd4|病毒载量|psa|肌酐|转氨酶|blood pressure|blood sugar|cholesterol"

BOOK = PatternBook(
    {
        "person_zh": rf"(?i)(?:{PEOPLE_ZH}){_GAP}{{0,14}}?(?P<v>{ILLNESSES_ZH}|{DRUGS_ZH})",
        "diagnosed_zh": rf"(?i){_DIAGNOSED}{_GAP}{{0,12}}?(?P<v>{ILLNESSES_ZH})",
        "state_zh": rf"(?i)(?P<v>{ILLNESSES_ZH}){_GAP}{{0,6}}?{_AFTER_ILLNESS}",
        "drug_zh": rf"(?:在吃|吃着|服用|每天吃|注射|开了|打){_GAP}{{0,4}}?(?P<v>{DRUGS_ZH})",
        "lab": rf"(?i)(?:{_LAB})\s?(?:is|was|:|是|为|高达|[=\s])?\s?(?P<v>\d{{1,3}}(?:\.\d)?(?:\s?/\s?\d{{2,3}})?)",
        "person_en": (
            rf"(?i)\b{PEOPLE_EN}\b\s+(?:\w+\s+){{0,2}}?{_HAS}\s+(?:[\w'-]+\s+){{0,5}}?"
            rf"(?P<v>{ILLNESSES_EN}|{DRUGS_EN})\b{_FOR}(?P<after>(?:\s+\w+){{0,2}})"
        ),
        "contracted_en": (
            rf"(?i)\b(?:i'm|he's|she's|i've|they're|they've)\s+(?:[\w'-]+\s+){{0,4}}?"
            rf"(?P<v>{ILLNESSES_EN}|{DRUGS_EN})\b{_FOR}(?P<after>(?:\s+\w+){{0,2}})"
        ),
        "diagnosed_en": (
            rf"(?i)\b(?:diagnosed with|tested positive for|suffer(?:s|ing|ed)? from|hospitali[sz]ed (?:for|with)"
            rf"|treated for|died of)\s+(?:[\w'-]+\s+){{0,4}}?(?P<v>{ILLNESSES_EN})\b(?P<after>(?:\s+\w+){{0,2}})"
        ),
        "own_en": (
            rf"(?i)\b(?:my|his|her|their|[a-z]+'s)\s+(?:\w+\s+){{0,2}}?(?P<v>{ILLNESSES_EN})\b(?P<after>(?:\s+\w+){{0,2}})"
        ),
        "positive_en": r"(?i)\b(?P<v>hiv|covid(?:-19)?|hepatitis [abc]|tb)[ -](?:test\s+)?(?:is\s+|was\s+)?positive\b|\b(?P<v2>hiv) ?\+",
    }
)

_WORK_ZH = re.compile(WORK_ZH)
_WORK_EN = re.compile(rf"\b(?:{WORK_EN})\b", re.IGNORECASE)
_PERSON_ZH = re.compile(rf"(?:{PEOPLE_ZH})")
_PATIENTS_AS_TOPIC = re.compile(r"患者|病人")
_SENTENCE_END = re.compile(r"[。!?;\n]")
_LAB_CONTEXT = re.compile(
    rf"{PEOPLE_ZH}|体检|報告|报告|化验|检查|测|\b(?:my|his|her|patient|labs?|mine)\b|hba1c|a1c|cd4",
    re.IGNORECASE,
)
_NO_PERSON_AFTER = re.compile(
    r"\s*(?:的?(?:标准|指南|知识|科普|论文|研究|系统|项目|管理|课题|预防|早筛|筛查|数据|药店|医生|讲座|题))"
)


def health_spans(text: str) -> Iterator[tuple[int, int]]:
    """Yield the spans of statements about a person's health in a shadow text."""
    for hit in BOOK.hits(text):
        if _is_statement(text, hit):
            yield hit.start, hit.groups["after"][0] if "after" in hit.groups else hit.end


def _is_statement(text: str, hit: Hit) -> bool:
    """Say whether one hit speaks of a person and not of work on the subject."""
    sentence = _sentence(text, hit)
    if hit.name == "lab":
        return bool(_LAB_CONTEXT.search(sentence)) and not _WORK_ZH.search(sentence)
    if hit.name.endswith("_en"):
        start, end = hit.groups.get("after", (hit.end, hit.end))
        return not _WORK_EN.search(text[start:end]) and not _WORK_EN.search(text[hit.start : start])
    if _NO_PERSON_AFTER.match(text[hit.groups["v"][1] : hit.groups["v"][1] + 5]):
        return False
    # Patients in general are the topic of work; a person named besides them is not.
    people = _PERSON_ZH.search(_PATIENTS_AS_TOPIC.sub("", sentence))
    if not people:
        return not _WORK_ZH.search(sentence)
    return not _WORK_ZH.search(text[hit.start : hit.end + 6])


def _sentence(text: str, hit: Hit) -> str:
    """Return the sentence around a hit."""
    starts = [
        found.end() for found in _SENTENCE_END.finditer(text, max(0, hit.start - 200), hit.start)
    ]
    first = starts[-1] if starts else max(0, hit.start - 200)
    end = _SENTENCE_END.search(text, hit.end, min(len(text), hit.end + 200))
    return text[first : end.start() if end else min(len(text), hit.end + 200)]
