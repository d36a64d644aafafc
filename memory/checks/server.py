"""The server and the roles: new enough, and none of ours able to walk past row-level security."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final

from django.db.backends.utils import CursorWrapper

from memory.checks.problems import WallProblem
from memory.conf import DatabaseRoles

# Older ones leak rows past policies through planner statistics.
# Source: CVE-2025-8713 and CVE-2019-10130; findings/security, 1.1.
MINIMUM_VERSIONS: Final = {16: 160010, 17: 170006, 18: 180000}
MINIMUM_VECTOR: Final = (0, 8)
_RUN_ROLES = "Run config/local/roles.sql as a superuser."
_SERVER = """
    SELECT current_setting('server_version_num')::integer, current_user::text, session_user::text,
        (SELECT extversion FROM pg_extension WHERE extname = 'vector')
"""
_ROLES = """
    SELECT rolname, rolsuper, rolbypassrls, rolcreaterole, rolreplication, rolcanlogin
    FROM pg_roles WHERE rolname = ANY(%s)
"""
_STRONGER = """
    SELECT rolname FROM pg_roles
    WHERE rolname <> %(app)s AND (rolsuper OR rolbypassrls OR rolname = ANY(%(others)s))
        AND pg_has_role(%(app)s::name, oid, 'MEMBER')
        AND NOT (SELECT rolsuper FROM pg_roles WHERE rolname = %(app)s)
    ORDER BY rolname
"""
_OWNED = """
    SELECT relname FROM pg_class
    WHERE relowner = %s::regrole AND relkind IN ('r', 'p', 'v', 'm', 'f') ORDER BY relname
"""


def server_problems(cursor: CursorWrapper, roles: DatabaseRoles) -> Iterator[WallProblem]:
    """Yield what is wrong with the server and with who we are. Cost: up to four statements."""
    cursor.execute(_SERVER)
    version, current, session, vector = cursor.fetchone()
    yield from version_problems(version, vector)
    if (current, session) != (roles.app, roles.app):
        yield WallProblem(
            code="wrong_role",
            subject=f"role {current}",
            detail=f"The connection is not role {roles.app}'s (it logged in as {session}).",
            remedy="Let DATABASE_URL name the application's role.",
        )
    yield from _role_problems(cursor, roles)


def version_problems(version: int, vector: str | None) -> Iterator[WallProblem]:
    """Yield what is too old: `version` is server_version_num, `vector` the extension's version."""
    floor = MINIMUM_VERSIONS.get(version // 10000)
    is_old = version < max(MINIMUM_VERSIONS.values()) if floor is None else version < floor
    if is_old:
        yield WallProblem(
            code="server_too_old",
            subject=f"PostgreSQL {version // 10000}.{version % 10000}",
            detail="Policies of this release can be bypassed, or it lacks what we need.",
            remedy="Use 16.10, 17.6, 18.0 or later.",
        )
    digits = [part for part in (vector or "").split(".") if part.isdigit()]
    if tuple(int(part) for part in digits[:2]) < MINIMUM_VECTOR:
        yield WallProblem(
            code="vector_missing",
            subject="extension vector",
            detail=f"pgvector 0.8 or later is needed, and here is {vector or 'none'}.",
            remedy="Let a superuser run: CREATE EXTENSION vector (or ALTER EXTENSION … UPDATE).",
        )


def _role_problems(cursor: CursorWrapper, roles: DatabaseRoles) -> Iterator[WallProblem]:
    names = [name for name in (roles.app, roles.maint, roles.lookup, roles.owner) if name]
    if len(set(names)) != len(names):
        yield WallProblem(
            code="roles_shared",
            subject="roles",
            detail=f"One database role serves as several: {', '.join(names)}.",
            remedy="Give DATABASE_URL, DATABASE_MAINT_URL and DATABASE_OWNER_URL a role each.",
        )
    cursor.execute(_ROLES, [names])
    found: dict[str, tuple[Any, ...]] = {row[0]: row[1:] for row in cursor.fetchall()}
    for name in (roles.app, roles.maint, roles.lookup):
        yield from _attribute_problems(name, found.get(name), may_log_in=name != roles.lookup)
    if roles.app in found:
        yield from _reach_problems(cursor, roles)


def _attribute_problems(
    name: str, row: tuple[Any, ...] | None, *, may_log_in: bool
) -> Iterator[WallProblem]:
    if row is None:
        yield WallProblem(
            code="role_missing",
            subject=f"role {name}",
            detail="It does not exist.",
            remedy=_RUN_ROLES,
        )
        return
    words = ("SUPERUSER", "BYPASSRLS", "CREATEROLE", "REPLICATION")
    held = [word for word, holds in zip(words, row[:4], strict=True) if holds]
    held += ["LOGIN"] if row[4] and not may_log_in else []
    if held:
        yield WallProblem(
            code="role_too_strong",
            subject=f"role {name}",
            detail=f"It has {', '.join(held)}.",
            remedy=_RUN_ROLES,
        )


def _reach_problems(cursor: CursorWrapper, roles: DatabaseRoles) -> Iterator[WallProblem]:
    others = [roles.maint, roles.lookup, roles.owner]
    cursor.execute(_STRONGER, {"app": roles.app, "others": others})
    stronger = [row[0] for row in cursor.fetchall()]
    if stronger:
        yield WallProblem(
            code="role_reaches_further",
            subject=f"role {roles.app}",
            detail=f"It can act as {', '.join(stronger)}.",
            remedy="REVOKE those memberships.",
        )
    cursor.execute(_OWNED, [f'"{roles.app}"'])
    owned = [row[0] for row in cursor.fetchall()]
    if owned:
        yield WallProblem(
            code="app_owns_tables",
            subject=f"role {roles.app}",
            detail=f"It owns {', '.join(owned)}, and an owner can lift row-level security.",
            remedy="ALTER TABLE … OWNER TO the migrations' role.",
        )
