"""Recording the sets and asking their questions; what came of it, by corpus id."""

from __future__ import annotations

import json
import time
from collections import Counter
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from tests.evaluation.datasets import EvalSet, Question, sessions_of
from tests.evaluation.subject import Rest, Subject

LIMIT: Final = 50
_INNER_QUESTIONS: Final = 25


@dataclass(frozen=True, slots=True, kw_only=True)
class Ingested:
    """How recording went; `waited_s` is from the last turn recorded until all could be found."""

    turns: int
    recorded_s: float
    waited_s: float
    clients: int
    rest: Rest


@dataclass(frozen=True, slots=True, kw_only=True)
class Ranked:
    """One result by its corpus id."""

    corpus_id: str
    relevance: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Asked:
    """What every question found, and what it took.

    Attributes:
        found: By the question's id, best first.
        first_ms: The first question of each person.
        later_ms: All others.
        inner_ms: What retrieval itself took, by traces; may be empty.
        degraded: How often which degradation was told.
    """

    found: dict[str, tuple[Ranked, ...]]
    first_ms: list[float]
    later_ms: list[float]
    inner_ms: list[float] = field(default_factory=list)
    degraded: Counter[str] = field(default_factory=Counter)


def ingest(*, subject: Subject, sets: Sequence[EvalSet]) -> Ingested:
    """Record all sets, each person's sessions one after the other, and wait for the worker."""
    started = time.perf_counter()
    with ThreadPoolExecutor(max_workers=subject.clients) as pool:
        people = [(one, person) for one in sets for person in one.people]
        # The longest first, so that no client is left alone with one at the end.
        people.sort(key=lambda pair: -sum(turn.person == pair[1] for turn in pair[0].turns))
        list(pool.map(lambda pair: _record(subject, *pair), people))
    recorded = time.perf_counter()
    rest = subject.come_to_rest()
    return Ingested(
        turns=sum(len(one.turns) for one in sets),
        recorded_s=recorded - started,
        waited_s=time.perf_counter() - recorded,
        clients=subject.clients,
        rest=rest,
    )


def _record(subject: Subject, of: EvalSet, person: str) -> None:
    for session in sessions_of([turn for turn in of.turns if turn.person == person]):
        subject.record(of=of, session=session)


def ask_all(*, subject: Subject, of: EvalSet) -> Asked:
    """Ask every question of a set, also those that have no answer, one after the other."""
    asked = Asked(found={}, first_ms=[], later_ms=[])
    known: set[str] = set()
    for question in (*of.questions, *of.unrelated, *of.cross_person):
        answer = subject.search(
            user_id=of.user_id(question.person), question=question.text, limit=LIMIT
        )
        (asked.later_ms if question.person in known else asked.first_ms).append(answer.ms)
        known.add(question.person)
        asked.degraded.update(answer.degraded)
        asked.found[question.id] = tuple(
            Ranked(corpus_id=of.corpus_id(one.external_id), relevance=one.relevance)
            for one in answer.found
        )
    return asked


def time_inside(*, subject: Subject, of: EvalSet, asked: Asked) -> None:
    """Note what retrieval itself takes for the person who has most; runs add to that memory."""
    counts = Counter(turn.person for turn in of.turns)
    person = counts.most_common(1)[0][0]
    texts = [question.text for question in of.questions if question.person == person]
    asked.inner_ms.extend(
        subject.inner_millis(user_id=of.user_id(person), questions=texts[:_INNER_QUESTIONS])
    )


def write_run(*, questions: Sequence[Question], asked: Asked, path: Path) -> None:
    """Write the rankings as the scorer reads them."""
    lines = (
        {"id": one.id, "ranked": [hit.corpus_id for hit in asked.found[one.id]]}
        for one in questions
    )
    text = "".join(json.dumps(line, ensure_ascii=False) + "\n" for line in lines)
    path.write_text(text, encoding="utf-8")
