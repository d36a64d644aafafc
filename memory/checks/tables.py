"""The tables: row-level security on and forced, the policies as written, the keys that fence."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Final

from django.db import models
from django.db.backends.utils import CursorWrapper

from memory.checks.problems import WallProblem
from memory.conf import DatabaseRoles
from memory.models.base import Walls
from memory.rls import composite_keys, policy_rule

_REBUILD = "Restore it: memory.rls has the statement, the migrations named …_walls run it."
# The two tables that the definer functions read; memory.checks.functions has the functions.
LOOKUP_TABLES: Final = frozenset({"memory_job", "governance_apikey"})
_TABLES = """
    SELECT c.relname, c.relrowsecurity, c.relforcerowsecurity,
        EXISTS (SELECT 1 FROM pg_attribute a WHERE a.attrelid = c.oid AND a.attname = 'tenant_id'
            AND NOT a.attisdropped)
    FROM pg_class c WHERE c.relnamespace = 'public'::regnamespace AND c.relkind IN ('r', 'p')
"""
_POLICIES = """
    SELECT tablename, policyname, permissive, roles::text[], cmd, qual, with_check
    FROM pg_policies WHERE schemaname = 'public'
"""
_KEYS = """
    SELECT c.relname, k.contype::text, other.relname,
        ARRAY(SELECT a.attname::text FROM unnest(k.conkey) WITH ORDINALITY AS u(number, place)
            JOIN pg_attribute a ON a.attrelid = k.conrelid AND a.attnum = u.number ORDER BY place),
        ARRAY(SELECT a.attname::text FROM unnest(k.confkey) WITH ORDINALITY AS u(number, place)
            JOIN pg_attribute a ON a.attrelid = k.confrelid AND a.attnum = u.number ORDER BY place)
    FROM pg_constraint k JOIN pg_class c ON c.oid = k.conrelid
    LEFT JOIN pg_class other ON other.oid = k.confrelid
    WHERE k.connamespace = 'public'::regnamespace AND k.contype IN ('p', 'u', 'f')
        AND k.convalidated
"""
# Casts that the server adds when it prints a condition on a varchar column.
_CAST = re.compile(r"\((\w+)\)::text|::text")

Policy = tuple[str, str, tuple[str, ...], str, str | None, str | None]


@dataclass(slots=True)
class Catalog:
    """What the database's own tables say about ours.

    Attributes:
        tables: By name: row-level security on, forced, and whether there is a tenant_id.
        policies: By table: (name, permissive, roles, command, USING, WITH CHECK).
        keys: (table, kind p, u or f, other table, columns, other columns).
    """

    tables: dict[str, tuple[bool, bool, bool]] = field(default_factory=dict)
    policies: dict[str, set[Policy]] = field(default_factory=dict)
    keys: set[tuple[str, str, str | None, tuple[str, ...], tuple[str, ...]]] = field(
        default_factory=set
    )


def read_catalog(cursor: CursorWrapper) -> Catalog:
    """Return the catalog of schema public. Cost: three statements."""
    catalog = Catalog()
    cursor.execute(_TABLES)
    catalog.tables = {name: (on, forced, has) for name, on, forced, has in cursor.fetchall()}
    cursor.execute(_POLICIES)
    for table, name, permissive, roles, command, using, check in cursor.fetchall():
        policy = (name, permissive, tuple(roles), command, _plain(using), _plain(check))
        catalog.policies.setdefault(table, set()).add(policy)
    cursor.execute(_KEYS)
    catalog.keys = {
        (table, kind, other, tuple(columns), tuple(others))
        for table, kind, other, columns, others in cursor.fetchall()
    }
    return catalog


def _plain(condition: str | None) -> str | None:
    """Return a condition without casts and spaces, so that ours and the server's compare."""
    if condition is None:
        return None
    return re.sub(r"\s", "", _CAST.sub(lambda match: match[1] or "", condition)).lower()


def expected_policies(*, table: str, walls: Walls, roles: DatabaseRoles) -> set[Policy]:
    """Return the policies that a walled table has, and no others."""
    rule = _plain(policy_rule(walls))
    permissive = "PERMISSIVE"
    found: set[Policy] = {
        ("credence_app", permissive, (roles.app,), "ALL", rule, rule),
        ("credence_maint", permissive, (roles.maint,), "ALL", "true", "true"),
    }
    if table in LOOKUP_TABLES:
        found.add(("credence_lookup", permissive, (roles.lookup,), "SELECT", "true", None))
    return found


def table_problems(
    catalog: Catalog, walled: Mapping[str, type[models.Model]], roles: DatabaseRoles
) -> Iterator[WallProblem]:
    """Yield what is wrong with the walled tables (by name), and tables that should be walled."""
    for table, model in sorted(walled.items()):
        if table not in catalog.tables:
            yield _hole("table_missing", table, "It does not exist.", "Run the migrations.")
            continue
        yield from _security_problems(catalog, table)
        yield from _policy_problems(catalog, table, model.walls, roles)  # type: ignore[attr-defined]
        yield from _key_problems(catalog, model)
    for table, (_, _, has_tenant) in sorted(catalog.tables.items()):
        if has_tenant and table not in walled:
            yield from _security_problems(catalog, table)


def _hole(code: str, table: str, detail: str, remedy: str = _REBUILD) -> WallProblem:
    return WallProblem(code=code, subject=f"table {table}", detail=detail, remedy=remedy)


def _security_problems(catalog: Catalog, table: str) -> Iterator[WallProblem]:
    is_on, is_forced, _ = catalog.tables[table]
    if not is_on:
        yield _hole("rls_off", table, "Row-level security is off.")
    if not is_forced:
        yield _hole("rls_not_forced", table, "Row-level security does not bind its owner.")


def _policy_problems(
    catalog: Catalog, table: str, walls: Walls, roles: DatabaseRoles
) -> Iterator[WallProblem]:
    wanted = expected_policies(table=table, walls=walls, roles=roles)
    actual = catalog.policies.get(table, set())
    present = {policy[0] for policy in actual}
    known = {policy[0] for policy in wanted}
    for name in sorted(_names(wanted - actual)):
        is_edited = name in present
        code = "policy_edited" if is_edited else "policy_missing"
        state = "is not as it was made" if is_edited else "is missing"
        yield _hole(code, table, f"Policy {name} {state}.")
    for name in sorted(_names(actual - wanted) - known):
        yield _hole("policy_unknown", table, f"Policy {name} is none of ours.", "DROP POLICY.")


def _names(policies: Iterable[Policy]) -> set[str]:
    return {policy[0] for policy in policies}


def _key_problems(catalog: Catalog, model: type[models.Model]) -> Iterator[WallProblem]:
    table = model._meta.db_table
    key = model._meta.pk
    # A table whose key is a reference is one row of another's: nothing can refer to it.
    is_root = model.walls.tenant == key.column  # type: ignore[attr-defined]
    unique = (table, "u", None, ("tenant_id", key.column), ())
    if not (is_root or key.is_relation) and unique not in catalog.keys:
        yield _hole("unique_missing", table, f"No unique (tenant_id, {key.column}).")
    for name, column, other, other_column in composite_keys(model):
        wanted = (table, "f", other, ("tenant_id", column), ("tenant_id", other_column))
        if wanted not in catalog.keys:
            yield _hole("fence_missing", table, f"Foreign key {name} is missing.")
