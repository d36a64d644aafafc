"""What was made of an item, over any number of steps: a walk along the rows that name their source.

Inside the caller's transaction. Each step asks for ids and times only.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from governance.models import Correction, EntityCandidate
from memory.models import Embedding, EntityEvent, IndexEntry
from memory.scope import Scope
from threads.uses.kinds import KINDS, prefix_of
from threads.uses.records import Found, Linked

# Of one kind in one step; more are counted and not followed.
MOST: Final = 500
_INDEXED: Final = {"rec": "recall_id", "mem": "item_id", "fact": "fact_id", "chunk": "chunk_id"}


@dataclass(frozen=True, slots=True, kw_only=True)
class _Edge:
    """Rows of a kind that name, in a column, what they were made of."""

    made: str
    by: str


_EDGES: Final[Mapping[str, tuple[_Edge, ...]]] = {
    "run": (
        _Edge(made="rec", by="run_id__in"),
        _Edge(made="ccand", by="run_id__in"),
        _Edge(made="fact", by="run_id__in"),
        _Edge(made="mem", by="run_id__in"),
        _Edge(made="mver", by="run_id__in"),
        _Edge(made="corr", by="run_id__in"),
        _Edge(made="art", by="run_id__in"),
        _Edge(made="doc", by="run_id__in"),
    ),
    "msg": (_Edge(made="corr", by="message_id__in"),),
    "ccand": (_Edge(made="fact", by="candidate_id__in"),),
    "corr": (_Edge(made="ecand", by="corrections__in"),),
    "ecand": (_Edge(made="ent", by="candidate_id__in"),),
    "mver": (_Edge(made="mem", by="versions__in"),),
    "doc": (_Edge(made="chunk", by="document_id__in"),),
}


def made_of(*, scope: Scope, seeds: Collection[str], known: Sequence[Linked] = ()) -> Found:
    """Return what was made of the seeds, and what is `known` to be, with what was made of that.

    What leads to it in the index is counted, not listed. Cost: up to eight queries for each step of
    at most five, each bounded, and four counts.
    """
    seen = {*seeds, *(one.id for one in known)}
    linked, counts, is_whole = list(known), Counter(one.kind for one in known), True
    frontier = set(seen)
    while frontier:
        found: set[str] = set()
        for prefix, ids in _by_prefix(frontier).items():
            for edge in _EDGES.get(prefix, ()):
                rows, total = _step(scope, edge, ids, seen)
                linked += rows
                seen |= {row.id for row in rows}
                found |= {row.id for row in rows}
                counts[KINDS[edge.made].word] += total
                is_whole &= total == len(rows)
        frontier = found
    counts += _led_to(scope, seen)
    return Found(linked=tuple(linked), counts=dict(+counts), is_whole=is_whole)


def versions_of(*, scope: Scope, item_id: str) -> list[Linked]:
    """Return what an item said before and says. Cost: one query."""
    kind = KINDS["mver"]
    rows = kind.model.objects.in_scope(scope).filter(item_id=item_id).order_by("-version")
    found = rows.values_list("pk", kind.at)[:MOST]
    return [Linked(kind=kind.word, id=pk, at=at) for pk, at in found]


def evidence_of(*, scope: Scope, candidate_id: str) -> list[Linked]:
    """Return the corrections that a term came of. Cost: one query."""
    kind = KINDS["corr"]
    rows = Correction.objects.in_scope(scope).filter(candidate_id=candidate_id)
    found = rows.order_by("-created_at", "-id").values_list("pk", "created_at")[:MOST]
    return [Linked(kind=kind.word, id=pk, at=at) for pk, at in found]


def evidence_of_entity(*, scope: Scope, entity_id: str) -> list[Linked]:
    """Return the candidates that became an entity, and their corrections. Cost: two queries each."""
    rows = EntityCandidate.objects.in_scope(scope).filter(entity_id=entity_id)
    found: list[Linked] = []
    for pk, at in rows.order_by("-created_at", "-id").values_list("pk", "created_at")[:50]:
        found.append(Linked(kind=KINDS["ecand"].word, id=pk, at=at))
        found += evidence_of(scope=scope, candidate_id=pk)
    return found


def _step(
    scope: Scope, edge: _Edge, ids: Sequence[str], seen: Collection[str]
) -> tuple[list[Linked], int]:
    kind = KINDS[edge.made]
    rows = kind.model.objects.in_scope(scope).filter(**{edge.by: ids}).exclude(pk__in=list(seen))
    newest = rows.order_by("-pk").distinct().values_list("pk", kind.at)
    found = [Linked(kind=kind.word, id=pk, at=at) for pk, at in newest[: MOST + 1]]
    total = len(found) if len(found) <= MOST else rows.distinct().count()
    return found[:MOST], total


def _by_prefix(ids: Collection[str]) -> dict[str, list[str]]:
    sorted_ids: dict[str, list[str]] = {}
    for one in sorted(ids):
        sorted_ids.setdefault(prefix_of(one), []).append(one)
    return sorted_ids


def _led_to(scope: Scope, ids: Collection[str]) -> Counter[str]:
    """Return how many entries of the index, vectors and hits of entities there are."""
    counts: Counter[str] = Counter()
    for prefix, some in _by_prefix(ids).items():
        if prefix in _INDEXED:
            by = _INDEXED[prefix]
            entries = IndexEntry.objects.in_scope(scope).filter(**{f"{by}__in": some})
            vectors = Embedding.objects.in_scope(scope).filter(**{f"entry__{by}__in": some})
            counts["index_entry"] += entries.count()
            counts["vector"] += vectors.count()
        if prefix in ("ent", "run"):
            by = "entity_id__in" if prefix == "ent" else "run_id__in"
            counts["entity_event"] += (
                EntityEvent.objects.in_scope(scope).filter(**{by: some}).count()
            )
    return counts
