"""Querysets of walled models: nothing runs undecided, and a decision is never lost or lent."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from django.core.exceptions import ValidationError
from django.db.models import Count, Q

from memory.errors import ScopeError, UndecidedQueryError
from memory.models import EndUser, Tenant
from memory.querysets import ScopedQuerySet
from memory.rls import scoped_transaction
from memory.scope import Scope
from tests.factories import make_agent, make_end_user, make_tenant, make_thread, scope_of
from threads.models import Thread, ThreadSummary

Rows = ScopedQuerySet[EndUser]

RUNS: dict[str, Callable[[Rows], Any]] = {
    "iterate": list,
    "iterate with filter": lambda rows: list(rows.filter(user_id="x")),
    "iterate in chunks": lambda rows: list(rows.iterator(chunk_size=10)),
    "iterate async": lambda rows: rows.aiterator(),
    "len": len,
    "bool": bool,
    "index": lambda rows: rows[0],
    "slice": lambda rows: list(rows[:3]),
    "contains": lambda rows: EndUser(id="usr_0") in rows,
    "contains row": lambda rows: rows.contains(EndUser(id="usr_0")),
    "get": lambda rows: rows.get(user_id="x"),
    "first": lambda rows: rows.first(),
    "last": lambda rows: rows.last(),
    "latest": lambda rows: rows.latest("created_at"),
    "earliest": lambda rows: rows.earliest("created_at"),
    "in bulk": lambda rows: rows.in_bulk(["usr_0"]),
    "values": lambda rows: list(rows.values("user_id")),
    "values list": lambda rows: list(rows.values_list("user_id", flat=True)),
    "dates": lambda rows: list(rows.datetimes("created_at", "day")),
    "count": lambda rows: rows.count(),
    "exists": lambda rows: rows.exists(),
    "aggregate": lambda rows: rows.aggregate(Count("id")),
    "annotate": lambda rows: list(rows.annotate(n=Count("memberships"))),
    "update": lambda rows: rows.update(epoch=2),
    "delete": lambda rows: rows.delete(),
    "explain": lambda rows: rows.explain(),
    "get or create": lambda rows: rows.get_or_create(user_id="x"),
    "update or create": lambda rows: rows.update_or_create(user_id="x"),
    "repr": repr,
}


@pytest.fixture
def tenant(db: None) -> Tenant:
    return make_tenant()


@pytest.mark.req("B17")
@pytest.mark.parametrize("name", RUNS)
def test_undecided_query_refused_before_it_runs(
    name: str, db: None, django_assert_max_num_queries: Any
) -> None:
    with django_assert_max_num_queries(4) as asked, pytest.raises(UndecidedQueryError):
        RUNS[name](EndUser.objects.get_queryset())
    assert [query for query in asked.captured_queries if "memory_enduser" in query["sql"]] == []


@pytest.mark.req("B17")
@pytest.mark.parametrize(
    "name", sorted(RUNS.keys() - {"get or create", "update or create", "iterate async"})
)
def test_decided_query_runs(name: str, tenant: Tenant) -> None:
    """The counterpart: the very same calls pass once they are decided."""
    make_end_user(tenant, user_id="x")
    scope = scope_of(tenant)
    with scoped_transaction(scope):
        RUNS[name](EndUser.objects.in_scope(scope))


@pytest.mark.req("B17")
def test_raw_sql_refused_even_when_decided(tenant: Tenant) -> None:
    with pytest.raises(UndecidedQueryError):
        EndUser.objects.in_scope(scope_of(tenant)).raw("SELECT 1")


@pytest.mark.req("B17")
@pytest.mark.parametrize(
    "combine",
    [
        lambda left, right: left | right,
        lambda left, right: left & right,
        lambda left, right: left ^ right,
        lambda left, right: left.union(right),
        lambda left, right: left.intersection(right),
        lambda left, right: left.difference(right),
        lambda left, right: left.filter(pk__in=right),
    ],
    ids=["or", "and", "xor", "union", "intersection", "difference", "subquery"],
)
def test_decision_not_lent_to_an_undecided_part(
    tenant: Tenant, combine: Callable[[Any, Any], Any]
) -> None:
    """`decided | undecided` would be the whole table."""
    make_end_user(tenant)
    scope = scope_of(tenant)
    decided, undecided = EndUser.objects.in_scope(scope), EndUser.objects.all()
    with scoped_transaction(scope):
        with pytest.raises(UndecidedQueryError):
            list(combine(decided, undecided))
        with pytest.raises(UndecidedQueryError):
            list(combine(undecided, decided))
        list(combine(decided, EndUser.objects.in_scope(scope)))


@pytest.mark.req("B17")
def test_decided_query_not_joined_with_rows_of_the_bare_manager(tenant: Tenant) -> None:
    with pytest.raises(UndecidedQueryError):
        EndUser.objects.in_scope(scope_of(tenant)) | EndUser._base_manager.all()


@pytest.mark.req("B17")
def test_unscoped_without_reason_refused(db: None) -> None:
    for reason in ("", "  \n"):
        with pytest.raises(UndecidedQueryError):
            EndUser.objects.unscoped(reason=reason)


@pytest.mark.req("B17")
@pytest.mark.req("B18")
def test_in_scope_filters_tenant_user_and_session(tenant: Tenant) -> None:
    other = make_tenant()
    mine, second = make_end_user(tenant, user_id="学生甲"), make_end_user(tenant)
    stranger = make_end_user(other)
    both = Scope(tenant_ids=(tenant.id, other.id), principal_id="staff:1")
    with scoped_transaction(both):

        def seen(scope: Scope) -> set[str]:
            return set(EndUser.objects.in_scope(scope).values_list("id", flat=True))

        assert seen(scope_of(tenant)) == {mine.id, second.id}
        assert seen(scope_of(tenant, mine)) == {mine.id}
        assert seen(scope_of(other)) == {stranger.id}
        assert seen(both) == {mine.id, second.id, stranger.id}


@pytest.mark.req("B18")
def test_session_private_model_without_thread_refused(tenant: Tenant) -> None:
    person = make_end_user(tenant)
    thread = make_thread(make_agent(tenant), person)
    with pytest.raises(ScopeError):
        ThreadSummary.objects.in_scope(scope_of(tenant, person))
    with scoped_transaction(scope_of(tenant, person, thread)):
        rows = ThreadSummary.objects.in_scope(scope_of(tenant, person, thread))
        assert rows.count() == 0


@pytest.mark.req("B17")
def test_scope_can_not_be_undone_by_a_later_filter(tenant: Tenant) -> None:
    stranger = make_end_user(make_tenant())
    scope = Scope(tenant_ids=(tenant.id, stranger.tenant_id), principal_id="staff:1")
    with scoped_transaction(scope):
        rows = EndUser.objects.in_scope(scope_of(tenant))
        assert list(rows.filter(Q(tenant=stranger.tenant_id) | Q(pk=stranger.pk))) == []
        assert list(rows.in_scope(scope_of(Tenant(id=stranger.tenant_id)))) == []


@pytest.mark.req("B17")
def test_related_and_prefetched_rows_need_their_own_decision(tenant: Tenant) -> None:
    person = make_end_user(tenant)
    thread = make_thread(make_agent(tenant), person)
    scope = scope_of(tenant)
    with scoped_transaction(scope):
        with pytest.raises(UndecidedQueryError):
            list(thread.runs.all())
        with pytest.raises(UndecidedQueryError):
            list(Thread.objects.in_scope(scope).prefetch_related("runs"))
        assert list(thread.runs.in_scope(scope)) == []


@pytest.mark.req("B17")
def test_model_validation_looks_inside_the_walls_only(tenant: Tenant) -> None:
    """A form's unique check may look, and sees what row-level security shows: no oracle."""
    taken = make_end_user(tenant, user_id="taken")
    other = make_tenant()
    with scoped_transaction(scope_of(tenant)):
        with pytest.raises(ValidationError):
            EndUser(tenant=tenant, user_id="taken").validate_constraints()
        EndUser(tenant=tenant, user_id="free").validate_constraints()
        with pytest.raises(UndecidedQueryError):
            EndUser.objects.count()
    with scoped_transaction(scope_of(other)):
        EndUser(tenant=other, id=taken.id, user_id="taken").validate_unique()
