"""Limits of wrong keys by the real peer, and of requests a key."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
import time_machine
from axes.models import AccessAttempt
from django.db import OperationalError
from django.db.models import F
from django.test import Client
from django.utils import timezone

from governance.keys import revoke_key
from memory.rls import scoped_transaction
from tests.asgi_client import AsgiClient
from tests.factories import make_agent, make_key, make_tenant, scope_of
from tests.threads.api.client import Api, Place, make_place
from threads.api.throttling import LIMITS

NOON = datetime(2026, 11, 2, 12, 0, tzinfo=UTC)
WRONG = {"Authorization": "Bearer cr_aaaaaaaa_" + "b" * 46}
PATH = "/v1/users"


@pytest.fixture(autouse=True)
def _counted_from_nothing() -> Iterator[None]:
    LIMITS.forget()
    yield
    LIMITS.forget()


@pytest.fixture
def a(db: None) -> Place:
    return make_place("a")


def ask(peer: str = "203.0.113.7", **headers: str) -> Any:
    return Client().get(PATH, REMOTE_ADDR=peer, headers=WRONG | headers)


def pass_time(clock: Any, seconds: float) -> None:
    """Move this process's clock, and as far the database's, which no test can, by its rows."""
    clock.shift(seconds)
    moved = F("attempt_time") - timedelta(seconds=seconds)
    AccessAttempt.objects.update(attempt_time=moved)


def test_wrong_keys_of_an_address_are_refused_after_the_limit(db: None, settings: Any) -> None:
    settings.CREDENCE_WRONG_KEYS_PER_MINUTE = 5
    with time_machine.travel(NOON, tick=False) as clock:
        assert [ask().status_code for _ in range(7)] == [401] * 5 + [429] * 2
        refused = ask()
        assert refused.json()["code"] == "rate_limited"
        assert refused["Content-Type"] == "application/problem+json"
        assert refused["Retry-After"] == "60"
        pass_time(clock, 59)
        last = ask()
        assert (last.status_code, last["Retry-After"]) == (429, "1")
        pass_time(clock, 1)
        assert [ask().status_code for _ in range(6)] == [401] * 5 + [429]


def test_clock_put_back_does_not_refuse_for_longer_case_149(db: None, settings: Any) -> None:
    settings.CREDENCE_WRONG_KEYS_PER_MINUTE = 1
    with time_machine.travel(NOON, tick=False) as clock:
        assert [ask().status_code for _ in range(2)] == [401, 429]
        pass_time(clock, -3600)
        assert ask().status_code == 401


def test_processes_count_wrong_keys_together(db: None, settings: Any) -> None:
    """A process that knows nothing yet answers as those that do, from its first wrong key on."""
    settings.CREDENCE_WRONG_KEYS_PER_MINUTE = 4
    seen = []
    for _ in range(6):
        LIMITS.forget()
        seen.append(ask().status_code)
    assert seen == [401] * 4 + [429] * 2


def test_refused_address_costs_no_statement(
    db: None, settings: Any, django_assert_num_queries: Any
) -> None:
    settings.CREDENCE_WRONG_KEYS_PER_MINUTE = 1
    with django_assert_num_queries(1):
        assert ask().status_code == 401
    with django_assert_num_queries(0):
        assert ask().status_code == 429


def test_wrong_key_that_can_not_be_counted_gets_no_answer(
    db: None, settings: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    def broken(**_: Any) -> None:
        raise OperationalError

    settings.CREDENCE_WRONG_KEYS_PER_MINUTE = 1
    monkeypatch.setattr("threads.api.throttling.count_wrong_key", broken)
    answer = ask()
    assert (answer.status_code, answer.json()["code"]) == (503, "database_unavailable")


def test_another_address_is_not_touched(db: None, settings: Any) -> None:
    settings.CREDENCE_WRONG_KEYS_PER_MINUTE = 2
    assert [ask().status_code for _ in range(3)] == [401, 401, 429]
    assert ask("203.0.113.8").status_code == 401
    assert ask("2001:db8:1::1").status_code == 401


def test_addresses_of_one_ipv6_customer_are_one_peer(db: None, settings: Any) -> None:
    settings.CREDENCE_WRONG_KEYS_PER_MINUTE = 2
    seen = [ask(f"2001:db8:7:7::{number}").status_code for number in range(1, 4)]
    assert seen == [401, 401, 429]


def test_a_header_that_the_client_writes_changes_nothing(db: None, settings: Any) -> None:
    settings.CREDENCE_WRONG_KEYS_PER_MINUTE = 3
    names = ("X-Forwarded-For", "X-Real-IP", "Forwarded", "X-Client-IP", "CF-Connecting-IP")
    seen = [ask(**{names[at % 5]: f"198.51.100.{at}"}).status_code for at in range(10)]
    assert seen == [401] * 3 + [429] * 7


def test_behind_a_trusted_proxy_its_word_counts(db: None, settings: Any) -> None:
    settings.CREDENCE_WRONG_KEYS_PER_MINUTE = 1
    settings.CREDENCE_TRUSTED_PROXIES = 1
    for client in ("198.51.100.1", "198.51.100.2"):
        told = {"X-Forwarded-For": f"10.9.9.9, {client}"}
        assert [ask(**told).status_code for _ in range(2)] == [401, 429]


def test_a_key_seen_to_be_right_is_served_on_from_a_noisy_address(a: Place, settings: Any) -> None:
    settings.CREDENCE_WRONG_KEYS_PER_MINUTE = 2
    other = make_key(a.tenant)
    assert a.api.get(PATH).status_code == 200
    assert [ask("127.0.0.1").status_code for _ in range(3)] == [401, 401, 429]
    assert a.api.get(PATH).status_code == 200
    assert Api(other).get(PATH).status_code == 429  # not known here yet


def test_a_refused_address_learns_nothing_of_keys_used_elsewhere(a: Place, settings: Any) -> None:
    settings.CREDENCE_WRONG_KEYS_PER_MINUTE = 1
    assert a.api.get(PATH).status_code == 200
    assert [ask().status_code for _ in range(2)] == [401, 429]
    guess = Client().get(PATH, REMOTE_ADDR="203.0.113.7", headers=a.key.headers)
    assert guess.status_code == 429
    assert a.api.get(PATH).status_code == 200


def test_a_revoked_key_is_not_served_on_and_counts_as_wrong(a: Place, settings: Any) -> None:
    settings.CREDENCE_WRONG_KEYS_PER_MINUTE = 2
    assert a.api.get(PATH).status_code == 200
    scope = scope_of(a.tenant)
    with scoped_transaction(scope):
        revoke_key(scope=scope, key_id=a.key.id, now=timezone.now())
    assert [a.api.get(PATH).status_code for _ in range(3)] == [401, 401, 429]


def test_no_key_at_all_is_not_a_guess(db: None, settings: Any) -> None:
    settings.CREDENCE_WRONG_KEYS_PER_MINUTE = 1
    assert {Client().get(PATH).status_code for _ in range(5)} == {401}


def test_zero_is_no_limit(db: None, settings: Any) -> None:
    settings.CREDENCE_WRONG_KEYS_PER_MINUTE = 0
    assert {ask().status_code for _ in range(20)} == {401}


def test_case_49_a_thousand_wrong_keys_fifty_at_once(committed_db: None, settings: Any) -> None:
    """429 by real peer whatever the header says; and a right key of another address is served."""
    settings.CREDENCE_WRONG_KEYS_PER_MINUTE = 100
    key = make_key(make_tenant())

    async def scene() -> tuple[Counter[int], int]:
        client, gate = AsgiClient(), asyncio.Semaphore(50)

        async def one(number: int) -> int:
            headers = WRONG | {"X-Forwarded-For": f"198.51.{number % 250}.{number % 200}"}
            async with gate:
                return (await client.get(PATH, headers=headers)).status

        seen = Counter(await asyncio.gather(*(one(number) for number in range(1000))))
        return seen, seen[401]

    seen, let_through = asyncio.run(scene())
    assert set(seen) == {401, 429}
    assert let_through == 100  # the database counts one after the other
    assert seen[429] == 900
    right = Client().get(PATH, REMOTE_ADDR="203.0.113.9", headers=key.headers)
    assert right.status_code == 200


def test_a_key_that_asks_too_often_waits_for_the_next_minute(a: Place, settings: Any) -> None:
    settings.CREDENCE_KEY_REQUESTS_PER_MINUTE = 3
    other = make_key(a.tenant)
    with time_machine.travel(NOON, tick=False) as clock:
        left = [a.api.get(PATH)["RateLimit-Remaining"] for _ in range(3)]
        assert left == ["2", "1", "0"]
        refused = a.api.get(PATH)
        assert (refused.status_code, refused.json()["code"]) == (429, "rate_limited")
        assert 1 <= int(refused["Retry-After"]) <= 60
        assert (refused["RateLimit-Limit"], refused["RateLimit-Remaining"]) == ("3", "0")
        assert refused["RateLimit-Reset"] == refused["Retry-After"]
        assert Api(other).get(PATH).status_code == 200
        clock.shift(61)
        again = a.api.get(PATH)
        assert again.status_code == 200
        assert again["RateLimit-Limit"] == "3"
        assert 1 <= int(again["RateLimit-Reset"]) <= 60


def test_errors_tell_what_is_left_as_answers_do(a: Place, settings: Any) -> None:
    settings.CREDENCE_KEY_REQUESTS_PER_MINUTE = 10
    answer = a.api.get("/v1/runs/run_00000000000000000000000000")
    assert (answer.status_code, answer["RateLimit-Remaining"]) == (404, "9")


def test_without_a_limit_nothing_is_told(a: Place) -> None:
    assert "RateLimit-Limit" not in a.api.get(PATH)


def test_a_stream_counts_once_and_tells_too(committed_db: None, settings: Any) -> None:
    settings.CREDENCE_KEY_REQUESTS_PER_MINUTE = 2
    tenant = make_tenant()
    agent, key = make_agent(tenant), make_key(tenant)
    body = {"input": "hello", "user_id": "u"}

    async def scene() -> list[Any]:
        client = AsgiClient(key.headers)
        async with client.stream(f"/v1/agents/{agent.pk}/run/stream", body) as stream:
            await stream.over()
        last = await client.post(f"/v1/agents/{agent.pk}/run", body)
        return [stream.status, stream.headers["ratelimit-remaining"], last,
                (await client.get(PATH)).status]  # fmt: skip

    status, left, last, after = asyncio.run(scene())
    assert (status, left) == (200, "1")
    assert last.headers["ratelimit-remaining"] == "0"
    assert after == 429
