"""What is told of an item's uses."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime


@dataclass(frozen=True, slots=True, kw_only=True)
class Linked:
    """Something that an item was made of, or that was made of it; `kind` is its word, `at` when."""

    kind: str
    id: str
    at: datetime | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer:
    """One time that an item, or something made of it, was shown.

    Attributes:
        kind: `run` for a prompt, `tool` for a tool's result on its way, `context` for a context
            that its caller took to a model himself.
        run_id: The run; of a context its trace's id.
        through: Which ids it showed: the item itself, or what was made of it.
        at: When it was shown.
    """

    kind: str
    run_id: str
    thread_id: str | None
    agent_id: str
    key_id: str
    provider_id: str
    model: str
    through: tuple[str, ...]
    at: datetime


@dataclass(frozen=True, slots=True, kw_only=True)
class Found:
    """What a search for what was made came to.

    Attributes:
        linked: What was found, at most a few hundred of a kind.
        counts: How many there are, by kind, also beyond those.
        is_whole: Whether `linked` is all of it.
    """

    linked: tuple[Linked, ...] = ()
    counts: Mapping[str, int]
    is_whole: bool = True


@dataclass(frozen=True, slots=True, kw_only=True)
class Uses:
    """The uses of one item.

    Attributes:
        item_id: The item.
        kind: Its word; of what is gone too, by its id.
        is_gone: It was deleted or erased: only what was shown of it is known.
        sources: What it was made of.
        made: What was made of it, over any number of steps.
        answers: What it was shown to, newest first, at most the number asked for.
        answers_total: How many there are.
        shown: Of a run or a context, what it showed, in prompt order.
    """

    item_id: str
    kind: str
    is_gone: bool
    sources: tuple[Linked, ...]
    made: Found
    answers: tuple[Answer, ...]
    answers_total: int
    shown: tuple[str, ...]
