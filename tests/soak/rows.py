"""The search through the whole database at the end: every column of every row, decoded."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import psycopg
from psycopg import sql

from tests.journeys.crash_book import Book
from tests.soak.canaries import SHARED, Canary, found_in_bytes
from tests.soak.findings import Findings

_COLUMNS = """
    SELECT c.relname AS table, array_agg(a.attname::text ORDER BY a.attnum) AS columns,
        array_agg(format_type(a.atttypid, NULL) ORDER BY a.attnum) AS types
    FROM pg_class c JOIN pg_attribute a ON a.attrelid = c.oid AND a.attnum > 0
    WHERE c.relnamespace = 'public'::regnamespace AND c.relkind = 'r' AND NOT a.attisdropped
    GROUP BY c.relname ORDER BY c.relname
"""
_NUMBERS = ("vector", "halfvec", "sparsevec", "double precision", "boolean")


@dataclass(frozen=True, kw_only=True)
class Known:
    """What the rows are held against: tenant letters by id, and numbers below which persons are gone."""

    tenants: Mapping[str, str]
    erased_below: Mapping[tuple[str, str], int]


def search(*, book: Book, known: Known, findings: Findings) -> int:
    """Go through everything; return the number of rows."""
    people: dict[str, str] = {}
    rows = book.rows("SELECT id, user_id FROM memory_enduser")
    people = {row["id"]: str(row["user_id"]).removeprefix("soak-") for row in rows}
    count = 0
    with book.connect() as connection:
        for table, row, found in _marked_rows(connection):
            count += 1
            for canary in found:
                _judge(canary, table, row, people, known, findings)
    return count


def _marked_rows(
    connection: psycopg.Connection[dict[str, Any]],
) -> Iterator[tuple[str, dict[str, Any], set[Canary]]]:
    for table in connection.execute(_COLUMNS).fetchall():
        typed = zip(table["columns"], table["types"], strict=True)
        columns = [
            sql.SQL("{}").format(sql.Identifier(name))
            if kind == "bytea"
            else sql.SQL("{}::text AS {}").format(sql.Identifier(name), sql.Identifier(name))
            for name, kind in typed
            if kind not in _NUMBERS
        ]
        query = sql.SQL("SELECT {} FROM {}").format(
            sql.SQL(", ").join(columns), sql.Identifier(table["table"])
        )
        with connection.transaction(), connection.cursor(name="everything") as cursor:
            for row in cursor.execute(query):
                yield table["table"], row, found_in_bytes(_bytes(row))


def _bytes(row: Mapping[str, Any]) -> bytes:
    parts = [
        bytes(value) if isinstance(value, bytes | memoryview) else str(value).encode()
        for value in row.values()
        if value is not None
    ]
    return b"\n".join(parts)


def _judge(
    canary: Canary,
    table: str,
    row: Mapping[str, Any],
    people: Mapping[str, str],
    known: Known,
    findings: Findings,
) -> None:
    tenant = known.tenants.get(str(row.get("tenant_id")))
    place = f"{canary} in {table} {row.get('id')}"
    if tenant is None:
        findings.wrong("canary in a row of no tenant", place)
    elif tenant != canary.tenant:
        findings.wrong("canary crossed", place)
    owner = people.get(str(row.get("end_user_id")))
    if owner is not None and canary.person not in (owner, SHARED):
        findings.wrong("canary crossed", f"{place}, a row of {owner}")
    below = known.erased_below.get((canary.tenant, canary.person), 0)
    if canary.number < below:
        findings.wrong("erased text found", f"{place}, erased below {below}")
