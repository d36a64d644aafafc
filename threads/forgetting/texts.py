"""Which texts of a person are looked through, and the mask that all of them together make."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, Final

from django.db.models import QuerySet

from governance.models import CoreCandidate, Correction
from governance.models.erasure import Erasure
from memory.models import (
    CoreFact,
    KnowledgeDocument,
    MemoryItem,
    MemoryItemVersion,
    RecallEntry,
)
from memory.models.base import TenantModel
from memory.scope import Scope
from threads.forgetting.masking import Mask
from threads.models import Artifact, ContextTrace, Message, Run, RunTrace, Thread

_CHUNK: Final = 500


@dataclass(frozen=True, slots=True, kw_only=True)
class Texts:
    """The columns of one model that hold words of a person.

    Attributes:
        model: Of which rows.
        at: The column that tells when it was said.
        columns: Plain texts.
        json: Columns whose strings are looked through.
        tagged: The column that `pii` tags, where tags name none themselves.
    """

    model: type[TenantModel]
    at: str = "created_at"
    columns: tuple[str, ...] = ()
    json: tuple[str, ...] = ()
    tagged: str = ""

    def tags(self, row: Any, column: str) -> list[Any]:
        """Return the stored tags of one column of a row."""
        if not hasattr(row, "pii"):
            return []
        return [tag for tag in row.pii if tag.get("field", self.tagged) == column]


MESSAGES: Final = Texts(
    model=Message, columns=("content", "name", "speaker"), json=("tool_calls",), tagged="content"
)
RUNS: Final = Texts(
    model=Run, columns=("input", "output", "error_detail"), json=("metadata", "tool_steps")
)
THREADS: Final = Texts(model=Thread, columns=("title",))
RUN_TRACES: Final = Texts(model=RunTrace, json=("messages", "items", "steps"))
CONTEXT_TRACES: Final = Texts(model=ContextTrace, json=("messages", "items", "steps"))
ARTIFACTS: Final = Texts(model=Artifact, columns=("name", "content"))
DOCUMENTS: Final = Texts(model=KnowledgeDocument, columns=("title", "content", "reason"))
ITEMS: Final = Texts(
    model=MemoryItem, at="updated_at", columns=("title", "content"), tagged="content"
)
VERSIONS: Final = Texts(model=MemoryItemVersion, at="at", columns=("title", "content"))
FACTS: Final = Texts(model=CoreFact, columns=("fact", "subject"), tagged="fact")
CANDIDATES: Final = Texts(
    model=CoreCandidate, columns=("fact", "subject", "evidence", "reason"), tagged="fact"
)
CORRECTIONS: Final = Texts(model=Correction, columns=("term", "wrong", "right"), tagged="term")
RECALL: Final = Texts(model=RecallEntry, at="said_at", columns=("said", "answered", "speaker"))

ALL: Final = (
    MESSAGES,
    RUNS,
    THREADS,
    RUN_TRACES,
    CONTEXT_TRACES,
    ARTIFACTS,
    DOCUMENTS,
    ITEMS,
    VERSIONS,
    FACTS,
    CANDIDATES,
    CORRECTIONS,
    RECALL,
)


@dataclass(slots=True, kw_only=True)
class Pass:
    """One tagged erasure as it goes: whom it is about, its mask, and what it has changed.

    Attributes:
        scope: The person's own.
        hold: Refuses to go on where the erasure is no longer ours.
        changed_runs: Whose words are others now, so that what was made of them is stale.
        changed_threads: The same of threads.
    """

    scope: Scope
    now: datetime
    before_at: datetime | None
    mask: Mask
    hold: Callable[[], None]
    changed_runs: set[str] = field(default_factory=set)
    changed_threads: set[str] = field(default_factory=set)

    @property
    def person_id(self) -> str:
        """Whose texts they are."""
        return self.scope.user_id or ""

    def rows(self, texts: Texts, *, is_all: bool = False) -> Iterator[Any]:
        """Yield the person's rows, oldest first, each 500 after a look whether it is still ours.

        Args:
            texts: Of which model.
            is_all: Also those from after the time that bounds the erasure.
        """
        found: QuerySet[Any] = texts.model.objects.in_scope(self.scope)
        found = found.filter(end_user_id=self.person_id)
        if self.before_at is not None and not is_all:
            found = found.filter(**{f"{texts.at}__lt": self.before_at})
        for number, row in enumerate(found.order_by("pk").iterator(chunk_size=_CHUNK)):
            if number % _CHUNK == 0:
                self.hold()
            yield row

    def changes(self, texts: Texts, row: Any) -> dict[str, Any]:
        """Return what a row says otherwise once it is masked, by column; empty for nothing."""
        found: dict[str, Any] = {}
        for column in texts.columns:
            old = getattr(row, column)
            if old and (new := self.mask.masked(old, texts.tags(row, column))) != old:
                found[column] = new
        for column in texts.json:
            old = getattr(row, column)
            if old and (new := self.mask.masked_json(old)) != old:
                found[column] = new
        return found


def learn(going: Pass) -> None:
    """Read all texts of the person and remember the values in them. Cost: one pass."""
    for texts in ALL:
        for row in going.rows(texts, is_all=True):
            for column in texts.columns:
                if text := getattr(row, column):
                    going.mask.learn(text, texts.tags(row, column))
            for column in texts.json:
                going.mask.learn_all(getattr(row, column))


def evidence_of(erasure: Erasure) -> Mask:
    """Return the empty mask of an erasure."""
    return Mask(kinds=frozenset(erasure.kinds))
