"""The kinds of items that can be shown or be made of one another, by the prefix of their ids."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

from governance.models import CoreCandidate, Correction, EntityCandidate
from memory.models import (
    BehaviourSample,
    CoreFact,
    Entity,
    KnowledgeChunk,
    KnowledgeDocument,
    MemoryItem,
    MemoryItemVersion,
    RecallEntry,
)
from threads.models import Artifact, Message, Run, Thread


@dataclass(frozen=True, slots=True, kw_only=True)
class Kind:
    """One kind of item.

    Attributes:
        word: What it is called.
        model: Where it is stored; None for what only its own thread may read.
        at: Its column of time.
        sources: Columns that name what it was made of.
    """

    word: str
    model: Any
    at: str = "created_at"
    sources: tuple[str, ...] = ()

    @property
    def columns(self) -> frozenset[str]:
        """The names of its columns."""
        return frozenset(field.attname for field in self.model._meta.concrete_fields)


KINDS: Final[Mapping[str, Kind]] = {
    "msg": Kind(word="message", model=Message, sources=("run_id",)),
    "run": Kind(word="run", model=Run, sources=("continues_id",)),
    "th": Kind(word="thread", model=Thread),
    "node": Kind(word="node", model=None),
    "rec": Kind(word="recall", model=RecallEntry, sources=("run_id",)),
    "mem": Kind(word="item", model=MemoryItem, sources=("run_id",)),
    "mver": Kind(word="item_version", model=MemoryItemVersion, at="at", sources=("run_id",)),
    "fact": Kind(word="fact", model=CoreFact, sources=("run_id", "candidate_id")),
    "ccand": Kind(word="core_candidate", model=CoreCandidate, sources=("run_id",)),
    "corr": Kind(word="correction", model=Correction, sources=("run_id", "message_id")),
    "ecand": Kind(word="entity_candidate", model=EntityCandidate),
    "ent": Kind(word="entity", model=Entity, sources=("candidate_id",)),
    "smp": Kind(word="behaviour_sample", model=BehaviourSample),
    "doc": Kind(word="document", model=KnowledgeDocument, sources=("run_id",)),
    "chunk": Kind(word="chunk", model=KnowledgeChunk, sources=("document_id",)),
    "art": Kind(word="artifact", model=Artifact, sources=("run_id",)),
    "ctx": Kind(word="context", model=None),
}
# What may be made by one person's words and shown to others.
SHARED: Final = frozenset({"ent", "ecand", "smp"})
# What only its own person is ever shown.
PRIVATE: Final = frozenset({"msg", "run", "th", "node", "rec", "fact", "ccand", "corr", "art"})


def prefix_of(item_id: str) -> str:
    """Return the prefix of an id."""
    return item_id.partition("_")[0]


def word_of(item_id: str) -> str | None:
    """Return what an item with this id is called; None if none can be shown."""
    kind = KINDS.get(prefix_of(item_id))
    return kind.word if kind else None
