"""Entities that may be one: names alike are proposed to people, and never merged by themselves."""

from __future__ import annotations

from datetime import datetime
from typing import Final

from django.db.models import Q

from governance import audit
from memory.models import Entity, EntityMerge, EntityStatus
from memory.retrieval.names import name_key
from memory.retrieval.words import words_of
from memory.scope import Scope
from memory.store.entities import add_merge

LEAST_LIKENESS: Final = 0.5
_MOST_PROPOSALS: Final = 3
_MOST_COMPARED: Final = 5_000


def likeness(one: str, other: str) -> float:
    """Return how alike two names are, 0 to 1. Pure; linear.

    The larger of two shares: of their pairs of signs together (Dice), and, where the shorter has at
    least two words, of its words that the longer has.
    """
    pairs = _pairs(one), _pairs(other)
    most = len(pairs[0]) + len(pairs[1])
    alike = 2 * len(pairs[0] & pairs[1]) / most if most else 0.0
    words = set(words_of(one)), set(words_of(other))
    fewest = min(len(words[0]), len(words[1]))
    shared = len(words[0] & words[1]) / fewest if fewest > 1 else 0.0
    return round(max(alike, shared), 4)


def propose_merges(*, scope: Scope, entity: Entity, now: datetime) -> int:
    """Propose to merge an entity with those most like it, audited; return how many are new.

    What was proposed, refused or done before is left alone. Inside the caller's transaction, which
    holds the vocabulary. Cost: two statements over the type's entities, three for each proposal.
    """
    known = EntityMerge.objects.in_scope(scope).filter(
        Q(source_id=entity.pk) | Q(target_id=entity.pk),
        status__in=("proposed", "merged", "refused"),
    )
    done = {pk for pair in known.values_list("source_id", "target_id") for pk in pair}
    rows = Entity.objects.in_scope(scope).filter(
        entity_type=entity.entity_type, status=EntityStatus.ACTIVE
    )
    others = rows.exclude(pk__in={*done, entity.pk}).order_by("-updated_at")
    scored = [
        (max(likeness(entity.term, name) for name in (term, *aliases)), pk)
        for pk, term, aliases in others.values_list("pk", "term", "aliases")[:_MOST_COMPARED]
    ]
    near = sorted((one for one in scored if one[0] >= LEAST_LIKENESS), reverse=True)
    for score, pk in near[:_MOST_PROPOSALS]:
        merge = add_merge(scope=scope, source_id=entity.pk, target_id=pk, score=score, now=now)
        audit.record(
            scope=scope,
            action="entity_merge_proposed",
            target_kind="entity_merge",
            target_id=merge.pk,
            now=now,
            detail={"source": entity.pk, "target": pk},
        )
    return len(near[:_MOST_PROPOSALS])


def _pairs(name: str) -> set[str]:
    key = f" {name_key(name)} "
    return {key[place : place + 2] for place in range(len(key) - 1)}
