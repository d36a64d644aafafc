"""What else could look past the walls: functions, views, triggers that are off, table rights."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Final

from django.db import models
from django.db.backends.utils import CursorWrapper

from memory.checks.problems import WallProblem
from memory.conf import DatabaseRoles

# The only ways to read without a scope: the due jobs of a lane, and a key by its prefix.
LOOKUP_FUNCTIONS: Final = frozenset(
    {"credence_due_jobs(integer,integer,integer)", "credence_key_by_prefix(text)"}
)
_DEFINERS = """
    SELECT p.oid::regprocedure::text, pg_get_userbyid(p.proowner), p.prosecdef,
        coalesce(p.proconfig::text[], '{}'),
        has_function_privilege('public', p.oid, 'EXECUTE')
    FROM pg_proc p
    WHERE p.pronamespace = 'public'::regnamespace AND NOT EXISTS (
            SELECT 1 FROM pg_depend d WHERE d.objid = p.oid AND d.deptype = 'e')
        AND (p.prosecdef OR pg_get_userbyid(p.proowner) = %s)
"""
_VIEWS = """
    SELECT relname, relkind = 'm' FROM pg_class
    WHERE relnamespace = 'public'::regnamespace AND relkind IN ('v', 'm')
        AND (relkind = 'm' OR NOT coalesce(reloptions, '{}') && ARRAY[
            'security_invoker=true', 'security_invoker=on', 'security_invoker=1'])
    ORDER BY relname
"""
_TRIGGERS = """
    SELECT c.relname, t.tgname, t.tgenabled IN ('O', 'A'), t.tgtype::integer
    FROM pg_trigger t JOIN pg_class c ON c.oid = t.tgrelid
    WHERE c.relnamespace = 'public'::regnamespace AND NOT t.tgisinternal
"""
_RIGHTS = """
    SELECT c.relname, r.rolname, w.word FROM pg_class c
    JOIN pg_roles r ON r.rolname = ANY(%s) AND NOT r.rolsuper
    CROSS JOIN unnest(ARRAY['UPDATE', 'DELETE', 'TRUNCATE', 'TRIGGER', 'REFERENCES']) AS w(word)
    WHERE c.relnamespace = 'public'::regnamespace AND c.relname = ANY(%s)
        AND (has_table_privilege(r.rolname, c.oid, w.word) OR (w.word IN ('UPDATE', 'REFERENCES')
            AND has_any_column_privilege(r.rolname, c.oid, w.word)))
    ORDER BY 1, 2, 3
"""
_BEFORE, _PER_ROW = 2, 1
_DELETE, _UPDATE, _TRUNCATE = 8, 16, 32
_READD = "Restore it: the migrations named …_walls have the statement."


def function_problems(cursor: CursorWrapper, roles: DatabaseRoles) -> Iterator[WallProblem]:
    """Yield what is wrong with functions that read as somebody else. Cost: one statement."""
    cursor.execute(_DEFINERS, [roles.lookup])
    found = {row[0].replace(" ", ""): row[1:] for row in cursor.fetchall()}
    for name in sorted(LOOKUP_FUNCTIONS - found.keys()):
        yield _function(name, "It is missing or does not run as its owner.", _READD)
    for name, (owner, is_definer, config, is_public) in sorted(found.items()):
        if name not in LOOKUP_FUNCTIONS:
            yield _function(
                name, "It reads past row-level security and is none of ours.", "Drop it."
            )
            continue
        if owner != roles.lookup or not is_definer:
            yield _function(name, f"It does not run as {roles.lookup}.", _READD)
        if "search_path=pg_catalog, pg_temp" not in config:
            yield _function(name, "Its search_path is open, so it can be led astray.", _READD)
        if is_public:
            yield _function(name, "Everybody may call it.", "REVOKE ALL … FROM PUBLIC.")


def _function(name: str, detail: str, remedy: str) -> WallProblem:
    return WallProblem(
        code="lookup_function", subject=f"function {name}", detail=detail, remedy=remedy
    )


def view_problems(cursor: CursorWrapper) -> Iterator[WallProblem]:
    """Yield views that read as their owner. Cost: one statement."""
    cursor.execute(_VIEWS)
    for name, is_stored in cursor.fetchall():
        yield WallProblem(
            code="view_past_walls",
            subject=f"view {name}",
            detail="It holds rows of its own." if is_stored else "It reads as its owner.",
            remedy="Drop it, or make it WITH (security_invoker = true).",
        )


def trigger_problems(
    cursor: CursorWrapper, walled: Mapping[str, type[models.Model]]
) -> Iterator[WallProblem]:
    """Yield triggers that are off, and append-only tables without theirs. Cost: one statement."""
    cursor.execute(_TRIGGERS)
    kinds: dict[str, list[int]] = {}
    for table, name, is_on, kind in cursor.fetchall():
        if is_on:
            kinds.setdefault(table, []).append(kind)
        else:
            yield WallProblem(
                code="trigger_off",
                subject=f"table {table}",
                detail=f"Trigger {name} is off.",
                remedy="ALTER TABLE … ENABLE TRIGGER.",
            )
    for table in append_only(walled):
        guards = [kind for kind in kinds.get(table, []) if kind & _BEFORE]
        by_row = [kind for kind in guards if kind & _PER_ROW]
        is_kept = all(any(kind & act for kind in by_row) for act in (_UPDATE, _DELETE))
        if not is_kept or not any(kind & _TRUNCATE for kind in guards):
            yield WallProblem(
                code="not_append_only",
                subject=f"table {table}",
                detail="Nothing stops its rows from being changed, deleted or truncated.",
                remedy=_READD,
            )


def append_only(walled: Mapping[str, type[models.Model]]) -> list[str]:
    """Return the tables whose model says that rows are never changed."""
    return sorted(t for t, model in walled.items() if getattr(model, "is_append_only", False))


def right_problems(
    cursor: CursorWrapper, walled: Mapping[str, type[models.Model]], roles: DatabaseRoles
) -> Iterator[WallProblem]:
    """Yield rights that go past policies: TRUNCATE anywhere, changing what is append-only.

    Row-level security does not hold for TRUNCATE, and a trigger or a foreign key of one's own can
    read what one may not see. Cost: one statement.
    """
    kept = set(append_only(walled))
    cursor.execute(_RIGHTS, [[roles.app, roles.maint], sorted(walled)])
    for table, role, word in cursor.fetchall():
        if word in ("UPDATE", "DELETE") and table not in kept:
            continue
        yield WallProblem(
            code="right_too_wide",
            subject=f"table {table}",
            detail=f"Role {role} holds {word}.",
            remedy=f"REVOKE {word} ON {table} FROM {role}.",
        )
