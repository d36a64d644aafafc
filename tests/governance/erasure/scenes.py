"""Two tenants full of rows, fingerprints of what is not erased, and an eraser at hand."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Mapping
from datetime import datetime
from typing import Any

import psycopg
from django.utils import timezone
from psycopg import sql

from governance.erasure.requests import request_erasure
from governance.erasure.work import do_erasure
from governance.models.erasure import Erasure, LegalHold
from memory.models import EndUser
from memory.rls import scoped_transaction
from memory.scope import Scope
from tests.factories import scope_of
from tests.isolation.worlds import World

# What an erasure may write, and what only ever grows.
BOOKS = frozenset(
    "governance_erasure governance_auditentry governance_auditpending threads_keptusage"
    " django_q_ormq memory_lane governance_auditseal governance_auditleaf".split()
)


def no_tagged(
    *, scope: Scope, erasure: Erasure, hold: Callable[[], None], is_dry_run: bool
) -> Mapping[str, int]:
    """An eraser of what is tagged that is not asked for anything."""
    raise AssertionError((scope, erasure, hold, is_dry_run))


def clear_books(world: World) -> None:
    """Take away the erasures and the holds that a world of isolation is filled with."""
    scope = scope_of(world.tenant)
    with scoped_transaction(scope):
        Erasure.objects.in_scope(scope).delete()
        LegalHold.objects.in_scope(scope).update(released_at=timezone.now())


def erase(person: EndUser, *, now: datetime | None = None) -> Erasure:
    """Ask for the erasure of everything of a person, do it, and return its row."""
    at = now or timezone.now()
    scope = Scope(tenant_ids=(person.tenant_id,), principal_id="test")
    asked = request_erasure(scope=scope, person=person, mode="all", now=at)
    assert do_erasure(erasure_id=asked.pk, tagged=no_tagged, now=at)
    return read(asked)


def read(erasure: Erasure) -> Erasure:
    """The row of an erasure as it is now."""
    scope = Scope(tenant_ids=(erasure.tenant_id,), principal_id="test")
    with scoped_transaction(scope):
        return Erasure.objects.in_scope(scope).get(pk=erasure.pk)


def every_table(url: str) -> list[str]:
    """The names of all tables of the database."""
    with psycopg.connect(url) as connection:
        rows = connection.execute(
            "SELECT tablename FROM pg_tables WHERE schemaname = 'public' ORDER BY 1"
        )
        return [row[0] for row in rows]


def rows_naming(url: str, *words: str) -> dict[str, int]:
    """How many rows of each table hold one of these words anywhere, as text."""
    found = {}
    pattern = "|".join(words)
    with psycopg.connect(url) as connection:
        for table in every_table(url):
            query = sql.SQL("SELECT count(*) FROM {} AS t WHERE t::text ~ %s")
            (number,) = connection.execute(
                query.format(sql.Identifier(table)), [pattern]
            ).fetchone() or (0,)
            if number:
                found[table] = number
    return found


def fingerprints(url: str, *, without: str) -> dict[str, str]:
    """A hash of the rows of each table that do not match the pattern `without`."""
    found = {}
    with psycopg.connect(url) as connection:
        for table in every_table(url):
            if table in BOOKS:
                continue
            query = sql.SQL("SELECT t::text FROM {} AS t WHERE NOT t::text ~ %s")
            rows = connection.execute(query.format(sql.Identifier(table)), [without]).fetchall()
            lines = sorted(row[0] for row in rows)
            found[table] = hashlib.sha256("\n".join(lines).encode()).hexdigest()
    return found


def values(erasure: Erasure) -> dict[str, Any]:
    """What an erasure counted, without noughts."""
    return {name: number for name, number in sorted(erasure.counts.items()) if number}
