"""Idempotency-Key on the routes that make no run."""

from __future__ import annotations

import asyncio
from datetime import timedelta
from typing import Any

import pytest
from django.utils import timezone

from governance.models import ApiKey
from memory.db_threads import in_database_thread
from memory.rls import scoped_transaction
from tests.asgi_client import AsgiClient
from tests.factories import make_agent, make_key, make_tenant, scope_of
from tests.threads.api.client import Place
from threads import idempotency
from threads.api.once import request_hash
from threads.idempotency import Claimed, IdempotencyConflictError, InFlight, Stored
from threads.models import IdempotencyRecord

KEY = {"Idempotency-Key": "k1"}


def records(place: Place) -> list[IdempotencyRecord]:
    scope = scope_of(place.tenant)
    with scoped_transaction(scope):
        return list(IdempotencyRecord.objects.in_scope(scope))


def test_same_post_again_is_answered_alike_and_done_once(a: Place) -> None:
    path = f"/v1/agents/{a.agent.pk}/threads"
    body = {"user_id": a.person.user_id, "title": "once"}
    first = a.api.post(path, body, headers=KEY)
    again = a.api.post(path, body, headers=KEY)
    assert (first.status_code, first.content) == (again.status_code, again.content)
    assert again["Content-Type"] == first["Content-Type"]
    assert again["Idempotency-Replayed"] == "true"
    assert "Idempotency-Replayed" not in first
    assert len(a.api.get(path).json()["results"]) == 2
    assert [record.end_user_id for record in records(a)] == [a.person.pk]


def test_another_body_or_path_under_the_key_answers_409(a: Place) -> None:
    path = f"/v1/agents/{a.agent.pk}/threads"
    a.api.post(path, {"user_id": "u"}, headers=KEY)
    for where, body in ((path, {"user_id": "v"}), ("/v1/teams", {"user_id": "u"})):
        answer = a.api.post(where, body, headers=KEY)
        assert (answer.status_code, answer.json()["code"]) == (409, "idempotency_conflict")


def test_a_refusal_is_replayed_too(a: Place) -> None:
    first = a.api.post("/v1/teams", {"name": ""}, headers=KEY)
    again = a.api.post("/v1/teams", {"name": ""}, headers=KEY)
    assert (again.status_code, again.content) == (400, first.content)
    assert again["Content-Type"] == "application/problem+json"


def test_key_creation_replays_without_the_secret_which_is_stored_nowhere(a: Place) -> None:
    first = a.api.post("/v1/keys", {"scopes": ["read"]}, headers=KEY).json()
    again = a.api.post("/v1/keys", {"scopes": ["read"]}, headers=KEY).json()
    secret = first.pop("secret")
    assert again == first
    assert secret.rpartition("_")[2][:40] not in "".join(record.body for record in records(a))
    scope = scope_of(a.tenant)
    with scoped_transaction(scope):
        assert ApiKey.objects.in_scope(scope).count() == 2


@pytest.mark.parametrize("key", ["", " ", "x" * 256, "schlüssel", "a\tb"])
def test_key_that_is_not_visible_ascii_answers_400(a: Place, key: str) -> None:
    answer = a.api.post("/v1/teams", {"name": "t"}, headers={"Idempotency-Key": key})
    assert (answer.status_code, answer.json()["code"]) == (400, "invalid_idempotency_key")


def test_case_17_principals_and_tenants_have_keys_of_their_own(a: Place, b: Place) -> None:
    second = make_key(a.tenant)
    made = [
        place.post("/v1/teams", {"name": name}, headers=KEY).json()["id"]
        for place, name in ((a.api, "t1"), (b.api, "t1"))
    ]
    other = type(a.api)(second).post("/v1/teams", {"name": "t2"}, headers=KEY)
    assert other.status_code == 201
    assert len({*made, other.json()["id"]}) == 3


def test_claim_knows_in_flight_crashed_kept_and_forgotten(a: Place) -> None:
    scope = scope_of(a.tenant)
    now = timezone.now()

    def claim(at: float = 0, sha: str = "x") -> Any:
        return idempotency.claim(
            scope=scope,
            key="k",
            request_sha256=sha,
            now=now + timedelta(seconds=at),
            lease_seconds=60,
        )

    first = claim()
    assert isinstance(first, Claimed)
    assert isinstance(claim(59), InFlight)
    with pytest.raises(IdempotencyConflictError):
        claim(1, sha="y")
    second = claim(61)
    assert isinstance(second, Claimed)
    idempotency.keep(scope=scope, record_id=first.record_id, answer=Stored(status_code=200))
    assert isinstance(claim(62), InFlight), "a crashed request that comes back keeps nothing"
    idempotency.keep(scope=scope, record_id=second.record_id, answer=Stored(status_code=201))
    assert claim(3600) == Stored(status_code=201)
    assert isinstance(claim(24 * 3600 + 62, sha="y"), Claimed)


def test_request_hash_tells_method_path_query_and_body_apart(rf: Any) -> None:
    requests = [
        rf.post("/a", b"1", "application/json"),
        rf.post("/a", b"2", "application/json"),
        rf.post("/b", b"1", "application/json"),
        rf.post("/a?force=true", b"1", "application/json"),
        rf.put("/a", b"1", "application/json"),
    ]
    assert len({request_hash(request) for request in requests}) == len(requests)


def test_case_130_parallel_posts_with_one_key_make_one_thread(committed_db: None) -> None:
    tenant = make_tenant()
    agent, key = make_agent(tenant), make_key(tenant)
    path = f"/v1/agents/{agent.pk}/threads"

    async def scene() -> tuple[list[Any], Any]:
        client = AsgiClient(key.headers)
        posts = [client.post(path, {"user_id": "u"}, headers=KEY) for _ in range(12)]
        answers = await asyncio.gather(*posts)
        return answers, await client.get(path)

    answers, listed = asyncio.run(scene())
    assert {answer.status for answer in answers} == {201}
    assert len({answer.body for answer in answers}) == 1
    assert len(listed.json()["results"]) == 1


def test_waiting_for_a_first_request_that_crashed_ends_with_its_lease(committed_db: None) -> None:
    tenant = make_tenant()
    agent, key = make_agent(tenant), make_key(tenant)
    path = f"/v1/agents/{agent.pk}/threads"

    async def scene() -> Any:
        client = AsgiClient(key.headers)
        await client.post(path, {"user_id": "u"}, headers=KEY)
        soon = timezone.now() + timedelta(seconds=0.4)
        scope = scope_of(tenant)

        def crash() -> None:
            with scoped_transaction(scope):
                rows = IdempotencyRecord.objects.in_scope(scope)
                rows.update(status_code=None, body="", lease_until=soon)

        await in_database_thread(crash)
        answer = await client.post(path, {"user_id": "u"}, headers=KEY)
        return answer, await client.get(path)

    answer, listed = asyncio.run(scene())
    assert (answer.status, answer.headers["content-type"]) == (201, "application/json")
    assert answer.json()["id"] in [row["id"] for row in listed.json()["results"]]
