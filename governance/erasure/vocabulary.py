"""Corrections, and what of the tenant's vocabulary is born of one person's words alone.

A candidate with evidence of others stays, with theirs. One without goes with its entity, the merges
and the events of that, or under policy stays without evidence (`erase_entities`).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from typing import Any, Final

from django.db import connection
from django.utils import timezone

from governance.entities.merges import unmerge
from governance.entities.problems import NotMergedError
from governance.erasure.subjects import ERASER, Subject
from governance.policy import policy_for
from memory.models import Entity, EntityStatus
from memory.store.entities import hold_vocabulary

_BATCH: Final = 500
_ERASE: Final = """
    DELETE FROM governance_correction WHERE id IN (
        SELECT id FROM governance_correction
        WHERE tenant_id = %(tenant)s AND end_user_id = %(person)s ORDER BY id LIMIT %(most)s)
    RETURNING candidate_id
"""
_RECOUNT: Final = """
    UPDATE governance_entitycandidate candidate SET evidence_count = (
        SELECT count(*) FROM governance_correction
        WHERE tenant_id = %(tenant)s AND candidate_id = candidate.id)
    WHERE tenant_id = %(tenant)s AND id = ANY (%(candidates)s::text[])
    RETURNING id, evidence_count
"""
_COUNT: Final = """
    SELECT count(*) FROM governance_correction
    WHERE tenant_id = %(tenant)s AND end_user_id = %(person)s
"""
# Candidates all of whose evidence is this person's.
_BORN: Final = """
    SELECT DISTINCT candidate_id FROM governance_correction
    WHERE tenant_id = %(tenant)s AND end_user_id = %(person)s AND candidate_id IS NOT NULL
    AND candidate_id NOT IN (SELECT candidate_id FROM governance_correction
        WHERE tenant_id = %(tenant)s AND end_user_id <> %(person)s AND candidate_id IS NOT NULL)
"""
# Entities that came from such candidates and have no evidence of anybody else.
_ENTITIES: Final = """
    SELECT id FROM memory_entity entity WHERE tenant_id = %(tenant)s
    AND candidate_id = ANY (%(candidates)s::text[])
    AND NOT EXISTS (SELECT 1 FROM governance_entitycandidate other
        JOIN governance_correction correction ON correction.candidate_id = other.id
        WHERE other.tenant_id = %(tenant)s AND other.entity_id = entity.id
        AND correction.end_user_id <> %(person)s)
    ORDER BY id
"""
# A candidate that waits for no evidence goes with the entity that it stood for.
_CANDIDATES: Final = """
    SELECT id FROM governance_entitycandidate WHERE tenant_id = %(tenant)s
    AND (id = ANY (%(candidates)s::text[]) OR entity_id = ANY (%(entities)s::text[]))
"""
_MERGES: Final = """
    SELECT id FROM memory_entitymerge WHERE tenant_id = %(tenant)s
    AND (source_id = ANY (%(entities)s::text[]) OR target_id = ANY (%(entities)s::text[]))
"""
# Hits of the person are counted by themselves.
_EVENTS: Final = """
    SELECT id FROM memory_entityevent WHERE tenant_id = %(tenant)s
    AND entity_id = ANY (%(entities)s::text[]) AND end_user_id IS DISTINCT FROM %(person)s
"""
# Hits of the person's on such an entity go with it, before their own step comes to them.
_HITS: Final = """
    SELECT id FROM memory_entityevent WHERE tenant_id = %(tenant)s
    AND entity_id = ANY (%(entities)s::text[]) AND end_user_id = %(person)s
"""
# An entity that others speak of as well is theirs now.
_HAND_OVER: Final = """
    UPDATE memory_entity entity SET candidate_id = (
        SELECT min(other.id) FROM governance_entitycandidate other
        WHERE other.tenant_id = %(tenant)s AND other.entity_id = entity.id
        AND other.id <> ALL (%(candidates)s::text[]))
    WHERE tenant_id = %(tenant)s AND candidate_id = ANY (%(candidates)s::text[])
    AND id <> ALL (%(entities)s::text[])
