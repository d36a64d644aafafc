"""Vectors of entries: stored beside them, or the note that one could not be made."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Final

import numpy as np
from django.db import connection

from memory.errors import NotFoundError
from memory.ids import new_id
from memory.models import EmbeddingModel
from memory.retrieval.codes import Vector, code_of
from memory.scope import Scope
from memory.store.shelves import next_version

WRONG_LENGTH: Final = "wrong_length"
NOT_A_DIRECTION: Final = "not_a_direction"
UNKNOWN: Final = "embedding_failed"

# A row that is good stays good: a late failure only counts.
_PUT: Final = """
    WITH given AS (
        SELECT * FROM unnest(%(ids)s::text[], %(entries)s::text[], %(vectors)s::text[],
            %(codes)s::bytea[], %(errors)s::text[]) AS given (id, entry_id, vector, code, error)
    ), there AS (
        SELECT id, tenant_id, end_user_id, team_id FROM memory_indexentry
        WHERE tenant_id = %(tenant)s AND shelf_id = %(shelf)s AND id = ANY (%(entries)s::text[])
        ORDER BY id FOR KEY SHARE
    )
    INSERT INTO memory_embedding AS old (id, tenant_id, end_user_id, team_id, entry_id, model_id,
        status, vector, code, attempts, error_code, version, updated_at)
    SELECT given.id, there.tenant_id, there.end_user_id, there.team_id, there.id, %(model)s,
        CASE WHEN given.error = '' THEN 'ready' ELSE 'failed' END, given.vector::halfvec,
        given.code, 1, given.error, %(version)s, %(now)s
    FROM given JOIN there ON there.id = given.entry_id
    ON CONFLICT (tenant_id, entry_id, model_id) DO UPDATE SET
        status = CASE WHEN EXCLUDED.status = 'failed' THEN old.status ELSE 'ready' END,
        vector = coalesce(EXCLUDED.vector, old.vector), code = coalesce(EXCLUDED.code, old.code),
        attempts = old.attempts + 1,
        error_code = CASE WHEN old.status = 'ready' THEN '' ELSE EXCLUDED.error_code END,
        version = EXCLUDED.version, updated_at = EXCLUDED.updated_at
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class NewVector:
    """What a model gave for one entry: its vector, or None and the code of what went wrong."""

    entry_id: str
    vector: Vector | None
    error_code: str = ""


@dataclass(frozen=True, slots=True)
class _Row:
    """One vector as it is stored; failed, it has neither text nor code."""

    vector: str | None = None
    code: bytes | None = None
    error: str = ""


def put_vectors(
    *,
    scope: Scope,
    shelf_id: str,
    model_id: str,
    vectors: Sequence[NewVector],
    now: datetime,
) -> int:
    """Store the vectors of entries of one shelf, at unit length; return how many rows were written.

    A vector of another length than the model's, or one that points nowhere (all zero, infinite), is
    kept as failed. A second try replaces the first and counts; it never takes a good vector away.
    Entries that are gone are passed over. Cost: three statements; about 0.2 ms a vector.

    Raises:
        NotFoundError: The scope has no such shelf or model.
    """
    models = EmbeddingModel.objects.in_scope(scope).filter(pk=model_id)
    dimensions = models.values_list("dimensions", flat=True).first()
    if dimensions is None:
        raise NotFoundError
    # One row an entry, since one statement can not write the same row twice: the last one counts.
    given = {vector.entry_id: _row(vector, dimensions) for vector in vectors}
    if not given:
        return 0
    version = next_version(scope=scope, shelf_id=shelf_id)
    values: dict[str, Any] = {
        "ids": [new_id("vec") for _ in given],
        "entries": list(given),
        "vectors": [row.vector for row in given.values()],
        "codes": [row.code for row in given.values()],
        "errors": [row.error for row in given.values()],
        "tenant": scope.tenant_id,
        "shelf": shelf_id,
        "model": model_id,
        "version": version,
        "now": now,
    }
    with connection.cursor() as cursor:
        cursor.execute(_PUT, values)
        return int(cursor.rowcount)


def _row(given: NewVector, dimensions: int) -> _Row:
    if given.vector is None or given.error_code:
        return _Row(error=(given.error_code or UNKNOWN)[:64])
    if given.vector.shape != (dimensions,):
        return _Row(error=WRONG_LENGTH)
    length = float(np.linalg.norm(given.vector.astype(np.float64)))
    if not 0 < length < float("inf"):
        return _Row(error=NOT_A_DIRECTION)
    unit = (given.vector / length).astype(np.float32)
    return _Row(vector=_text(unit), code=code_of(unit))


def _text(unit: Vector) -> str:
    # Half precision has three digits and a bit; a fourth and a fifth keep rounding out of it.
    return "[" + ",".join([f"{number:.5g}" for number in unit.tolist()]) + "]"
