"""What is evaluated, whichever way it is reached: it records, comes to rest, and finds."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Protocol

from tests.evaluation.datasets import EvalSet, Turn


class EvaluationError(Exception):
    """The evaluation cannot go on; its text says why."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Found:
    """One result: the turn it came from as it was recorded, and how relevant it is said to be."""

    external_id: str | None
    relevance: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer:
    """What a search found, best first, and how long it took."""

    found: tuple[Found, ...]
    ms: float
    degraded: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Rest:
    """How the background work ended: jobs by kind, and those given up, by kind and code."""

    jobs: Counter[str] = field(default_factory=Counter)
    dead: Counter[str] = field(default_factory=Counter)


class Subject(Protocol):
    """A memory under evaluation."""

    clients: int

    def record(self, *, of: EvalSet, session: Sequence[Turn]) -> None:
        """Record one session's turns, in order, as a thread of its own."""

    def come_to_rest(self) -> Rest:
        """Wait until all that was recorded can be found."""

    def search(self, *, user_id: str, question: str, limit: int) -> Answer:
        """Search one person's memory of past turns, with no threshold."""

    def inner_millis(self, *, user_id: str, questions: Sequence[str]) -> list[float]:
        """What retrieval itself took by the traces of runs; empty where that cannot be seen."""