"""
_DELETE: Final = (
    (
        "DELETE FROM memory_entityevent WHERE tenant_id = %(tenant)s"
        " AND entity_id = ANY (%(entities)s::text[])"
    ),
    (
        "DELETE FROM memory_entitymerge WHERE tenant_id = %(tenant)s"
        " AND (source_id = ANY (%(entities)s::text[]) OR target_id = ANY (%(entities)s::text[]))"
    ),
    (
        "UPDATE governance_correction SET candidate_id = NULL WHERE tenant_id = %(tenant)s"
        " AND candidate_id = ANY (%(candidates)s::text[])"
    ),
    "DELETE FROM memory_entity WHERE tenant_id = %(tenant)s AND id = ANY (%(entities)s::text[])",
    (
        "DELETE FROM governance_entitycandidate WHERE tenant_id = %(tenant)s"
        " AND id = ANY (%(candidates)s::text[])"
    ),
)


def erase(subject: Subject) -> Mapping[str, int]:
    """Delete a batch of corrections, and what is left of nobody's words after that.

    The vocabulary is held meanwhile. Cost: about eight statements, more for merged entities.
    """
    hold_vocabulary(scope=subject.wide)
    rows = _rows(_ERASE, subject, most=_BATCH)
    touched = sorted({row[0] for row in rows if row[0] is not None})
    left = dict(_rows(_RECOUNT, subject, candidates=touched)) if touched else {}
    born = sorted(one for one, evidence in left.items() if evidence == 0)
    gone = Counter(corrections=len(rows))
    if born and _is_erased(subject):
        gone += _erase_born(subject, born)
    return gone


def count(subject: Subject) -> Mapping[str, int]:
    """Count corrections, and candidates and entities that are born of them alone."""
    found = Counter(corrections=int(_rows(_COUNT, subject)[0][0]))
    born = [row[0] for row in _rows(_BORN, subject)]
    if born and _is_erased(subject):
        found += _counts(subject, *_born_of(subject, born))
    return found


def _is_erased(subject: Subject) -> bool:
    return policy_for(scope=subject.wide, agent_overrides={}).is_on("erase_entities")


def _born_of(subject: Subject, candidates: list[str]) -> tuple[list[str], list[str]]:
    """Return the entities and the candidates that go with these candidates."""
    entities = [row[0] for row in _rows(_ENTITIES, subject, candidates=candidates)]
    named = _rows(_CANDIDATES, subject, candidates=candidates, entities=entities)
    return entities, [row[0] for row in named]


def _counts(subject: Subject, entities: list[str], candidates: list[str]) -> Counter[str]:
    return Counter(
        entities=len(entities),
        entity_candidates=len(candidates),
        entity_merges=len(_rows(_MERGES, subject, entities=entities)),
        entity_events=len(_rows(_EVENTS, subject, entities=entities)),
    )


def _erase_born(subject: Subject, born: list[str]) -> Counter[str]:
    entities, candidates = _born_of(subject, born)
    gone = _counts(subject, entities, candidates)
    hits = _rows(_HITS, subject, entities=entities)
    gone["entity_hits"] += len(hits)
    for entity_id in _merged(subject, entities):
        _take_apart(subject, entity_id)
    values = {**subject.values, "entities": entities, "candidates": candidates}
    with connection.cursor() as cursor:
        for statement in (_HAND_OVER, *_DELETE):
            cursor.execute(statement, values)
    return gone


def _take_apart(subject: Subject, entity_id: str) -> None:
    """Let a merged entity live by itself again, so that each keeps its own names."""
    try:
        unmerge(scope=subject.wide, entity_id=entity_id, by=ERASER, now=timezone.now())
    except NotMergedError:  # nobody wrote down how it was merged
        rows = Entity.objects.in_scope(subject.wide).filter(pk=entity_id)
        rows.update(status=EntityStatus.RETIRED, merged_into_id=None)


def _merged(subject: Subject, entities: list[str]) -> list[str]:
    """Return the entities that live on in these, and those of these that live on in others."""
    rows = Entity.objects.in_scope(subject.wide).filter(status=EntityStatus.MERGED)
    into = rows.filter(merged_into_id__in=entities) | rows.filter(pk__in=entities)
    return sorted(into.values_list("pk", flat=True))


def _rows(statement: str, subject: Subject, **values: Any) -> list[tuple[Any, ...]]:
    with connection.cursor() as cursor:
        cursor.execute(statement, {**subject.values, **values})
        return list(cursor.fetchall())
