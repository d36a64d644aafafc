"""Reading shelves out of the database: what there is, and a shelf's rows in one piece.

The database joins the rows itself, so that five thousand arrive as a handful of values. One
statement sees one moment: a shelf's version and the rows up to it come from the same, whoever
writes meanwhile.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Final

import numpy as np
from django.db import connection
from numpy.typing import NDArray
from psycopg import Cursor

from memory.retrieval.codes import SCALE_BYTES, code_dtype
from memory.retrieval.records import HEAD
from memory.retrieval.shelf_copy import ID_BYTES, ShelfCopy, ShelfRows
from memory.scope import Scope

# Entries a statement; the rest of a larger shelf is read by the next one.
ROWS_AT_ONCE: Final = 20_000
# More entries than these without a vector are not asked for one by one.
MOST_LACKING: Final = 1_000

# One part for each kind of owner, so that each is found by the unique key of owners.
_SHELVES: Final = """
    SELECT id, version, generation FROM memory_shelf
    WHERE tenant_id = %(tenant)s AND end_user_id = %(user)s
    UNION ALL
    SELECT id, version, generation FROM memory_shelf
    WHERE tenant_id = %(tenant)s AND end_user_id IS NULL AND team_id = ANY (%(teams)s::text[])
    UNION ALL
    SELECT id, version, generation FROM memory_shelf
    WHERE tenant_id = %(tenant)s AND end_user_id IS NULL AND team_id IS NULL
"""
# is_open: the shelf's row was written by this very transaction, which may yet be undone. (The ids
# of its savepoints are later than its own.)
_ROWS: Final = """
    WITH shelf AS (
        SELECT version, generation,
            pg_current_xact_id_if_assigned() IS NOT NULL AND age(xmin) <= 0 AS is_open
        FROM memory_shelf WHERE tenant_id = %(tenant)s AND id = %(shelf)s
    ), entries AS MATERIALIZED (
        SELECT id, version, packed FROM memory_indexentry
        WHERE tenant_id = %(tenant)s AND shelf_id = %(shelf)s AND version > %(version)s
        ORDER BY version FETCH FIRST (%(most)s::bigint) ROWS WITH TIES
    ), found AS (
        SELECT count(*) AS count, max(version) AS version,
            string_agg(convert_to(id, 'UTF8'), ''::bytea ORDER BY version, id) AS ids,
            string_agg(substr(packed || %(blank)s::bytea, 1, %(head)s::int), ''::bytea ORDER BY version, id)
                AS heads,
            string_agg(substr(packed, %(head)s::int + 1), ''::bytea ORDER BY version, id) AS words,
            string_agg(int4send(octet_length(packed)), ''::bytea ORDER BY version, id) AS sizes
        FROM entries
    )
    SELECT shelf.version, shelf.generation, shelf.is_open, found.count, found.version, found.ids,
        found.heads, found.words, found.sizes, codes.codes, codes.sizes, late.ids, late.codes
    FROM shelf CROSS JOIN found
    LEFT JOIN LATERAL (
        SELECT string_agg(made.code, ''::bytea ORDER BY entries.version, entries.id) AS codes,
            string_agg(int4send(coalesce(octet_length(made.code), 0)), ''::bytea
                ORDER BY entries.version, entries.id) AS sizes
        FROM entries LEFT JOIN memory_embedding made ON made.tenant_id = %(tenant)s
            AND made.entry_id = entries.id AND made.model_id = %(model)s AND made.status = 'ready'
    ) codes ON %(model)s::text IS NOT NULL AND %(held)s::bigint + found.count <= %(exact)s::bigint
    LEFT JOIN LATERAL (
        SELECT string_agg(convert_to(entry_id, 'UTF8'), ''::bytea ORDER BY entry_id) AS ids,
            string_agg(code, ''::bytea ORDER BY entry_id) AS codes
        FROM memory_embedding WHERE tenant_id = %(tenant)s AND model_id = %(model)s
            AND entry_id = ANY (%(lacking)s::text[]) AND status = 'ready'
            AND octet_length(code) = %(code_bytes)s::int
    ) late ON %(code_bytes)s::int > 0
