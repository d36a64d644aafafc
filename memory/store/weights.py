"""Moving the weights of entities: up by hits, down by idleness; each a single statement on the rows.

The new weight is always reckoned from the row as it is, never from what somebody read, so that a
hit, a decay and a decision at the same moment all count.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import date, datetime
from typing import Any, Final

from django.db import connection

from memory.ids import new_id
from memory.scope import Scope

# No policy can take a weight to nothing.
_LEAST: Final = 0.001
_LOCK: Final = """
    SELECT id FROM memory_entity
    WHERE tenant_id = %(tenant)s AND id = ANY (%(ids)s::text[]) AND status = 'active'
    ORDER BY id FOR NO KEY UPDATE
"""
_HIT: Final = """
    WITH noted AS (
        INSERT INTO memory_entityevent (id, tenant_id, end_user_id, entity_id, run_id, kind,
            weight_before, weight_after, day, by, other, at)
        SELECT given.event_id, %(tenant)s, %(end_user)s, entity.id, %(run)s, 'hit', entity.weight,
            least(entity.weight * %(factor)s, %(cap)s), %(day)s, %(by)s, '', %(now)s
        FROM memory_entity entity
        JOIN unnest(%(ids)s::text[], %(events)s::text[]) AS given (id, event_id)
            ON given.id = entity.id
        WHERE entity.tenant_id = %(tenant)s
        ON CONFLICT (tenant_id, entity_id, end_user_id, day) WHERE kind = 'hit' DO NOTHING
        RETURNING entity_id
    )
    UPDATE memory_entity entity SET weight = least(entity.weight * %(factor)s, %(cap)s),
        last_hit_at = greatest(entity.last_hit_at, %(at)s)
    FROM noted WHERE entity.tenant_id = %(tenant)s AND entity.id = noted.entity_id
"""
_IDLE: Final = """
    entity.tenant_id = %(tenant)s AND entity.status = 'active' AND entity.weight > %(floor)s
    AND coalesce(entity.last_hit_at, entity.approved_at)
        <= %(now)s - make_interval(days => %(days)s)
    AND (entity.last_decayed_at IS NULL
        OR entity.last_decayed_at <= %(now)s - make_interval(days => %(days)s))
"""
_COUNT: Final = f"SELECT count(*) FROM memory_entity entity WHERE {_IDLE}"  # noqa: S608 - constants
_LOCK_IDLE: Final = f"""
    SELECT entity.id FROM memory_entity entity WHERE {_IDLE}
    ORDER BY entity.id FOR NO KEY UPDATE
"""  # noqa: S608 - built from constants
_DECAY: Final = """
    WITH noted AS (
        INSERT INTO memory_entityevent (id, tenant_id, end_user_id, entity_id, run_id, kind,
            weight_before, weight_after, day, by, other, at)
        SELECT given.event_id, %(tenant)s, NULL, entity.id, NULL, 'decayed', entity.weight,
            greatest(entity.weight * %(factor)s, %(floor)s), NULL, %(by)s, '', %(now)s
        FROM memory_entity entity
        JOIN unnest(%(ids)s::text[], %(events)s::text[]) AS given (id, event_id)
            ON given.id = entity.id
        WHERE entity.tenant_id = %(tenant)s
        RETURNING entity_id
    )
    UPDATE memory_entity entity SET weight = greatest(entity.weight * %(factor)s, %(floor)s),
        last_decayed_at = %(now)s
    FROM noted WHERE entity.tenant_id = %(tenant)s AND entity.id = noted.entity_id
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Rise:
    """How weights rise: by a factor, to a cap."""

    factor: float
    cap: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Fall:
    """How weights fall: by a factor, to a floor, when idle for so many days."""

    factor: float
    floor: float
    days: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Hit:
    """Whose run named entities, and when."""

    end_user_id: str
    run_id: str
    at: datetime
    day: date


def raise_weights(
    *, scope: Scope, entity_ids: Sequence[str], hit: Hit, rise: Rise, now: datetime
) -> int:
    """Count a hit of active entities, each once a person and day; return how many rose.

    Cost: two statements, however many there are; none for none.

    Args:
        scope: May write what the tenant shares.
        entity_ids: Those that the run named.
        hit: Whose run it was.
        rise: By how much.
        now: When it is counted.
    """
    values: dict[str, Any] = {
        "tenant": scope.tenant_id,
        "end_user": hit.end_user_id,
        "run": hit.run_id,
        "day": hit.day,
        "at": min(hit.at, now),
        "by": scope.principal_id,
        "now": now,
        "factor": rise.factor,
        "cap": rise.cap,
    }
    return _moved(_LOCK, _HIT, values | {"ids": list(entity_ids)}) if entity_ids else 0


def lower_weights(*, scope: Scope, fall: Fall, now: datetime) -> int:
    """Lower the weights of what has been idle, each at most once in so many days; return how many.

    Cost: two statements over the tenant's entities.
    """
    values = _fall_values(scope, fall, now)
    return _moved(_LOCK_IDLE, _DECAY, values)


def count_idle(*, scope: Scope, fall: Fall, now: datetime) -> int:
    """Return how many weights `lower_weights` would lower now. Cost: one statement."""
    with connection.cursor() as cursor:
        cursor.execute(_COUNT, _fall_values(scope, fall, now))
        return int(cursor.fetchone()[0])


def _fall_values(scope: Scope, fall: Fall, now: datetime) -> dict[str, Any]:
    return {
        "tenant": scope.tenant_id,
        "by": scope.principal_id,
        "now": now,
        "factor": fall.factor,
        "floor": max(fall.floor, _LEAST),
        "days": fall.days,
    }


def _moved(lock: str, move: str, values: dict[str, Any]) -> int:
    """Lock rows in their order, then move their weights as they are by then; return how many."""
    with connection.cursor() as cursor:
        cursor.execute(lock, values)
        ids = [entity_id for (entity_id,) in cursor.fetchall()]
        if not ids:
            return 0
        cursor.execute(move, values | {"ids": ids, "events": [new_id("eev") for _ in ids]})
        return int(cursor.rowcount)
