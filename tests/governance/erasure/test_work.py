"""The work itself: pausing, going on, giving up, coming back, and what stays of the use."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta
from decimal import Decimal

import pytest
from django.db import connections
from django.utils import timezone

from governance.erasure import booking
from governance.erasure.holds import place_hold
from governance.erasure.problems import (
    ErasureLostError,
    ErasureNotFailedError,
    ErasureRunningError,
    LegalHoldError,
)
from governance.erasure.requests import request_erasure, retry_erasure
from governance.erasure.work import do_erasure, work_erasures
from governance.keys import UnauthenticatedError, authenticate
from governance.models import AuditEntry
from governance.models.erasure import Erasure, ErasureStatus, Verified
from governance.tenants import ensure_end_user, find_end_user
from governance.tombstones import hmacs_of, next_epoch
from memory.errors import NotFoundError
from memory.models import EndUser, Tenant
from memory.rls import maintenance_transaction, scoped_transaction
from tests.factories import (
    NOW,
    make_agent,
    make_end_user,
    make_key,
    make_run,
    make_tenant,
    make_thread,
    scope_of,
)
from tests.governance.erasure.scenes import erase, no_tagged, read
from tests.talking import tell
from threads.usage import report

pytestmark = pytest.mark.usefixtures("committed_db")


def ask(person: EndUser) -> Erasure:
    return request_erasure(
        scope=scope_of(Tenant(id=person.tenant_id)), person=person, mode="all", now=timezone.now()
    )


def talker(tenant: Tenant, user_id: str, *, turns: int = 3) -> EndUser:
    person = make_end_user(tenant, user_id=user_id)
    thread = make_thread(make_agent(tenant), person)
    tell(thread, [(f"question {number} 问题", f"answer {number}") for number in range(turns)])
    return person


def make_due(erasure: Erasure) -> None:
    """Let a lease or a backoff be over."""
    with maintenance_transaction() as alias, connections[alias].cursor() as cursor:
        cursor.execute(
            "UPDATE governance_erasure SET lease_until = now() - interval '1 second'"
            " WHERE id = %s AND lease_until IS NOT NULL",
            [erasure.pk],
        )


class StopError(Exception):
    """Ends a round in the middle."""


def failing_after(batches: int) -> Callable[[], None]:
    """What raises once so many batches are done."""
    left = [batches]

    def between() -> None:
        left[0] -= 1
        if left[0] < 0:
            raise StopError

    return between


def test_who_comes_back_is_a_new_person_of_a_later_epoch() -> None:
    """Case 158: nothing old returns, and what is new is kept."""
    tenant = make_tenant()
    scope = scope_of(tenant)
    epochs = []
    for _ in range(3):
        with scoped_transaction(scope):
            person = ensure_end_user(scope=scope, user_id="café-7", now=NOW)
        epochs.append(person.epoch)
        tell(make_thread(make_agent(tenant), person), [("hello", "hi")])
        erase(person)
        with scoped_transaction(scope):
            assert find_end_user(scope=scope, user_id="café-7") is None
            assert find_end_user(scope=scope, user_id=person.pk) is None
    assert epochs == [1, 2, 3]
    with scoped_transaction(scope):
        assert next_epoch(scope=scope, user_id="cafe\N{COMBINING ACUTE ACCENT}-7") == 4
        assert next_epoch(scope=scope, user_id="somebody else") == 1


def test_tombstones_tell_tenants_apart_and_outlive_a_pepper(settings: object) -> None:
    settings.CREDENCE_KEY_PEPPERS = {1: "old pepper"}  # type: ignore[attr-defined]
    tenant, other = make_tenant(), make_tenant()
    (old,) = hmacs_of(tenant_id=tenant.pk, user_id="u")
    erase(make_end_user(tenant, user_id="u"))
    settings.CREDENCE_KEY_PEPPERS = {1: "old pepper", 2: "new"}  # type: ignore[attr-defined]
    assert hmacs_of(tenant_id=tenant.pk, user_id="u")[1] == old
    assert old not in hmacs_of(tenant_id=other.pk, user_id="u")
    with scoped_transaction(scope_of(tenant)):
        assert next_epoch(scope=scope_of(tenant), user_id="u") == 2
    with scoped_transaction(scope_of(other)):
        assert next_epoch(scope=scope_of(other), user_id="u") == 1


def test_asking_again_is_one_erasure_and_asking_meanwhile_finds_nobody() -> None:
    person = talker(make_tenant(), "twice")
    asked = ask(person)
    assert ask(person).pk == asked.pk
    assert do_erasure(erasure_id=asked.pk, tagged=no_tagged, now=timezone.now())
    assert not do_erasure(erasure_id=asked.pk, tagged=no_tagged, now=timezone.now())
    with pytest.raises(NotFoundError):
        ask(person)


def test_hold_and_erasure_exclude_each_other() -> None:
    """Bug report I11, both ways round."""
    tenant = make_tenant()
    scope = scope_of(tenant)
    held, asked = talker(tenant, "held"), talker(tenant, "asked")
    first = place_hold(scope=scope, person=held, reason="case", now=timezone.now())
    assert place_hold(scope=scope, person=held, reason="again", now=timezone.now()).pk == first.pk
    with pytest.raises(LegalHoldError):
        ask(held)
    ask(asked)
    with pytest.raises(ErasureRunningError):
        place_hold(scope=scope, person=asked, reason="too late", now=timezone.now())


def test_keys_of_the_person_are_worth_nothing_from_the_request_on() -> None:
    tenant = make_tenant()
    person = talker(tenant, "keyed")
    key = make_key(tenant, end_user_id=person.pk)
    ask(person)
    with pytest.raises(UnauthenticatedError):
        authenticate(raw=key.secret, now=timezone.now())
    work_erasures(now=timezone.now(), within_seconds=60, tagged=no_tagged)
    with connections["maint"].cursor() as cursor:
        cursor.execute("SELECT count(*) FROM auth_user WHERE username = %s", [f"service:{key.id}"])
        assert cursor.fetchone() == (0,)


def test_stopped_at_any_batch_it_goes_on_and_the_counts_add_up() -> None:
    """Case 160: half done, again, and again; the sums are those of one go."""
    tenant = make_tenant()
    whole = erase(talker(tenant, "whole"))
    for stop_after in (0, 1, 7, 20, 30):
        asked = ask(talker(tenant, f"stopped-{stop_after}"))
        with pytest.raises(StopError):
            work_erasures_until(failing_after(stop_after))
        assert read(asked).status == ErasureStatus.QUEUED
        make_due(asked)
        done = work_erasures(now=timezone.now(), within_seconds=60, tagged=no_tagged)
        assert done.done == 1
        assert read(asked).counts == whole.counts
        assert read(asked).verified == Verified.TRUE


def work_erasures_until(between: Callable[[], None]) -> None:
    """Work as the queue does, and raise what stopped it."""
    reports = work_erasures(
        now=timezone.now(), within_seconds=60, tagged=no_tagged, between=between
    )
    if reports.failed:
        raise StopError


def test_a_round_that_is_over_pauses_without_counting_an_attempt() -> None:
    asked = ask(talker(make_tenant(), "slow"))
    rounds = 0
    while read(asked).status != ErasureStatus.DONE:
        work_erasures(now=timezone.now(), within_seconds=0.02, tagged=no_tagged)
        rounds += 1
        assert rounds < 500
    assert rounds > 1
    assert read(asked).attempts == 1


def test_what_fails_five_times_is_failed_and_can_be_tried_again() -> None:
    tenant = make_tenant()
    asked = ask(talker(tenant, "stubborn"))
    for _ in range(booking.MAX_ATTEMPTS):
        make_due(asked)
        work_erasures(
            now=timezone.now(), within_seconds=60, tagged=no_tagged, between=failing_after(0)
        )
    failed = read(asked)
    assert (failed.status, failed.error_code) == (ErasureStatus.FAILED, "internal_error")
    again = work_erasures(now=timezone.now(), within_seconds=60, tagged=no_tagged)
    assert again.done == 0
    scope = scope_of(tenant)
    assert retry_erasure(scope=scope, erasure_id=asked.pk, now=timezone.now()).attempts == 0
    with pytest.raises(ErasureNotFailedError):
        retry_erasure(scope=scope, erasure_id=asked.pk, now=timezone.now())
    work_erasures(now=timezone.now(), within_seconds=60, tagged=no_tagged)
    assert read(asked).status == ErasureStatus.DONE
    with scoped_transaction(scope):
        acts = AuditEntry.objects.in_scope(scope).filter(target_id=asked.pk)
        assert {"erasure_failed", "erasure_retried", "erasure_done"} <= set(
            acts.values_list("action", flat=True)
        )


def test_whoever_lost_it_stops_and_writes_nothing_more() -> None:
    """Case 160: in parallel; the second claim makes the first one stop."""
    asked = ask(talker(make_tenant(), "raced"))
    first = booking.claim(now=timezone.now())
    assert first is not None
    make_due(asked)
    second = booking.claim(now=timezone.now())
    assert second is not None
    scope = scope_of(Tenant(id=asked.tenant_id))
    with scoped_transaction(scope), pytest.raises(ErasureLostError):
        booking.hold(first)
    with scoped_transaction(scope):
        booking.hold(second)


def test_totals_of_a_tenants_use_stay_what_they_were() -> None:
    tenant = make_tenant()
    agent = make_agent(tenant)
    principal = make_key(tenant).principal
    for user_id in ("stays", "goes"):
        person = make_end_user(tenant, user_id=user_id)
        thread = make_thread(agent, person)
        for day in range(3):
            make_run(
                thread,
                origin="run",
                status="running",
                lease_until=NOW + timedelta(days=9),
                created_at=NOW + timedelta(days=day),
                input_tokens=100 + day,
                output_tokens=10,
                cost_usd=Decimal("0.25"),
            )
    groups = ("day", "agent", "kind")
    before = {group: report(principal=principal, group_by=group) for group in groups}
    assert before["day"].total.runs.count == 6
    with scoped_transaction(scope_of(tenant)):
        person = EndUser.objects.in_scope(scope_of(tenant)).get(user_id="goes")
    erase(person)
    assert {group: report(principal=principal, group_by=group) for group in groups} == before
    midnight = NOW.replace(hour=0)
    within = {"from_at": midnight, "to_at": midnight + timedelta(days=1)}
    assert report(principal=principal, **within).total.runs.count == 2  # type: ignore[arg-type]
    assert report(principal=principal, from_at=NOW).total.runs.input_tokens == 303 + 203
