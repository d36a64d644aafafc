"""The sets of ../shared/data/retrieval as the evaluation uses them: turns, questions, negatives."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Final

SETS: Final = (
    "locomo-dev",
    "memorybank-zh-dev",
    "memorybank-en-dev",
    "madial-zh-dev",
    "madial-en-dev",
)
QUICK_PEOPLE: Final = 2
_CORPUS, _QUERIES = "corpus.jsonl", "queries.jsonl"
# A line of two speakers; what does not look so is the person's alone.
_SPOKEN = re.compile(r"(?s)\A(?:User|用户)[:：]\s*(.*?)\n(?:Assistant|助手)[:：]\s*(.*)\Z")


@dataclass(frozen=True, slots=True, kw_only=True)
class Turn:
    """One entry of a corpus; `answered` is empty where nobody answers."""

    corpus_id: str
    person: str
    session: str
    said: str
    answered: str
    created_at: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Question:
    """A question to one person's memory; without gold nothing there answers it."""

    id: str
    person: str
    category: str
    text: str
    gold: frozenset[str]
    is_headline: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class EvalSet:
    """One set, and the folder that the scorer reads it from.

    `unrelated` are questions that no memory bears on, `cross_person` those that are asked in the
    memory of somebody else.
    """

    name: str
    folder: Path
    turns: tuple[Turn, ...]
    questions: tuple[Question, ...]
    unrelated: tuple[Question, ...] = ()
    cross_person: tuple[Question, ...] = ()

    @property
    def people(self) -> tuple[str, ...]:
        """Whose memories these are, in the order of the corpus."""
        return tuple(dict.fromkeys(turn.person for turn in self.turns))

    def user_id(self, person: str) -> str:
        """The person's name at the service: unique among all sets."""
        return f"{self.name}.{person}"

    def external_id(self, corpus_id: str) -> str:
        """The id that a turn is recorded under: unique among all sets."""
        return f"{self.name}/{corpus_id}"

    def corpus_id(self, external_id: str | None) -> str:
        """Turn a result's id back; one that this set did not record stays whole, and is foreign."""
        start = f"{self.name}/"
        if external_id is None or not external_id.startswith(start):
            return f"not-of-this-set:{external_id}"
        return external_id.removeprefix(start)


def split_turn(text: str) -> tuple[str, str]:
    """Return what the person said and what was answered."""
    spoken = _SPOKEN.match(text)
    if spoken is None or not spoken[1].strip():
        return text, ""
    return spoken[1], spoken[2]


def sessions_of(turns: Sequence[Turn]) -> list[tuple[Turn, ...]]:
    """Return the turns by session, both in the order of the corpus."""
    by_session: dict[str, list[Turn]] = {}
    for turn in turns:
        by_session.setdefault(turn.session, []).append(turn)
    return [tuple(session) for session in by_session.values()]


def read_set(folder: Path) -> EvalSet:
    """Read one set.

    Raises:
        OSError: A file of the set is missing.
    """
    return EvalSet(
        name=folder.name,
        folder=folder,
        turns=tuple(_turn(row) for row in _rows(folder / _CORPUS)),
        questions=tuple(_question(row) for row in _rows(folder / _QUERIES)),
        unrelated=_negatives(folder / "negatives_unrelated.jsonl"),
        cross_person=_negatives(folder / "negatives_cross_person.jsonl"),
    )


def only_people(whole: EvalSet, *, count: int, into: Path) -> EvalSet:
    """Return the set of its first people, written into a folder where the scorer finds it."""
    people = set(whole.people[:count])
    folder = into / whole.name
    folder.mkdir(parents=True, exist_ok=True)
    for name in (_CORPUS, _QUERIES):
        rows = [row for row in _rows(whole.folder / name) if row["group"] in people]
        lines = [json.dumps(row, ensure_ascii=False) + "\n" for row in rows]
        (folder / name).write_text("".join(lines), encoding="utf-8")
    return replace(
        whole,
        folder=folder,
        turns=tuple(turn for turn in whole.turns if turn.person in people),
        questions=_asked_of(whole.questions, people),
        unrelated=_asked_of(whole.unrelated, people),
        cross_person=_asked_of(whole.cross_person, people),
    )


def _asked_of(questions: Sequence[Question], people: set[str]) -> tuple[Question, ...]:
    return tuple(question for question in questions if question.person in people)


def _negatives(path: Path) -> tuple[Question, ...]:
    return tuple(_question(row) for row in _rows(path)) if path.exists() else ()


def _rows(path: Path) -> Iterator[dict[str, Any]]:
    for line in path.read_text(encoding="utf-8").splitlines():
        if line.strip():
            yield json.loads(line)


def _turn(row: dict[str, Any]) -> Turn:
    said, answered = split_turn(row["text"])
    return Turn(
        corpus_id=row["id"],
        person=row["group"],
        session=row["session"],
        said=said,
        answered=answered,
        created_at=row.get("created_at"),
    )


def _question(row: dict[str, Any]) -> Question:
    return Question(
        id=row["id"],
        person=row["group"],
        category=row.get("category", "negative"),
        text=row["text"],
        gold=frozenset(row["gold"]),
        is_headline=row.get("headline", True),
    )
