"""Tenants and their people: slugs, staff, and one person for one user_id."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from threading import Barrier
from typing import Any

import pytest
from django.contrib.auth.models import User
from django.db import connection, connections

from governance.access import ForbiddenError
from governance.permissions import Role
from governance.tenants import (
    ReservedUserIdError,
    check_user_id,
    create_staff,
    create_tenant,
    ensure_end_user,
    find_end_user,
    find_tenant,
)
from memory.errors import InvalidInputError, NotFoundError
from memory.ids import new_id
from memory.models import EndUser
from memory.rls import scoped_transaction
from tests.factories import NOW, make_end_user, make_tenant, scope_of


@pytest.mark.parametrize("slug", ["a", "0", "school-7", "a" * 63, "a--b"])
def test_slug_well_formed_taken_as_is(db: None, slug: str) -> None:
    tenant = create_tenant(slug=slug, name="", now=NOW, actor="test")
    assert (tenant.slug, tenant.name, tenant.status) == (slug, slug, "active")


@pytest.mark.parametrize(
    "slug", ["", "-a", "a-", "A", "a b", "a_b", "学校", "a" * 64, "a\n", "a\x00", "a/b", "../a"]
)
def test_slug_malformed_refused(db: None, slug: str) -> None:
    with pytest.raises(InvalidInputError) as error:
        create_tenant(slug=slug, name="", now=NOW, actor="test")
    assert error.value.field == "slug"


def test_staff_existing_keeps_password_and_gains_a_role(db: None) -> None:
    a, b = make_tenant(), make_tenant()
    first = create_staff(
        scope=scope_of(a), username="lin", password="one", role=Role.READER, now=NOW
    )
    again = create_staff(
        scope=scope_of(b), username="lin", password="two", role=Role.ADMIN, now=NOW
    )
    assert first.pk == again.pk
    stored = User.objects.get(pk=first.pk)
    assert stored.check_password("one")
    assert stored.groups.count() == 2
    assert (stored.is_staff, stored.is_superuser) == (True, False)


@pytest.mark.parametrize(
    "user_id", ["7", "学生-甲", "a@b.example", "Ünïcode", "x" * 255, "usr_alice", "default", "🙂"]
)
def test_user_id_usable_passes(user_id: str) -> None:
    check_user_id(user_id)


@pytest.mark.parametrize(
    "user_id",
    [
        "",
        " ",
        "\u3000",
        "x" * 256,
        "a\x00b",
        "a\nb",
        "\x7f",
        "\x85",
        "\ud800",
        "usr_01h455vb4pex5vsknk084sn02q",
        "run_01h455vb4pex5vsknk084sn02q",
        "usr_01H455VB4PEX5VSKNK084SN02Q",
    ],
)
def test_user_id_reserved_or_unusable_refused_without_a_query(
    db: None, user_id: str, django_assert_num_queries: Any
) -> None:
    with django_assert_num_queries(0), pytest.raises(ReservedUserIdError):
        check_user_id(user_id)


def test_person_found_by_either_id_and_made_once(db: None) -> None:
    tenant = make_tenant()
    scope = scope_of(tenant)
    with scoped_transaction(scope):
        assert find_end_user(scope=scope, user_id="学生甲") is None
        made = ensure_end_user(scope=scope, user_id="学生甲", now=NOW)
        assert ensure_end_user(scope=scope, user_id="学生甲", now=NOW).id == made.id
        assert ensure_end_user(scope=scope, user_id=made.id, now=NOW).id == made.id
        found = find_end_user(scope=scope, user_id=made.id)
        assert found is not None
        assert found.user_id == "学生甲"
        assert EndUser.objects.in_scope(scope).count() == 1


@pytest.mark.parametrize("user_id", ["\x00", "\ud800", ""])
def test_person_with_an_unusable_id_refused_not_crashed(db: None, user_id: str) -> None:
    scope = scope_of(make_tenant())
    with scoped_transaction(scope), pytest.raises(ReservedUserIdError):
        ensure_end_user(scope=scope, user_id=user_id, now=NOW)


@pytest.mark.req("B18")
def test_person_of_another_tenant_is_unknown_here(db: None) -> None:
    """Attack case 5: the same user_id in two tenants is two persons; an internal id is no way in."""
    a, b = make_tenant(), make_tenant()
    theirs = make_end_user(a, user_id="default")
    scope = scope_of(b)
    with scoped_transaction(scope):
        assert find_end_user(scope=scope, user_id=theirs.id) is None
        assert find_end_user(scope=scope, user_id="default") is None
        mine = ensure_end_user(scope=scope, user_id="default", now=NOW)
        assert mine.id != theirs.id
        refusals = []
        for user_id in (theirs.id, new_id("usr")):
            with pytest.raises(ReservedUserIdError) as error:
                ensure_end_user(scope=scope, user_id=user_id, now=NOW)
            refusals.append(error.value.detail)
    assert refusals[0] == refusals[1]


@pytest.mark.req("B17")
def test_scope_of_one_person_makes_no_other(db: None) -> None:
    """Attack case 7: known or unknown, another person is refused in the same words."""
    tenant = make_tenant()
    own, other = make_end_user(tenant, user_id="own"), make_end_user(tenant, user_id="other")
    scope = scope_of(tenant, own)
    details = []
    with scoped_transaction(scope):
        assert ensure_end_user(scope=scope, user_id="own", now=NOW).id == own.id
        for user_id in ("other", other.id, "nobody yet"):
            with pytest.raises(ForbiddenError) as error:
                ensure_end_user(scope=scope, user_id=user_id, now=NOW)
            details.append(error.value.detail)
    assert len(set(details)) == 1
    with scoped_transaction(scope_of(tenant)):
        assert EndUser.objects.in_scope(scope_of(tenant)).count() == 2


def test_tenant_named_by_slug_found_or_refused(committed_db: None) -> None:
    tenant = make_tenant("named")
    assert find_tenant(slug="named").id == tenant.id
    with pytest.raises(NotFoundError):
        find_tenant(slug="nobody")


@pytest.mark.req("B17")
def test_fifty_first_messages_at_once_make_one_person(committed_db: None) -> None:
    """Bug report G7: ten connections, all past the first look before any of them writes."""
    tenant = make_tenant()
    scope = scope_of(tenant)
    at_once = 10
    meet = Barrier(at_once, timeout=30)

    def first_message(number: int) -> tuple[str, int]:
        with scoped_transaction(scope):
            assert find_end_user(scope=scope, user_id=f"pupil-{number // at_once}") is None
            meet.wait()
            person = ensure_end_user(scope=scope, user_id=f"pupil-{number // at_once}", now=NOW)
            # The caller's transaction lives on after a lost race.
            with connection.cursor() as cursor:
                cursor.execute("SELECT count(*) FROM memory_enduser WHERE id = %s", [person.id])
                return person.id, int(cursor.fetchone()[0])

    def close(_: int) -> None:
        meet.wait()
        connections.close_all()

    with ThreadPoolExecutor(at_once) as pool:
        try:
            seen = [list(pool.map(first_message, range(n, n + at_once))) for n in range(0, 50, 10)]
        finally:
            list(pool.map(close, range(at_once)))
    assert [len({person for person, _ in group}) for group in seen] == [1] * 5
    assert {count for group in seen for _, count in group} == {1}
    with scoped_transaction(scope):
        assert EndUser.objects.in_scope(scope).count() == 5
