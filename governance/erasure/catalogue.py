"""Every table there is in the database, asked of the database itself and not of Django."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from typing import Final

from django.apps import apps
from django.db import connections
from psycopg import sql

from memory.models.base import TenantModel

BLOCK_BYTES: Final = 8192
_OWNERS: Final = ("end_user_id", "subject_id")
_TABLES: Final = """
SELECT n.nspname, c.relname, c.relkind::text, pg_relation_size(c.oid),
       has_schema_privilege(n.oid, 'USAGE') AND (
           NOT c.relrowsecurity OR row_security_active(c.oid) IS FALSE OR EXISTS (
               SELECT 1 FROM pg_policy AS p WHERE p.polrelid = c.oid AND p.polpermissive
               AND p.polcmd IN ('r', '*') AND pg_get_expr(p.polqual, p.polrelid) = 'true'
               AND (0 = ANY (p.polroles) OR current_user::regrole::oid = ANY (p.polroles)))),
       array_agg(a.attname::text ORDER BY a.attnum),
       array_agg(t.typname::text ORDER BY a.attnum),
       array_agg(t.typcategory::text ORDER BY a.attnum),
       array_agg(has_column_privilege(c.oid, a.attnum, 'SELECT') ORDER BY a.attnum)
FROM pg_class AS c
JOIN pg_namespace AS n ON n.oid = c.relnamespace
JOIN pg_attribute AS a ON a.attrelid = c.oid AND a.attnum > 0 AND NOT a.attisdropped
JOIN pg_type AS t ON t.oid = a.atttypid
WHERE c.relkind IN ('r', 'm', 'f') AND n.nspname NOT IN ('pg_catalog', 'information_schema')
  AND n.nspname NOT LIKE 'pg\\_toast%%' AND n.nspname NOT LIKE 'pg\\_temp\\_%%'
GROUP BY n.oid, n.nspname, c.oid, c.relname, c.relkind, c.relrowsecurity
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Column:
    """One column that can be read.

    Attributes:
        can_name: A whole value may be a person's identifier: a column with personal data, or one
            of a table that is not ours.
    """

    name: str
    is_text: bool
    is_tsvector: bool
    can_name: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class Table:
    """One table or materialised view.

    Attributes:
        owner: The column that says whose a row is, if there is one.
        blocks: How many blocks of 8 KiB it has now.
        unread: Why nothing of it, or which columns of it, can not be read; empty if all can be.
    """

    schema: str
    name: str
    columns: tuple[Column, ...]
    owner: str | None
    tenant: str | None
    blocks: int
    unread: tuple[str, ...]

    @property
    def label(self) -> str:
        """Its name, with the schema if that is not the usual one."""
        return self.name if self.schema == "public" else f"{self.schema}.{self.name}"

    def statement(self) -> sql.Composed:
        """Return the query of its rows between two blocks: owner, tenant, then each column."""
        shown = [_text_of(self.owner), _text_of(self.tenant)]
        shown += [_text_of(column.name) for column in self.columns]
        return sql.SQL("SELECT {} FROM {} WHERE ctid >= %s::tid AND ctid < %s::tid").format(
            sql.SQL(", ").join(shown), sql.Identifier(self.schema, self.name)
        )


def _text_of(column: str | None) -> sql.Composable:
    return sql.SQL("NULL") if column is None else sql.SQL("{}::text").format(sql.Identifier(column))


def tables(*, alias: str) -> list[Table]:
    """Return every table of every schema but PostgreSQL's own, in order. Cost: one query."""
    with connections[alias].cursor() as cursor:
        cursor.execute(_TABLES)
        rows = cursor.fetchall()
    found = []
    for schema, name, kind, size, is_open, names, types, categories, allowed in rows:
        readable = is_open and kind != "f"
        columns = tuple(
            Column(
                name=column,
                is_text=category == "S" or type_ in ("json", "jsonb"),
                is_tsvector=type_ == "tsvector",
                can_name=_can_name(name if schema == "public" else "", column),
            )
            for column, type_, category, may in zip(names, types, categories, allowed, strict=True)
            if may and readable
        )
        shut = [one for one, may in zip(names, allowed, strict=True) if not may]
        seen = [column.name for column in columns]
        found.append(
            Table(
                schema=schema,
                name=name,
                columns=columns,
                owner=_owner(name, seen),
                tenant="tenant_id" if "tenant_id" in seen else None,
                blocks=-(-size // BLOCK_BYTES),
                unread=tuple(shut) if columns else ("*",),
            )
        )
    return sorted(found, key=lambda table: table.label)


@cache
def _models() -> dict[str, type[TenantModel] | None]:
    return {
        model._meta.db_table: model if issubclass(model, TenantModel) else None
        for model in apps.get_models()
    }


def _owner(table: str, columns: list[str]) -> str | None:
    model = _models().get(table)
    if model is not None and model.walls.user in columns:
        return model.walls.user
    return next((one for one in _OWNERS if one in columns), None)


def _can_name(table: str, column: str) -> bool:
    model = _models().get(table)
    if model is not None:
        return column in model.personal
    return table not in _models()
