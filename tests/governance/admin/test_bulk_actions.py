"""Decisions from the list: a hundred at once, thousands by the worker, and only with a reason."""

from __future__ import annotations

from typing import Any

import pytest
from django.test import Client

from governance import bulk
from governance.models import BulkDecision, CoreCandidate, EntityCandidate
from governance.permissions import Role
from memory.models import Job
from memory.rls import scoped_transaction
from tests.factories import NOW, make_staff, scope_of
from tests.governance.admin.learned import audited, choose, learn, page, row_of, rows_of, send
from tests.governance.admin.worlds import World, signed_in, url_of


def make_candidates(world: World, count: int) -> list[str]:
    with scoped_transaction(scope_of(world.tenant)):
        made = CoreCandidate.objects.bulk_create(
            CoreCandidate(
                tenant=world.tenant, end_user=world.end_user, fact=f"fact {number} 事实",
                fact_key=f"many {number}", origin="api", proposed_by="x",
            )
            for number in range(count)
        )  # fmt: skip
    return [row.pk for row in made]


def many(world: World, **found: Any) -> int:
    return len(rows_of(world, CoreCandidate, fact_key__startswith="many", **found))


@pytest.mark.req("E05")
def test_up_to_a_hundred_are_decided_at_once_each_audited(
    beta: World, client_of_beta: Client
) -> None:
    ids = make_candidates(beta, 3)
    answer = send(client_of_beta, CoreCandidate, "reject", ids, reason="测试数据")
    assert "Done for 3" in answer.content.decode()
    rejected = rows_of(beta, CoreCandidate, pk__in=ids)
    assert {(row.status, row.reason) for row in rejected} == {("rejected", "测试数据")}
    for row in rejected:
        assert audited(beta, row) == [("core_candidate_rejected", f"staff:{beta.staff.pk}")]
    again = send(client_of_beta, CoreCandidate, "confirm", ids)
    assert "Not possible for 3" in again.content.decode()


def test_rejecting_without_a_reason_changes_nothing(beta: World, client_of_beta: Client) -> None:
    ids = make_candidates(beta, 2)
    answer = send(client_of_beta, CoreCandidate, "reject", ids, reason="  ")
    assert "Give a reason" in answer.content.decode()
    assert many(beta, status="pending") == 2


@pytest.mark.req("E05")
def test_all_rows_of_the_list_across_pages_go_to_the_worker(
    beta: World, client_of_beta: Client
) -> None:
    ids = make_candidates(beta, 120)
    chosen = {"action": "reject", "select_across": "1", "reason": "all of them"}
    answer = client_of_beta.post(
        url_of(CoreCandidate) + "?status__exact=pending&q=fact",
        chosen | {"_selected_action": ids[:1], "index": 0},
        follow=True,
    )
    (asked,) = rows_of(beta, BulkDecision, reason="all of them")
    assert asked.pk in answer.content.decode()
    assert set(ids) <= set(asked.ids)
    assert (asked.actor, asked.status) == (f"staff:{beta.staff.pk}", "ready")
    assert many(beta, status="pending") == 120
    assert len(rows_of(beta, Job, kind="bulk_decide")) == 1
    done = bulk.work(scope=scope_of(beta.tenant), bulk_id=asked.pk, now=NOW, within_seconds=60)
    assert done.status == "done"
    assert many(beta, status="rejected") == 120
    room = page(client_of_beta, asked)
    assert f"{len(asked.ids)} / {len(asked.ids)}" in room


def test_more_than_can_be_asked_for_is_cut_and_said(
    beta: World, client_of_beta: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(bulk, "MOST_ROWS", 110)
    make_candidates(beta, 120)
    answer = client_of_beta.post(
        url_of(CoreCandidate) + "?q=fact",
        {"action": "confirm", "select_across": "1", "_selected_action": "x", "index": 0},
        follow=True,
    )
    assert "110 rows at most" in answer.content.decode()
    (asked,) = [row for row in rows_of(beta, BulkDecision) if len(row.ids) > 1]
    assert len(asked.ids) == 110


@pytest.mark.req("B18")
def test_two_tenants_are_asked_for_apart(alpha: World, beta: World) -> None:
    beta.staff.groups.add(alpha.staff.groups.get())
    for world in (alpha, beta):
        make_candidates(world, 60)
    signed_in(beta.staff).post(
        url_of(CoreCandidate) + "?q=事实",
        {"action": "confirm", "select_across": "1", "_selected_action": "x", "index": 0},
    )
    for world in (alpha, beta):
        (asked,) = [row for row in rows_of(world, BulkDecision) if len(row.ids) > 1]
        own = {row.pk for row in rows_of(world, CoreCandidate, fact_key__startswith="many")}
        assert set(asked.ids) == own


@pytest.mark.req("B18")
def test_rows_of_a_tenant_one_only_reads_refuse_the_whole(alpha: World, beta: World) -> None:
    beta.staff.groups.add(make_staff(alpha.tenant, role=Role.READER).groups.get())
    ids = [*make_candidates(alpha, 1), *make_candidates(beta, 1)]
    answer = send(signed_in(beta.staff), CoreCandidate, "confirm", ids)
    assert answer.status_code == 403
    assert many(alpha, status="pending") == many(beta, status="pending") == 1


def test_full_core_memory_counts_as_not_possible(beta: World, client_of_beta: Client) -> None:
    ids = [learn(beta, f"Plays game number {number}").pk for number in range(3)]
    choose(beta, core_facts=2)
    answer = send(client_of_beta, CoreCandidate, "confirm", ids).content.decode()
    assert "Done for 1" in answer
    assert "Not possible for 2" in answer


def test_vocabulary_is_decided_in_bulk_too(beta: World, client_of_beta: Client) -> None:
    pk = beta.rows[EntityCandidate]
    send(client_of_beta, EntityCandidate, "reject", [pk], reason="no")
    assert row_of(beta, EntityCandidate(pk=pk)).status == "rejected"


@pytest.mark.req("E05")
def test_a_decision_is_cancelled_from_its_room(beta: World, client_of_beta: Client) -> None:
    (asked,) = rows_of(beta, BulkDecision)
    assert "0 / 1" in client_of_beta.get(url_of(BulkDecision)).content.decode()
    send(client_of_beta, BulkDecision, "cancel", [asked.pk])
    assert (row_of(beta, asked).status, row_of(beta, asked).error_code) == ("stopped", "cancelled")
