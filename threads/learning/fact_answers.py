"""Reading what a model answers when it is asked for facts: NONE, or a list with all its mistakes. Pure.

Nothing a model says but fact, confidence and subject is read; "confirmed": true is one of the
things it may say in vain.
"""

from __future__ import annotations

import json
import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final

import re2

from threads.asking import OK, Reading

MALFORMED: Final = "malformed"
MOST_FACTS: Final = 20  # of one run
_MOST_STARTS: Final = 8
_BETWEEN: Final = re2.compile(r"[\s,]*")
_LONG: Final = 10_000
_UNSURE: Final = 0.5
# Whatever follows it: a model that says NONE first has nothing to say.
_SAYS_NONE: Final = re2.compile(r"\W*NONE\b")
_NONE: Final = re2.compile(r"(?i)^\W*(?:none|null|nothing|无|没有|暂无)\b|\bNONE\b|^\W*[无没]")


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelFact:
    """A fact as a model put it; `confidence` is 0 to 1."""

    fact: str
    confidence: float = _UNSURE
    subject: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelFacts:
    """What a model found, and how many entries could not be read."""

    facts: tuple[ModelFact, ...] = ()
    unread: int = 0


def read_facts(answer: str) -> Reading[ModelFacts]:
    """Return what an answer lists, and `ok` or `malformed`; prose and fences around it are no matter.

    Of a list that breaks off what is whole is read; the rest counts as one entry. Linear.
    """
    text = answer.strip()
    listed = None if _SAYS_NONE.match(text) else _listed(text)
    if listed is None:
        is_none = bool(_NONE.search(text))
        return Reading(made=ModelFacts(), outcome=OK if is_none else MALFORMED)
    facts = tuple(fact for fact in map(_fact, listed) if fact is not None)
    is_cut = len(text) > _LONG
    if listed and not facts and not is_cut:
        return Reading(made=ModelFacts(unread=len(listed)), outcome=MALFORMED)
    made = ModelFacts(facts=facts, unread=len(listed) - len(facts))
    return Reading(made=made, outcome=OK)


def _listed(text: str) -> Sequence[Any] | None:
    """Return the first list of objects in a text, also where it is the value of an object."""
    decoder = json.JSONDecoder()
    place = -1
    for _ in range(_MOST_STARTS):
        starts = [at for at in (text.find("[", place + 1), text.find("{", place + 1)) if at >= 0]
        if not starts:
            return None
        place = min(starts)
        try:
            found, _ = decoder.raw_decode(text, place)
        except (ValueError, RecursionError):
            found = _broken_off(text, place)
        entries = _entries(found)
        if entries is not None:
            return entries
    return None


def _broken_off(text: str, start: int) -> Sequence[Any] | None:
    """Return the whole objects of a list that has no end, and None for what follows them."""
    if text[start] != "[":
        return None
    decoder = json.JSONDecoder()
    found: list[Any] = []
    place = start + 1
    while True:
        between = _BETWEEN.match(text, place)
        place = between.end() if between else place
        try:
            entry, place = decoder.raw_decode(text, place)
        except (ValueError, RecursionError):
            break
        found.append(entry)
    # One entry without an end is no list at all, unless it is as long as none should be.
    return [*found, None] if found or len(text) - start > _LONG else None


def _entries(found: Any) -> Sequence[Any] | None:
    if isinstance(found, dict):
        if "fact" in found:
            return [found]
        return next((one for one in found.values() if isinstance(one, list)), None)
    is_list = isinstance(found, list)
    if is_list and (found in ([], [None]) or any(isinstance(one, dict) for one in found)):
        return list(found)
    return None


def _fact(entry: Any) -> ModelFact | None:
    if not isinstance(entry, dict) or not isinstance(entry.get("fact"), str):
        return None
    fact = " ".join(entry["fact"].split())
    subject = entry.get("subject")
    if not fact:
        return None
    return ModelFact(
        fact=fact,
        confidence=_confidence(entry.get("confidence")),
        subject=" ".join(subject.split()) if isinstance(subject, str) else "",
    )


def _confidence(value: Any) -> float:
    if isinstance(value, bool) or not isinstance(value, int | float) or math.isnan(value):
        return _UNSURE
    return float(min(max(value, 0.0), 1.0))
