"""The end of a tenant: nothing of it is left but proof, and nothing of another tenant changes."""

from __future__ import annotations

import json
from io import StringIO

import psycopg
import pytest
from django.core.management import CommandError, call_command
from django.utils import timezone
from psycopg import sql

from governance.erasure.holds import place_hold, release_hold
from governance.erasure.tagging import tagged_eraser
from governance.keys import UnauthenticatedError, authenticate
from governance.models.erasure import Erasure, ErasureOrigin, Verified
from memory.models import Tenant
from memory.rls import scoped_transaction
from tests.factories import make_staff, scope_of
from tests.governance.erasure.scenes import BOOKS, clear_books, every_table, rows_naming
from tests.isolation.worlds import World, make_world
from threads.forgetting.tenants import KEPT, HeldTenantError, count_end, end_tenant

pytestmark = pytest.mark.usefixtures("committed_db")


@pytest.fixture
def worlds(committed_db: None) -> tuple[World, World]:
    """Two tenants, each with two people and rows in every table."""
    found = make_world(), make_world()
    for world in found:
        clear_books(world)
        make_staff(world.tenant)
    return found


def rows_of(url: str, world: World) -> dict[str, int]:
    """How many rows of each table are of a tenant."""
    found: dict[str, int] = {}
    with psycopg.connect(url) as connection:
        for table in every_table(url):
            columns = connection.execute(
                "SELECT 1 FROM information_schema.columns"
                " WHERE table_name = %s AND column_name = 'tenant_id'",
                [table],
            ).fetchone()
            if columns is None or table in BOOKS - {"threads_keptusage"}:
                continue
            query = sql.SQL("SELECT count(*) FROM {} WHERE tenant_id = %s")
            row = connection.execute(
                query.format(sql.Identifier(table)), [world.tenant.pk]
            ).fetchone()
            if row and row[0]:
                found[table] = row[0]
    return found


@pytest.mark.req("B19", "E06")
def test_an_ended_tenant_leaves_proof_and_nothing_else(
    worlds: tuple[World, World], superuser_url: str
) -> None:
    """Cases 40, 176: agents, keys, knowledge, vectors, people; the other tenant's counts stay."""
    ours, theirs = worlds
    others = rows_of(superuser_url, theirs)
    scope = scope_of(ours.tenant)
    told = count_end(scope=scope)
    assert rows_of(superuser_url, theirs) == others
    done = end_tenant(scope=scope, tagged=tagged_eraser(), now=timezone.now())
    assert (told.persons, done.persons, done.unverified) == (2, 2, 0)
    assert rows_of(superuser_url, theirs) == others
    assert set(rows_of(superuser_url, ours)) == {
        "governance_disclosure",
        "governance_legalhold",
        "threads_agent",
        "threads_provider",
        "threads_keptusage",
    }
    # The world's mark holds the slug, which the tenant's row and the needles' table keep.
    assert set(rows_naming(superuser_url, ours.mark)) <= {"governance_auditentry"}
    with scoped_transaction(scope):
        tenant = Tenant.objects.in_scope(scope).get()
        erasures = Erasure.objects.in_scope(scope).filter(origin=ErasureOrigin.TENANT_END)
        assert [one.verified for one in erasures] == [Verified.TRUE] * 2
        assert all(one.receipt_sha256 for one in erasures)
    assert (tenant.slug, tenant.name, tenant.status) == (ours.tenant.slug, "", "ended")
    with pytest.raises(UnauthenticatedError):
        authenticate(raw=ours.key.secret, now=timezone.now())
    assert authenticate(raw=theirs.key.secret, now=timezone.now()).id == theirs.key.id
    again = end_tenant(scope=scope, tagged=tagged_eraser(), now=timezone.now())
    assert again.tenant_rows == {}


def test_a_hold_refuses_the_end_and_nothing_changes(worlds: tuple[World, World]) -> None:
    world = worlds[0]
    scope = scope_of(world.tenant)
    for person in world.people:
        place_hold(scope=scope, person=person.row, reason="court 法院", now=timezone.now())
    with pytest.raises(HeldTenantError, match="2 persons"):
        end_tenant(scope=scope, tagged=tagged_eraser(), now=timezone.now())
    with scoped_transaction(scope):
        assert Tenant.objects.in_scope(scope).get().status == "active"
    for person in world.people:
        release_hold(scope=scope, person=person.row, now=timezone.now())
    assert end_tenant(scope=scope, tagged=tagged_eraser(), now=timezone.now()).persons == 2


def test_the_command_wants_the_slug_twice_and_counts_first(worlds: tuple[World, World]) -> None:
    slug = worlds[0].tenant.slug
    with pytest.raises(CommandError, match="--yes"):
        call_command("end_tenant", "--tenant", slug)
    out = StringIO()
    call_command("end_tenant", "--tenant", slug, "--dry-run", "--json", stdout=out)
    assert json.loads(out.getvalue())["persons"] == 2
    out = StringIO()
    call_command("end_tenant", "--tenant", slug, "--yes", slug, "--json", stdout=out)
    assert json.loads(out.getvalue())["persons"] == 2


def test_what_is_kept_is_known_by_name() -> None:
    assert all(reason for reason in KEPT.values())
