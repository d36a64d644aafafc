"""Taking erased rows off the disk as well: what PostgreSQL keeps of a deleted row until later.

A deleted row stays in its table's file until VACUUM, and in the write-ahead log until that is
recycled. VACUUM FULL writes the tables anew and locks each meanwhile; a checkpoint and a switch of
the log let the server recycle it. Copies of the log (archives, standbys) and backups are out of
reach: docs/compliance.md says so.
Source: PostgreSQL documentation, "Routine Vacuuming", "CHECKPOINT", "Write-Ahead Logging".
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

from django.db import Error, connections
from psycopg import sql

from governance.erasure import mentions
from governance.erasure.plan import STEPS, rows_of

OWNER_ALIAS: Final = "owner"
# Tables of the steps that are more than deleting rows.
_MORE: Final = (
    "governance_correction",
    "governance_entitycandidate",
    "governance_apikey",
    "governance_erasure",
    "governance_legalhold",
    "memory_entity",
    "memory_entitymerge",
    "memory_enduser",
    "threads_run",
    "threads_summarynode",
    "threads_thread",
    "threads_threadsummary",
)
# Updates leave the old text behind, which the catalogue's statistics may have a sample of.
_AFTER: Final = {
    "checkpoint": "CHECKPOINT",
    "wal_switch": "SELECT pg_switch_wal()",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class PhysicalReport:
    """What was written anew, and what could not be done here.

    Attributes:
        refused: Tables and steps that this role or server does not allow; an operator has to.
    """

    vacuumed: tuple[str, ...]
    refused: tuple[str, ...]


def touched_tables() -> tuple[str, ...]:
    """Return every table that an erasure deletes from or changes, by name."""
    tables = {rows.table for rows in map(rows_of, STEPS) if rows is not None}
    return tuple(sorted({*tables, *mentions.TABLES, *_MORE}))


def vacuum(*, between: Callable[[], None] = lambda: None) -> PhysicalReport:
    """Write the touched tables anew as the tables' owner, and let the log be recycled.

    Outside any transaction. Locks each table while it is written; cost: reading and writing all of
    them. `between` is called before each.
    """
    done: list[str] = []
    refused: list[str] = []
    for table in touched_tables():
        between()
        statement = sql.SQL("VACUUM (FULL, ANALYZE) {}").format(sql.Identifier(table))
        _try(table, statement, done, refused)
    for name, text in _AFTER.items():
        _try(name, sql.SQL(text), [], refused)
    connections[OWNER_ALIAS].close()
    return PhysicalReport(vacuumed=tuple(done), refused=tuple(refused))


def _try(name: str, statement: sql.Composable, done: list[str], refused: list[str]) -> None:
    try:
        with connections[OWNER_ALIAS].cursor() as cursor:
            cursor.execute(statement)
    except Error:  # whose text may quote names of the server
        refused.append(name)
    else:
        done.append(name)
