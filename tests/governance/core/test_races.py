"""Twenty at once: the same fact, the same decision, decisions that exclude each other."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta
from typing import Any

import pytest
from django.db import connections

from governance.core.candidates import reject_candidate
from governance.core.facts import change_fact, delete_fact
from governance.core.problems import CoreFullError
from governance.decisions import AlreadyDecidedError, DecidedBy
from governance.policy import change_policy
from memory.errors import CredenceError
from tests.factories import NOW, scope_of
from tests.governance.core.desks import STAFF, Desk, make_desk

pytestmark = pytest.mark.usefixtures("committed_db")
AT_ONCE = 20


@pytest.fixture
def desk(committed_db: None) -> Desk:
    return make_desk()


def at_once(works: list[Callable[[], Any]]) -> Counter[str]:
    """Run all of it at the same time and count how each ended."""

    def one(work: Callable[[], Any]) -> str:
        try:
            work()
        except CredenceError as error:
            return error.code
        finally:
            connections.close_all()
        return "ok"

    with ThreadPoolExecutor(len(works)) as pool:
        return Counter(pool.map(one, works))


@pytest.mark.req("A18")
def test_twenty_add_the_same_fact_at_once_65(desk: Desk) -> None:
    """65, B1: one row, one audit row, every one counted."""
    ended = at_once([lambda: desk.add("I like coffee")] * AT_ONCE)
    assert ended == {"ok": AT_ONCE}
    (row,) = desk.candidates()
    assert row.seen_count == AT_ONCE
    assert desk.audited() == ["memory_written"]


@pytest.mark.req("A19")
def test_twenty_confirm_at_once_make_one_fact_and_one_audit_row(desk: Desk) -> None:
    candidate_id = desk.candidate("I like coffee")

    def confirm(number: int) -> Callable[[], Any]:
        by = DecidedBy(kind="staff", id=f"staff:{number}")
        return lambda: desk.confirm(candidate_id, by)

    ended = at_once([confirm(number) for number in range(AT_ONCE)])
    assert ended == {"ok": AT_ONCE}
    assert len(desk.stored()) == 1
    assert desk.audited("core_candidate").count("core_candidate_confirmed") == 1
    assert desk.audited("core_fact") == ["memory_written"]
    assert len(desk.entries()) == 1


def test_confirming_and_rejecting_at_once_leave_one_decision(desk: Desk) -> None:
    candidate_id = desk.candidate("I like coffee")

    def reject() -> None:
        reject_candidate(scope=desk.scope, candidate_id=candidate_id, by=STAFF, reason="", now=NOW)

    ended = at_once([lambda: desk.confirm(candidate_id), reject] * (AT_ONCE // 2))
    assert ended == {"ok": AT_ONCE // 2, AlreadyDecidedError.code: AT_ONCE // 2}
    (row,) = desk.candidates()
    assert len(desk.stored()) == (1 if row.status == "confirmed" else 0)
    decided = [one for one in desk.audited("core_candidate") if one != "memory_written"]
    assert len(decided) == 1


def test_adding_while_it_is_confirmed_leaves_no_second_candidate(desk: Desk) -> None:
    candidate_id = desk.candidate("I like coffee")
    works: list[Callable[[], Any]] = [lambda: desk.add("I like coffee")] * (AT_ONCE - 1)
    assert at_once([*works, lambda: desk.confirm(candidate_id)]) == {"ok": AT_ONCE}
    assert [row.status for row in desk.candidates()] == ["confirmed"]


@pytest.mark.req("A20")
def test_twenty_candidates_confirmed_at_once_never_exceed_the_most(desk: Desk) -> None:
    change_policy(scope=scope_of(desk.tenant), changes={"core_facts": 5}, now=NOW)
    ids = [desk.candidate(f"fact number {number}") for number in range(AT_ONCE)]

    def confirm(candidate_id: str) -> Callable[[], Any]:
        return lambda: desk.confirm(candidate_id)

    ended = at_once([confirm(one) for one in ids])
    assert ended == {"ok": 5, CoreFullError.code: 15}
    assert len(desk.facts()) == 5


def test_ten_colours_confirmed_at_once_leave_one(desk: Desk) -> None:
    ids = [desk.candidate(f"colour {number}", "favourite colour") for number in range(10)]

    def confirm(candidate_id: str) -> Callable[[], Any]:
        return lambda: desk.confirm(candidate_id)

    assert at_once([confirm(one) for one in ids]) == {"ok": 10}
    assert len(desk.facts()) == 1
    assert Counter(one.end_reason for one in desk.stored()) == {"superseded": 9, "": 1}


@pytest.mark.parametrize("number", range(20))
def test_blue_becomes_red_twenty_times_of_twenty(desk: Desk, number: int) -> None:
    """F3."""
    desk.hold("My favourite colour is blue", "favourite colour")
    desk.hold("My favourite colour is red", "favourite colour", days=1)
    assert desk.facts() == ["My favourite colour is red"]
    assert desk.facts(NOW + timedelta(hours=1)) == ["My favourite colour is blue"]


def test_changing_and_deleting_at_once_ends_without_a_lock_in_a_circle(desk: Desk) -> None:
    """133: no update is lost, nobody waits in a circle."""
    fact = desk.hold("I like coffee")

    def change(number: int) -> Callable[[], Any]:
        return lambda: change_fact(
            scope=desk.scope, fact_id=fact.pk, by=STAFF, now=NOW, fact=f"I like tea {number}"
        )

    works: list[Callable[[], Any]] = [change(number) for number in range(AT_ONCE - 1)]
    works.append(lambda: delete_fact(scope=desk.scope, fact_id=fact.pk, now=NOW))
    ended = at_once(works)
    assert set(ended) <= {"ok", "not_found"}
    assert (desk.stored(), desk.entries()) == ([], [])
