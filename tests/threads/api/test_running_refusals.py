"""Runs that are refused, and what the refusal shows."""

from __future__ import annotations

from typing import Any

import pytest

from tests.asgi_client import Answer, AsgiClient
from tests.factories import (
    make_agent,
    make_end_user,
    make_key,
    make_provider,
    make_tenant,
    make_thread,
)
from tests.threads.api.stage import ASK, Stage, code_of


@pytest.mark.parametrize(
    ("change", "expected"),
    [
        ({"thread_id": "default"}, (400, "thread_mismatch")),
        ({"thread_id": "th_01jd0000000000000000000000"}, (400, "thread_mismatch")),
        ({"context": {"run_id": "run_01jd0000000000000000000000"}}, (400, "run_mismatch")),
        ({"context": {"run_id": "x"}}, (400, "run_mismatch")),
        ({"context": {"other": 1}}, (400, "unknown_field")),
        ({"user_id": "usr_01jd0000000000000000000000"}, (400, "reserved_user_id")),
        ({"input": ""}, (400, "invalid")),
        ({"input": "问" * 20_000}, (422, "context_over_budget")),
    ],
)
def test_refusals_are_problems_on_both_paths(
    stage: Stage, change: dict[str, Any], expected: tuple[int, str]
) -> None:
    """Case 187, the last one: a request over the window is refused before any call."""

    async def scene(client: AsgiClient) -> list[Answer]:
        return [
            await client.post(path, ASK | change) for path in (stage.run_path, stage.stream_path)
        ]

    for answer in stage.play(scene):
        assert code_of(answer) == expected
        if expected[0] == 422:
            assert answer.json()["context"]["decision"] == "reject"
            assert answer.json()["run_id"] in [run.pk for run in stage.runs()]
    assert stage.server.requests == []


def test_case_5_a_thread_id_made_by_the_client_is_refused_in_both_tenants(stage: Stage) -> None:
    other = make_tenant()
    agent, key = make_agent(other), make_key(other)

    async def scene(client: AsgiClient) -> list[Answer]:
        mine = await client.post(stage.run_path, ASK | {"thread_id": "default"})
        theirs = await client.post(
            f"/v1/agents/{agent.pk}/run", ASK | {"thread_id": "default"}, headers=key.headers
        )
        return [mine, theirs]

    bodies = set()
    for answer in stage.play(scene):
        assert code_of(answer) == (400, "thread_mismatch")
        bodies.add(answer.body.replace(answer.headers["x-request-id"].encode(), b"ID"))
    assert len(bodies) == 1


def test_foreign_threads_look_like_unknown_ones(stage: Stage) -> None:
    other = make_tenant()
    foreign = make_thread(make_agent(other), make_end_user(other))
    other_user = make_thread(stage.agent, make_end_user(stage.tenant, "someone"))
    other_agent = make_thread(make_agent(stage.tenant), stage.person)
    wanted = ("th_01jd0000000000000000000000", foreign.pk, other_user.pk, other_agent.pk)

    async def scene(client: AsgiClient) -> list[Answer]:
        return [await client.post(stage.run_path, ASK | {"thread_id": one}) for one in wanted]

    bodies = set()
    for answer in stage.play(scene):
        assert code_of(answer) == (400, "thread_mismatch")
        bodies.add(answer.body.replace(answer.headers["x-request-id"].encode(), b"ID"))
    assert len(bodies) == 1


def test_case_7_run_for_another_person_than_the_keys_answers_403(stage: Stage) -> None:
    key = make_key(stage.tenant, ("run",), end_user_id=stage.person.pk)

    async def scene(client: AsgiClient) -> list[Answer]:
        return [
            await client.post(path, ASK | {"user_id": user_id}, headers=key.headers)
            for path in (stage.run_path, stage.stream_path)
            for user_id in ("someone-else", "teacher-7")
        ]

    found = stage.play(scene)
    assert [answer.status for answer in found] == [403, 200, 403, 200]
    assert code_of(found[0]) == (403, "forbidden")


def test_continuing_a_run_needs_the_stream_and_a_run_of_this_person(stage: Stage) -> None:
    async def scene(client: AsgiClient) -> list[Answer]:
        first = (await client.post(stage.run_path, ASK)).json()
        again = ASK | {"context": {"run_id": first["id"]}}
        return [
            await client.post(stage.run_path, again),
            await client.post(stage.stream_path, again | {"user_id": "someone-else"}),
            await client.post(stage.stream_path, again),
        ]

    on_json, of_other, on_stream = stage.play(scene)
    assert code_of(on_json) == (400, "continue_needs_stream")
    assert code_of(of_other) == (400, "run_mismatch")
    assert on_stream.status == 200


def test_case_110_chunked_body_without_a_length_is_read(stage: Stage) -> None:
    chunks = [b'{"input": "he', b'llo", "user_id"', b': "teacher-7"}']

    async def scene(client: AsgiClient) -> Answer:
        return await client.request("POST", stage.run_path, chunks=chunks)

    answer = stage.play(scene)
    assert (answer.status, answer.json()["input"]) == (200, "hello")


def test_case_109_body_over_the_limit_answers_413(stage: Stage) -> None:
    big = b'{"input": "' + b"x" * (3 * 1024 * 1024) + b'"}'

    async def scene(client: AsgiClient) -> list[Answer]:
        stated = await client.request("POST", stage.run_path, body=big)
        chunked = await client.request("POST", stage.run_path, chunks=[big[:1000], big[1000:]])
        return [stated, chunked]

    for answer in stage.play(scene):
        assert (answer.status, answer.json()["code"]) == (413, "body_too_large")


@pytest.mark.req("A13")
def test_archived_thread_takes_no_runs(stage: Stage) -> None:
    async def scene(client: AsgiClient) -> Answer:
        thread_id = (await client.post(stage.run_path, ASK)).json()["thread_id"]
        await client.post(f"/v1/threads/{thread_id}/archive")
        return await client.post(stage.run_path, ASK | {"thread_id": thread_id})

    assert code_of(stage.play(scene)) == (409, "thread_archived")


@pytest.mark.parametrize("end", ["\r\nX: 1", " ", "\x07", "１"])
def test_provider_stored_with_an_address_no_client_reads_fails_the_run_and_no_more(
    stage: Stage, end: str
) -> None:
    broken = make_provider(
        stage.tenant,
        kind="openai_compatible",
        base_url=f"{stage.server.base_url.removesuffix('/v1')}{end}",
        locality="local",
    )
    agent = make_agent(stage.tenant, broken, model="fake-1")

    async def scene(client: AsgiClient) -> Answer:
        return await client.post(f"/v1/agents/{agent.pk}/run", ASK)

    answer = stage.play(scene)
    assert code_of(answer) == (502, "provider_misconfigured")
    assert answer.json()["run_id"] == stage.runs()[0].pk
    assert stage.server.requests == []