"""


@dataclass(frozen=True, slots=True)
class ShelfState:
    """Which shelf, and what its row says now."""

    id: str
    version: int
    generation: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Reading:
    """What one statement read of a shelf.

    Attributes:
        rows: What comes behind a copy's own rows, if the generation is the same.
        is_open: The transaction that reads has written to the shelf itself.
        has_more: There are rows left to read.
    """

    rows: ShelfRows
    is_open: bool
    has_more: bool


def read_states(*, scope: Scope) -> list[ShelfState]:
    """Return the shelves of a scope: its person's, its teams' and the tenant's own.

    A scope without person has no person's shelf, though it may see them. Cost: one statement.
    """
    values = {"tenant": scope.tenant_id, "user": scope.user_id, "teams": list(scope.team_ids)}
    with connection.cursor() as cursor:
        cursor.execute(_SHELVES, values)
        return [ShelfState(*row) for row in cursor.fetchall()]


def read_rows(*, scope: Scope, copy: ShelfCopy, most_codes: int) -> Reading | None:
    """Return what a shelf has that its copy has not, at most some 20,000 entries at once.

    Cost: one statement; about 2 µs an entry without vector, 5 with it.

    Returns:
        None if the scope has no such shelf (any more).
    """
    lacking = copy.lacking if copy.model_id else []
    values: dict[str, Any] = {
        "tenant": scope.tenant_id,
        "shelf": copy.shelf_id,
        "model": copy.model_id,
        "version": copy.version,
        "held": len(copy),
        "most": ROWS_AT_ONCE,
        "exact": most_codes,
        "head": HEAD.itemsize,
        "blank": bytes(HEAD.itemsize),
        "lacking": lacking,
        "code_bytes": copy.codes.dtype.itemsize if lacking and copy.codes is not None else 0,
    }
    # As text each byte would travel as two digits, and Django's own cursors know no other way.
    with connection.wrap_database_errors, Cursor(connection.connection) as cursor:
        row = cursor.execute(_ROWS, values, binary=True).fetchone()
    return None if row is None else _reading(row)


def _reading(row: tuple[Any, ...]) -> Reading:
    version, generation, is_open, count, last, ids, heads, words, sizes, *rest = row
    codes, code_sizes, late_ids, late_codes = rest
    has_more = count >= ROWS_AT_ONCE
    lengths = np.frombuffer(sizes or b"", dtype=">i4").astype(np.int64) - HEAD.itemsize
    found = np.frombuffer(heads or b"", dtype=HEAD)
    is_damaged = bool((lengths != 4 * found["words"].astype(np.int64)).any())
    found_words = np.frombuffer(b"" if is_damaged else words or b"", dtype="<u4")
    rows = ShelfRows(
        version=last if has_more else version,
        generation=generation,
        ids=np.frombuffer(ids or b"", dtype=f"S{ID_BYTES}"),
        heads=found,
        words=found_words.astype(np.uint32, copy=False),
        ends=np.zeros(count, np.int64) if is_damaged else np.cumsum(lengths // 4),
        codes=_codes(codes, code_sizes),
        is_damaged=is_damaged,
        late_ids=np.frombuffer(late_ids or b"", dtype=f"S{ID_BYTES}"),
        late_codes=_codes(late_codes, None, count=len(late_ids or b"") // ID_BYTES),
    )
    return Reading(rows=rows, is_open=is_open, has_more=has_more)


def _codes(codes: bytes | None, sizes: bytes | None, *, count: int = 0) -> NDArray[np.void] | None:
    """Return one code an entry: of the commonest length; those of another count as missing."""
    if not codes:
        return None
    if sizes is None:
        return np.frombuffer(codes, dtype=code_dtype(len(codes) // count - SCALE_BYTES))
    lengths = np.frombuffer(sizes, dtype=">i4").astype(np.int64)
    size = int(np.bincount(lengths[lengths > 0]).argmax())
    dtype = code_dtype(size - SCALE_BYTES)
    if (lengths == size).all():
        return np.frombuffer(codes, dtype=dtype)
    made = np.zeros(len(lengths), dtype=dtype)
    starts = np.cumsum(lengths) - lengths
    view = np.frombuffer(codes, dtype=np.uint8)
    whole = np.flatnonzero(lengths == size)
    made[whole] = view[starts[whole, None] + np.arange(size)].view(dtype).reshape(-1)
    return made
