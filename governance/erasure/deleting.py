"""How one step of an erasure goes: a batch of it, or with the same conditions only a count.

Everything here runs inside the caller's scoped transaction. Statements are put together from the
names of the map and never from anything that anybody wrote.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping
from typing import Final

from django.db import connection
from psycopg import sql

from governance.erasure import mentions, operations, sessions, shared, vocabulary
from governance.erasure.plan import (
    HOLDS,
    MENTIONS,
    OPERATIONS,
    RUNS,
    SHARED,
    THREADS,
    UNLINK,
    VOCABULARY,
    Rows,
    rows_of,
)
from governance.erasure.subjects import Subject

_BATCH: Final = 1000
_DELETE: Final = sql.SQL(
    "DELETE FROM {table} WHERE {key} IN"
    " (SELECT {key} FROM {table} WHERE {whose} ORDER BY {order} LIMIT %(most)s)"
)
_COUNT: Final = sql.SQL("SELECT count(*) FROM {table} WHERE {whose}")
Counts = Mapping[str, int]
_Way = Callable[..., Counts]

# Each takes a subject; the first does a batch and says what went, the second counts all.
_WAYS: Final[Mapping[str, tuple[_Way, _Way]]] = {
    UNLINK: (operations.unlink, operations.nothing),
    MENTIONS: (mentions.erase, mentions.count),
    VOCABULARY: (vocabulary.erase, vocabulary.count),
    SHARED: (shared.erase, shared.count),
    OPERATIONS: (operations.forget_whose, operations.count_operations),
    RUNS: (operations.erase_runs, operations.count_runs),
    THREADS: (sessions.erase_threads, sessions.count_threads),
    HOLDS: (operations.blank_holds, operations.count_holds),
}


def is_narrow(step: str) -> bool:
    """Say whether a step needs no more than the scope of the person."""
    rows = rows_of(step)
    return rows is not None and not rows.is_wide


def do_batch(*, step: str, subject: Subject) -> Counter[str]:
    """Do one batch of a step and return what went; nothing is left of it when nothing went."""
    rows = rows_of(step)
    if rows is None:
        return Counter(_WAYS[step][0](subject))
    return Counter({rows.counted_as: _run(_DELETE, rows, subject)})


def count_all(*, step: str, subject: Subject) -> Counter[str]:
    """Return what all batches of a step would take away now."""
    rows = rows_of(step)
    if rows is None:
        return Counter(_WAYS[step][1](subject))
    statement = _filled(_COUNT, rows)
    with connection.cursor() as cursor:
        cursor.execute(statement, subject.values)
        return Counter({rows.counted_as: int(cursor.fetchone()[0])})


def _run(template: sql.SQL, rows: Rows, subject: Subject) -> int:
    statement = _filled(template, rows)
    with connection.cursor() as cursor:
        cursor.execute(statement, {**subject.values, "most": _BATCH})
        return int(cursor.rowcount)


def _filled(template: sql.SQL, rows: Rows) -> sql.Composed:
    return template.format(
        table=sql.Identifier(rows.table),
        key=sql.Identifier(rows.key),
        order=sql.Identifier(rows.order),
        whose=sql.SQL(rows.whose),
    )
