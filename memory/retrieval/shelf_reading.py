"""Reading shelves out of the database: what there is, and a shelf's rows in one piece.

One statement sees one moment: a shelf's version and the entries up to it come from the same, whoever
writes meanwhile. Vectors may be of a later moment than the entries they belong to.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from typing import Any, Final, LiteralString

import numpy as np
from django.db import connection
from numpy.typing import NDArray
from psycopg import Cursor

from memory.retrieval.codes import SCALE_BYTES, code_dtype
from memory.retrieval.limits import OPEN
from memory.retrieval.shelf_copy import ShelfCopy, ShelfRows, as_ids, parse_records
from memory.scope import Scope

# Entries a statement; the rest of a larger shelf is read by the next one.
ROWS_AT_ONCE: Final = 20_000
# More entries than these without a vector are not asked for one by one.
MOST_LACKING: Final = 1_000

_SHELVES: Final = """
    SELECT id, version, generation, end_user_id, team_id FROM memory_shelf
    WHERE tenant_id = %(tenant)s AND (end_user_id = %(user)s OR (end_user_id IS NULL
        AND (team_id IS NULL OR team_id = ANY (%(teams)s::text[]))))
"""
OPEN_SHELVES: Final = OPEN + _SHELVES
# The first row is the shelf's. is_open: it was written by this very transaction, which may yet be
# undone. (The ids of its savepoints are later than its own.)
_ROWS: Final = """
    SELECT ''::text AS id, version, NULL::bytea AS packed, generation,
        pg_current_xact_id_if_assigned() IS NOT NULL AND age(xmin) <= 0 AS is_open
    FROM memory_shelf WHERE tenant_id = %(tenant)s AND id = %(shelf)s
    UNION ALL (
        SELECT id, version, packed, NULL, NULL FROM memory_indexentry
        WHERE tenant_id = %(tenant)s AND shelf_id = %(shelf)s AND version > %(version)s::bigint
        ORDER BY version FETCH FIRST (%(most)s::bigint) ROWS WITH TIES
    )
"""
# All vectors of an owner, along the index of owners; of the tenant's own shelf, entry by entry.
_PERSONS_CODES: Final = """
    SELECT entry_id, code FROM memory_embedding WHERE tenant_id = %(tenant)s
        AND model_id = %(model)s AND status = 'ready' AND end_user_id = %(user)s
"""
_TEAMS_CODES: Final = """
    SELECT entry_id, code FROM memory_embedding WHERE tenant_id = %(tenant)s
        AND model_id = %(model)s AND status = 'ready' AND team_id = %(team)s
"""
_TENANTS_CODES: Final = """
    SELECT made.entry_id, made.code FROM memory_indexentry entry
    JOIN memory_embedding made ON made.tenant_id = entry.tenant_id AND made.entry_id = entry.id
    WHERE entry.tenant_id = %(tenant)s AND entry.shelf_id = %(shelf)s
        AND made.model_id = %(model)s AND made.status = 'ready'
"""
_SOME_CODES: Final = """
    SELECT entry_id, code FROM memory_embedding WHERE tenant_id = %(tenant)s
        AND model_id = %(model)s AND status = 'ready' AND entry_id = ANY (%(entries)s::text[])
"""


@dataclass(frozen=True, slots=True)
class ShelfState:
    """Which shelf, and what its row says now."""

    id: str
    version: int
    generation: int
    end_user_id: str | None
    team_id: str | None


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


def states_values(*, scope: Scope) -> dict[str, Any]:
    """Return the values of OPEN_SHELVES: the shelves of the scope's person, its teams and its tenant.

    A scope without person has no person's shelf, though it may see them.
    """
    return {"tenant": scope.tenant_id, "user": scope.user_id, "teams": list(scope.team_ids)}


def read_states(*, scope: Scope) -> list[ShelfState]:
    """Return the shelves of a scope. Cost: one statement."""
    with connection.cursor() as cursor:
        cursor.execute(_SHELVES, states_values(scope=scope))
        return [ShelfState(*row) for row in cursor.fetchall()]


def read_rows(*, scope: Scope, copy: ShelfCopy) -> Reading | None:
    """Return the entries that a shelf has and its copy has not, some 20,000 at once.

    Cost: one statement; about 1 µs an entry, and what row-level security takes.

    Returns:
        None if the scope has no such shelf (any more).
    """
    values = {
        "tenant": scope.tenant_id,
        "shelf": copy.shelf_id,
        "version": copy.version,
        "most": ROWS_AT_ONCE,
    }
    rows = _fetched(_ROWS, values)
    if not rows:
        return None
    (_, version, _, generation, is_open), *entries = rows
    has_more = len(entries) >= ROWS_AT_ONCE
    ids, versions, records, *_ = zip(*entries, strict=True) if entries else ((), (), ())
    heads, words, ends = parse_records(records)
    return Reading(
        rows=ShelfRows(
            version=versions[-1] if has_more else version,
            generation=generation,
            ids=as_ids(ids),
            heads=heads,
            words=words,
            ends=ends,
        ),
        is_open=is_open,
        has_more=has_more,
    )


def read_codes(
    *, scope: Scope, copy: ShelfCopy, state: ShelfState
) -> tuple[NDArray[np.bytes_], NDArray[np.void] | None]:
    """Return vectors that a copy lacks, and whose they are: of the commonest length, no others.

    They may be of a later moment than the entries; what is not in the copy is passed over.
    Cost: one statement; 1 µs a vector, and what row-level security takes.
    """
    lacking = copy.lacking
    values: dict[str, Any] = {
        "tenant": scope.tenant_id,
        "model": copy.model_id,
        "shelf": copy.shelf_id,
        "user": state.end_user_id,
        "team": state.team_id,
    }
    if copy.codes is not None and len(lacking) <= MOST_LACKING:
        rows = _fetched(_SOME_CODES, values | {"entries": lacking}) if lacking else []
    elif state.end_user_id:
        rows = _fetched(_PERSONS_CODES, values)
    else:
        rows = _fetched(_TEAMS_CODES if state.team_id else _TENANTS_CODES, values)
    if not rows:
        return as_ids(()), None
    size = Counter(len(code) for _, code in rows).most_common(1)[0][0]
    whole = [(entry_id, code) for entry_id, code in rows if len(code) == size]
    codes = np.frombuffer(
        b"".join([code for _, code in whole]), dtype=code_dtype(size - SCALE_BYTES)
    )
    return as_ids([entry_id for entry_id, _ in whole]), codes


def _fetched(statement: LiteralString, values: dict[str, Any]) -> list[Any]:
    # As text each byte would travel as two digits, and Django's own cursors know no other way.
    with connection.wrap_database_errors, Cursor(connection.connection) as cursor:
        return cursor.execute(statement, values, binary=True).fetchall()
