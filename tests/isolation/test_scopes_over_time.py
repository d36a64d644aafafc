"""Scopes on one connection, one after the other, nested, and on several threads: nothing left over."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Iterator
from typing import Any

import pytest
from django.db import IntegrityError, connection, transaction

from memory.db_threads import in_database_thread
from memory.errors import ScopeError, UndecidedQueryError
from memory.models import EndUser, Tenant
from memory.rls import narrow_open_scope, open_scope, scoped_transaction
from tests.isolation.conftest import Worlds
from tests.isolation.worlds import RolledBackError, World, dump, tenants_in
from threads.models import Run, ThreadSummary


@pytest.mark.req("B18")
def test_thousand_alternating_scopes_on_one_connection_never_cross(worlds: Worlds) -> None:
    """Attack case 20: one connection, two tenants in turn, every seventh raises midway."""
    a, b, _ = worlds
    connection.ensure_connection()
    backend = connection.connection
    crossed, raised = [], 0
    for number in range(1000):
        mine, theirs = (a, b) if number % 2 else (b, a)
        try:
            with scoped_transaction(mine.scope()), connection.cursor() as cursor:
                if number % 7 == 0:
                    cursor.execute("SELECT 1 / 0")
                cursor.execute("SELECT input FROM threads_run")
                seen = str(cursor.fetchall())
                if theirs.mark in seen or mine.mark not in seen:
                    crossed.append(number)
        except Exception:  # noqa: BLE001 - the division, whatever its class
            raised += 1
        if number % 10 == 0:
            assert open_scope() is None
            assert dump(Run) == []
    assert crossed == []
    assert raised == 143
    assert connection.connection is backend


@pytest.mark.req("B18")
def test_nested_scope_ended_or_failed_outer_scope_is_back(worlds: Worlds) -> None:
    _, b, _ = worlds
    wide, narrow = b.scope(), b.scope(0, thread=b.people[0].thread)
    everyone = {person.row.id for person in b.people}
    with scoped_transaction(wide):
        with scoped_transaction(narrow):
            assert {row["id"] for row in dump(EndUser)} == {b.people[0].row.id}
            assert open_scope() == narrow
            with scoped_transaction(b.scope(0)):
                assert dump(ThreadSummary) == []
            assert len(dump(ThreadSummary)) == 1
        assert {row["id"] for row in dump(EndUser)} == everyone
        assert open_scope() == wide
        with pytest.raises(RolledBackError), scoped_transaction(narrow):
            raise RolledBackError
        assert {row["id"] for row in dump(EndUser)} == everyone
        assert open_scope() == wide
        with pytest.raises(IntegrityError), scoped_transaction(narrow):
            Tenant(id=b.tenant.id, slug=b.tenant.slug).save(force_insert=True)
        assert {row["id"] for row in dump(EndUser)} == everyone
        assert dump(ThreadSummary) == []
    assert open_scope() is None


@pytest.mark.req("B18")
def test_savepoint_rolled_back_scope_stays_right(worlds: Worlds) -> None:
    _, b, _ = worlds
    with scoped_transaction(b.scope(0)):
        with pytest.raises(RolledBackError), transaction.atomic():
            raise RolledBackError
        assert {row["id"] for row in dump(EndUser)} == {b.people[0].row.id}


@pytest.mark.req("B18")
def test_narrowing_lasts_to_the_end_and_never_leaves_the_tenant(worlds: Worlds) -> None:
    a, b, _ = worlds
    with scoped_transaction(b.scope()):
        narrow_open_scope(b.scope(0))
        assert {row["id"] for row in dump(EndUser)} == {b.people[0].row.id}
        with pytest.raises(ScopeError):
            narrow_open_scope(a.scope())
        assert tenants_in(EndUser, dump(EndUser)) == {b.tenant.id}
    assert dump(EndUser) == []
    with pytest.raises(ScopeError):
        narrow_open_scope(b.scope())
    assert open_scope() is None


@pytest.mark.req("B18")
def test_generator_read_after_its_transaction_sees_nothing(worlds: Worlds) -> None:
    """Attack case 22: a stream's body that asks the database once its view has returned."""
    _, b, _ = worlds

    def lines() -> Iterator[str]:
        for run in Run.objects.in_scope(b.scope()):
            yield run.input

    def undecided_lines() -> Iterator[str]:
        for run in Run.objects.all():
            yield run.input

    with scoped_transaction(b.scope()):
        assert list(lines())
        late, undecided = lines(), undecided_lines()
    assert list(late) == []
    with pytest.raises(UndecidedQueryError):
        list(undecided)


@pytest.mark.req("B18")
def test_database_threads_do_not_share_a_scope(worlds: Worlds) -> None:
    """Two scopes open at the same moment on two threads, and a third thread without."""
    a, b, _ = worlds
    meet = threading.Barrier(3, timeout=20)

    def scoped(world: World) -> set[Any]:
        with scoped_transaction(world.scope()):
            meet.wait()
            seen = tenants_in(Run, dump(Run))
            meet.wait()
        return seen

    def bare() -> set[Any]:
        meet.wait()
        assert open_scope() is None
        seen = tenants_in(Run, dump(Run))
        meet.wait()
        return seen

    async def together() -> tuple[set[Any], ...]:
        return await asyncio.gather(
            in_database_thread(lambda: scoped(a)),
            in_database_thread(lambda: scoped(b)),
            in_database_thread(bare),
        )

    assert list(asyncio.run(together())) == [{a.tenant.id}, {b.tenant.id}, set()]

    async def afterwards() -> list[set[Any]]:
        return await asyncio.gather(
            *(in_database_thread(lambda: tenants_in(Run, dump(Run))) for _ in range(8))
        )

    assert asyncio.run(afterwards()) == [set()] * 8


# Staff.
