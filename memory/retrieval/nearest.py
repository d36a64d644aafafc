"""The nearest vectors of a shelf too large to compare whole: found by the database.

By an HNSW index where the operator made one (`manage.py index_vectors`), else by comparing all of
the owner's vectors. An index walks past rows of others and stops after so many, so fewer than asked
for are not believed: they are counted again by comparing.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Final

import numpy as np
from django.db import DatabaseError, OperationalError, connection, transaction
from numpy.typing import NDArray
from psycopg import sql

from memory.retrieval.codes import Vector
from memory.retrieval.limits import TimeLimit
from memory.retrieval.ranking import Floats
from memory.retrieval.results import VECTOR_INDEX_UNUSABLE, RecallQuery
from memory.retrieval.shelf_copy import ID_BYTES, ShelfCopy
from memory.retrieval.tracing import TraceBook
from memory.scope import Scope

_LEAST_NEAREST: Final = 200
# The shelf's owner; whether there is an index of ours over vectors of this length, and a good one.
_LOOK: Final = """
    SELECT end_user_id, team_id, (
        SELECT coalesce(bool_or(state.indisvalid AND state.indisready), false)
        FROM pg_index state JOIN pg_class name ON name.oid = state.indexrelid
        WHERE state.indrelid = to_regclass('memory_embedding') AND name.relname = ANY (%(names)s)
    ), (
        SELECT count(*)
        FROM pg_index state JOIN pg_class name ON name.oid = state.indexrelid
        WHERE state.indrelid = to_regclass('memory_embedding') AND name.relname = ANY (%(names)s)
    )
    FROM memory_shelf WHERE tenant_id = %(tenant)s AND id = %(shelf)s
"""
# The scope's filters are applied while the index is walked, so it must be walked far enough. Without
# a ban on sorting the planner, which thinks few rows pass row-level security, never walks it.
_WALK_FAR: Final = """
    SELECT pg_catalog.set_config('hnsw.iterative_scan', 'relaxed_order', true),
        set_config('hnsw.ef_search', '400', true),
        set_config('hnsw.max_scan_tuples', '200000', true), set_config('enable_sort', 'off', true)
"""
_SORT_AGAIN: Final = "SELECT pg_catalog.set_config('enable_sort', 'on', true)"
_DISTANCE: Final = "(vector::halfvec({n}) <=> %(vector)s::halfvec({n}))"
_SELECT: Final = (
    "SELECT entry_id, 1 - "  # noqa: S608 - constants; the dimensions are a number of ours
    + _DISTANCE
    + " FROM memory_embedding WHERE tenant_id = %(tenant)s AND model_id = %(model)s"
    " AND status = 'ready' AND vector_dims(vector) = {n} AND {owner} ORDER BY "
)
_BY_INDEX: Final = sql.SQL(_SELECT + _DISTANCE + " LIMIT %(most)s")
# A sum is no order that an index has.
_EXACTLY: Final = sql.SQL(_SELECT + _DISTANCE + " + 0 LIMIT %(most)s")
_OF_PERSON: Final = sql.SQL("end_user_id = %(user)s")
_OF_TEAM: Final = sql.SQL("end_user_id IS NULL AND team_id = %(team)s")
_OF_TENANT: Final = sql.SQL("end_user_id IS NULL AND team_id IS NULL")


@dataclass(frozen=True, slots=True)
class _Found:
    ids: NDArray[np.bytes_]
    cosines: Floats


def index_names(*, dimensions: int, tenant_id: str) -> tuple[str, str]:
    """Return the names of the indexes over vectors of a length: of all tenants, and of one."""
    shared = f"memory_embedding_hnsw_{dimensions}"
    return shared, f"{shared}_{tenant_id.rpartition('_')[2]}"


def nearest_cosines(
    copy: ShelfCopy, *, scope: Scope, query: RecallQuery, limit: TimeLimit, book: TraceBook
) -> Floats | None:
    """Return the cosines of the nearest entries, NaN for the others; None without a vector.

    Cost: three statements by an index, two by comparing: about 0.4 µs a vector.

    Raises:
        OverTimeError: It took too long.
    """
    if query.vector is None or query.model_id is None:
        return None
    values: dict[str, Any] = {
        "tenant": scope.tenant_id,
        "shelf": copy.shelf_id,
        "model": query.model_id,
        "most": max(_LEAST_NEAREST, 4 * query.limit),
        "vector": _text(query.vector),
        "names": list(index_names(dimensions=query.vector.size, tenant_id=scope.tenant_id)),
    }
    limit.hold()
    with connection.cursor() as cursor:
        cursor.execute(_LOOK, values)
        user, team, is_usable, index_count = cursor.fetchone() or (None, None, False, 0)
    values |= {"user": user, "team": team}
    found = _by_index(values, query.vector.size, len(copy)) if is_usable else None
    if found is None:
        exact = _ask(_EXACTLY, values, query.vector.size)
        if index_count:
            book.note(VECTOR_INDEX_UNUSABLE)
        found = exact
    cosines = np.full(len(copy), np.nan, dtype=np.float32)
    rows = copy.rows_of(found.ids)
    cosines[rows[rows >= 0]] = found.cosines[rows >= 0]
    return cosines


def _by_index(values: dict[str, Any], dimensions: int, shelf_size: int) -> _Found | None:
    """Return what the index gives; None if that is an error, or fewer than there must be."""
    try:
        with transaction.atomic():
            with connection.cursor() as cursor:
                cursor.execute(_WALK_FAR)
            found = _ask(_BY_INDEX, values, dimensions)
            with connection.cursor() as cursor:
                cursor.execute(_SORT_AGAIN)
    except OperationalError:  # the time is over, or the server is going
        raise
    except DatabaseError:
        return None
    return found if len(found.ids) >= min(int(values["most"]), shelf_size) else None


def _ask(statement: sql.SQL, values: dict[str, Any], dimensions: int) -> _Found:
    owner = _OF_TENANT
    if values["user"] is not None:
        owner = _OF_PERSON
    elif values["team"] is not None:
        owner = _OF_TEAM
    with connection.cursor() as cursor:
        cursor.execute(statement.format(n=sql.Literal(dimensions), owner=owner), values)
        rows = cursor.fetchall()
    return _Found(
        ids=np.array([row[0].encode() for row in rows], dtype=f"S{ID_BYTES}"),
        cosines=np.array([row[1] for row in rows], dtype=np.float32),
    )


def _text(vector: Vector) -> str:
    return "[" + ",".join([f"{number:.5g}" for number in vector.tolist()]) + "]"
