"""The decoding grep: whether given words are anywhere in the database, in whatever encoding.

It reads as the superuser, past every wall, each column of each table of each schema; what it finds
is told by table and column. Besides the words themselves it looks for their digits alone. Backups
are taken and restored with PostgreSQL's own programs.
"""

from __future__ import annotations

import os
import pwd
import subprocess
from collections.abc import Iterator
from pathlib import Path

import psycopg
from psycopg import sql

from config.local.binaries import binaries_for
from config.local.os_user import OsUser
from governance.erasure.decoding import digits_of, fold, readings

_COLUMNS = """
SELECT n.nspname, c.relname, a.attname
FROM pg_class AS c
JOIN pg_namespace AS n ON n.oid = c.relnamespace
JOIN pg_attribute AS a ON a.attrelid = c.oid AND a.attnum > 0 AND NOT a.attisdropped
WHERE c.relkind IN ('r', 'm') AND n.nspname NOT LIKE 'pg\\_%' AND n.nspname <> 'information_schema'
ORDER BY 1, 2, a.attnum
"""


def values(superuser_url: str) -> Iterator[tuple[str, str]]:
    """Every stored value as text, with its place: `table.column`."""
    with psycopg.connect(superuser_url) as connection:
        for schema, table, column in connection.execute(_COLUMNS).fetchall():
            query = sql.SQL("SELECT DISTINCT {0}::text FROM {1} WHERE {0} IS NOT NULL")
            rows = connection.execute(
                query.format(sql.Identifier(column), sql.Identifier(schema, table))
            )
            for (value,) in rows:
                yield f"{table}.{column}", value


def forms(word: str) -> tuple[str, ...]:
    """In what forms a word is looked for: folded, and if it is a number, its digits."""
    digits = digits_of(word)
    return tuple(form for form in (fold(word), digits) if form and "\n" not in form)


def grep_text(text: str, *words: str) -> set[str]:
    """Which of the words one text holds, in any reading of it."""
    found = readings(text).texts
    return {word for word in words if any(form in one for form in forms(word) for one in found)}


def grep(superuser_url: str, *words: str) -> dict[str, set[str]]:
    """In which columns each word is; a word that is nowhere is not in it."""
    places: dict[str, set[str]] = {}
    for place, value in values(superuser_url):
        for word in grep_text(value, *words):
            places.setdefault(word, set()).add(place)
    return places


def backup(superuser_url: str, path: Path) -> Path:
    """Take a backup with pg_dump."""
    _program("pg_dump", "--format=custom", f"--file={path}", f"--dbname={superuser_url}")
    return path


def restore(superuser_url: str, path: Path) -> None:
    """Put the database back to a backup with pg_restore; everybody else's connections end."""
    server = superuser_url.rpartition("/")[0] + "/postgres"
    name = superuser_url.rpartition("/")[2]
    with psycopg.connect(server, autocommit=True) as connection:
        connection.execute(
            "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = %s", [name]
        )
    _program("pg_restore", "--clean", "--create", "--if-exists", f"--dbname={server}", str(path))


def _program(name: str, *arguments: str) -> None:
    user = pwd.getpwuid(os.getuid())
    myself = OsUser(name=user.pw_name, uid=user.pw_uid, gid=user.pw_gid, is_other=False)
    folder = binaries_for(version=int(os.environ.get("PG_VERSION", "18")), user=myself)
    done = subprocess.run(
        [str(folder / name), *arguments], check=False, capture_output=True, text=True, timeout=300
    )
    assert done.returncode == 0, done.stderr
