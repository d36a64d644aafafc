"""Something personal planted in every text of one person, and looking for it behind the walls."""

from __future__ import annotations

from typing import Final

import psycopg
from psycopg import sql

from tests.isolation.worlds import Person

PHONE: Final = "13912345678"
EVIDENT: Final = f"手机号 {PHONE} 😀"
BARE: Final = f"seen 139-1234-5678 and {PHONE}"
# Column by column; only the message says what it is, all others just hold it.
_TEXTS: Final = {
    "threads_message": ("content",),
    "threads_run": ("input", "output", "error_detail"),
    "threads_thread": ("title",),
    "threads_artifact": ("content",),
    "threads_idempotencyrecord": ("body",),
    "threads_threadsummary": ("rolling_summary",),
    "threads_summarynode": ("summary",),
    "memory_memoryitem": ("title", "content"),
    "memory_memoryitemversion": ("title", "content"),
    "memory_corefact": ("fact", "subject"),
    "memory_knowledgedocument": ("title", "content"),
    "memory_knowledgechunk": ("content",),
    "memory_recallentry": ("said", "answered"),
    "governance_corecandidate": ("fact", "subject", "evidence"),
    "governance_correction": ("term", "wrong", "right"),
}
_JSON: Final = {
    "threads_run": ("metadata",),
    "threads_runtrace": ("messages", "items"),
    "threads_contexttrace": ("messages", "items"),
    "threads_message": ("tool_calls",),
}


def plant(url: str, person: Person) -> None:
    """Write a telephone number into every text column of a person's rows, past all rules."""
    with psycopg.connect(url) as connection:
        connection.execute("SET session_replication_role = replica")
        for table, columns in _TEXTS.items():
            for column in columns:
                words = EVIDENT if table == "threads_message" else BARE
                statement = sql.SQL("UPDATE {} SET {} = left({} || %s, 110) WHERE end_user_id = %s")
                name = sql.Identifier(column)
                query = statement.format(sql.Identifier(table), name, name)
                connection.execute(query, [words, person.row.pk])
        for table, columns in _JSON.items():
            for column in columns:
                statement = sql.SQL("UPDATE {} SET {} = %s::jsonb WHERE end_user_id = %s")
                query = statement.format(sql.Identifier(table), sql.Identifier(column))
                shape = '{"%s": ["%s", %s]}' if column == "metadata" else '[{"%s": ["%s", %s]}]'
                connection.execute(query, [shape % (BARE, BARE, PHONE), person.row.pk])


def rows_with(url: str, person: Person, *, word: str = PHONE) -> dict[str, int]:
    """How many of a person's rows in each table hold the number, by digits or with hyphens."""
    found: dict[str, int] = {}
    pattern = f"{word}|139-1234-5678"
    with psycopg.connect(url) as connection:
        tables = connection.execute(
            "SELECT table_name FROM information_schema.columns"
            " WHERE table_schema = 'public' AND column_name = 'end_user_id' ORDER BY 1"
        ).fetchall()
        for (table,) in tables:
            query = sql.SQL("SELECT count(*) FROM {} AS t WHERE end_user_id = %s AND t::text ~ %s")
            row = connection.execute(
                query.format(sql.Identifier(table)), [person.row.pk, pattern]
            ).fetchone()
            if row and row[0]:
                found[table] = row[0]
    return found
