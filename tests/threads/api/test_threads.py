"""Threads, runs and messages as the API shows them."""

from __future__ import annotations

import re
from datetime import timedelta
from urllib.parse import parse_qs, urlsplit

import pytest

from governance.models import TenantUserGrant
from memory.rls import scoped_transaction
from tests.factories import (
    NOW,
    make_agent,
    make_end_user,
    make_key,
    make_run,
    make_thread,
    scope_of,
)
from tests.threads.api.client import Api, Place, code_of
from threads.models import RunTrace, Thread, ThreadSummary

TIME = re.compile(r"^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{6}Z$")
RUN_FIELDS = (
    "id thread_id agent_id user_id seq status input output error_code external_id created_at"
    " is_time_assumed finished_at bootstrap model usage context artifacts"
).split()
MESSAGE_FIELDS = (
    "id run_id role content name tool_call_id speaker created_at external_id pii".split()
)
THREAD_FIELDS = "id agent_id user_id title status run_count created_at updated_at".split()


def test_create_thread_makes_its_person_and_shows_the_contract(a: Place) -> None:
    made = a.api.post(f"/v1/agents/{a.agent.pk}/threads", {"user_id": "新同学", "title": "期末"})
    assert made.status_code == 201
    thread = made.json()
    assert list(thread) == THREAD_FIELDS
    assert (thread["user_id"], thread["title"], thread["status"]) == ("新同学", "期末", "active")
    assert TIME.match(thread["created_at"])
    assert a.api.get(f"/v1/threads/{thread['id']}").json() == thread
    assert "新同学" in [row["user_id"] for row in a.api.get("/v1/users").json()["results"]]


@pytest.mark.req("A13")
def test_archive_hides_from_the_default_list_and_unarchive_brings_back(a: Place) -> None:
    listed = f"/v1/agents/{a.agent.pk}/threads"
    assert a.api.post(f"/v1/threads/{a.thread.pk}/archive").json()["status"] == "archived"
    assert a.api.get(listed).json()["results"] == []
    for status, count in (("archived", 1), ("all", 1), ("active", 0)):
        assert len(a.api.get(listed, {"status": status}).json()["results"]) == count
    again = a.api.post(f"/v1/threads/{a.thread.pk}/archive")
    assert again.status_code == 200
    assert a.api.post(f"/v1/threads/{a.thread.pk}/unarchive").json()["status"] == "active"
    assert len(a.api.get(listed).json()["results"]) == 1


def test_threads_of_an_unknown_person_are_an_empty_list_and_create_nobody(a: Place) -> None:
    people = a.api.get("/v1/users").json()["results"]
    listed = a.api.get(f"/v1/agents/{a.agent.pk}/threads", {"user_id": "nobody"})
    assert (listed.status_code, listed.json()["results"]) == (200, [])
    assert a.api.get("/v1/users").json()["results"] == people


def test_rename_thread_changes_the_title_only(a: Place) -> None:
    renamed = a.api.patch(f"/v1/threads/{a.thread.pk}", {"title": "  New   title "})
    assert renamed.json()["title"] == "New title"
    assert a.api.patch(f"/v1/threads/{a.thread.pk}", {"title": ""}).status_code == 400
    assert a.api.patch(f"/v1/threads/{a.thread.pk}", {"status": "archived"}).status_code == 400


@pytest.mark.req("A13")
def test_run_message_and_summary_show_the_contract(a: Place) -> None:
    run = a.api.get(f"/v1/runs/{a.run.pk}").json()
    assert list(run) == RUN_FIELDS
    assert run["usage"] == {"input_tokens": 0, "output_tokens": 0, "cost_usd": "0.000000"}
    assert (run["seq"], run["status"], run["user_id"]) == (1, "succeeded", a.person.user_id)
    assert TIME.match(run["created_at"])
    assert TIME.match(run["finished_at"])
    messages = a.api.get(f"/v1/threads/{a.thread.pk}/messages").json()["results"]
    assert [message["role"] for message in messages] == ["user", "assistant"]
    assert all(list(message) == MESSAGE_FIELDS for message in messages)
    assert a.api.get(f"/v1/messages/{messages[1]['id']}").json() == messages[1]
    assert a.api.get(f"/v1/runs/{a.run.pk}/trace").json() == {"steps": []}
    assert list(a.api.get(f"/v1/runs/{a.run.pk}/context").json()) == [
        "messages",
        "context",
        "items",
    ]
    assert a.api.get(f"/v1/threads/{a.thread.pk}/summary").json() == {
        "rolling_summary": "",
        "summary_upto_seq": 0,
        "summary_upto_at": None,
        "covered_turns": 0,
        "nodes": [],
    }


def test_summary_shows_what_the_worker_stored(a: Place) -> None:
    scope = scope_of(a.tenant, a.person, a.thread)
    with scoped_transaction(scope):
        ThreadSummary.objects.create(
            thread=a.thread,
            tenant=a.tenant,
            end_user=a.person,
            rolling_summary="老师周五交卷",
            summary_upto_seq=1,
            summary_upto_at=NOW,
            covered_turns=1,
        )
    shown = a.api.get(f"/v1/threads/{a.thread.pk}/summary").json()
    assert (shown["rolling_summary"], shown["summary_upto_seq"]) == ("老师周五交卷", 1)
    assert shown["summary_upto_at"] == "2026-11-02T09:00:00.000000Z"


@pytest.mark.req("A24")
def test_record_turn_is_repeatable_by_external_id(a: Place) -> None:
    turn = {
        "input": "退款多久到账？",
        "output": "Three days.",
        "status": "succeeded",
        "created_at": "2026-10-01T08:00:00+08:00",
        "external_id": "erp-1",
    }
    first = a.api.post(f"/v1/threads/{a.thread.pk}/turns", turn)
    again = a.api.post(f"/v1/threads/{a.thread.pk}/turns", turn)
    assert (first.status_code, again.status_code) == (201, 200)
    assert first.json() == again.json()
    assert list(first.json()) == RUN_FIELDS
    assert (first.json()["seq"], first.json()["external_id"]) == (2, "erp-1")
    assert first.json()["created_at"] == "2026-10-01T00:00:00.000000Z"


def test_turn_with_its_own_messages_is_kept_in_order(a: Place) -> None:
    messages = [
        {"role": "user", "content": "库存？"},
        {"role": "tool", "content": "12", "name": "stock", "tool_call_id": "c1"},
        {"role": "assistant", "content": "Twelve."},
    ]
    turn = {"input": "库存？", "output": "Twelve.", "status": "succeeded", "messages": messages}
    run = a.api.post(f"/v1/threads/{a.thread.pk}/turns", turn).json()
    kept = a.api.get(f"/v1/threads/{a.thread.pk}/messages").json()["results"]
    mine = [message for message in kept if message["run_id"] == run["id"]]
    assert [message["content"] for message in mine] == ["库存？", "12", "Twelve."]
    assert (mine[1]["name"], mine[1]["tool_call_id"]) == ("stock", "c1")


@pytest.mark.parametrize(
    "at", ["1969-12-31T23:59:59Z", "0001-01-01T00:00:00Z", "9998-01-01T00:00:00Z"]
)
def test_turn_of_another_age_answers_400_with_the_bound(a: Place, at: str) -> None:
    body = {"input": "问", "output": "答", "status": "succeeded", "created_at": at}
    answer = a.api.post(f"/v1/threads/{a.thread.pk}/turns", body)
    assert code_of(answer) == (400, "invalid")
    assert answer.json()["errors"][0]["field"] == "created_at"
    assert "1970-01-01" in answer.json()["detail"]


def test_turn_without_a_time_of_its_own_says_that_it_was_assumed(a: Place) -> None:
    path = f"/v1/threads/{a.thread.pk}/turns"
    body = {"input": "问", "output": "答", "status": "succeeded"}
    timed = body | {"created_at": "2026-05-01T08:00:00Z"}
    answers = [a.api.post(path, sent).json() for sent in (body, timed)]
    assert [answer["is_time_assumed"] for answer in answers] == [True, False]
    listed = a.api.get(f"/v1/threads/{a.thread.pk}/runs").json()["results"]
    assert [run["is_time_assumed"] for run in listed][-2:] == [True, False]


def test_trace_times_are_written_as_every_other_time(a: Place) -> None:
    with scoped_transaction(scope_of(a.tenant)):
        RunTrace(
            tenant=a.tenant,
            run=a.run,
            end_user=a.person,
            messages=[],
            items=[
                {
                    "created_at": "2026-06-12T08:00:00+08:00",
                    "as_of": "2026-06-12T08:00:00.5Z",
                    "approved_at": None,
                    "text": "2026-06-12T08:00:00+08:00",
                },
                {"created_at": "2026-06-12T08:00:00"},
            ],
            steps=[
                {"seq": 1, "kind": "scope", "started_at": "2026-06-12T08:00:00+00:00"}
                | {"ms": 1.0, "data": {}}
            ],
        ).save(force_insert=True)
    shown = a.api.get(f"/v1/runs/{a.run.pk}/context").json()["items"]
    assert shown == [
        {
            "created_at": "2026-06-12T00:00:00.000000Z",
            "as_of": "2026-06-12T08:00:00.500000Z",
            "approved_at": None,
            "text": "2026-06-12T08:00:00+08:00",
        },
        {"created_at": "2026-06-12T08:00:00.000000Z"},
    ]
    steps = a.api.get(f"/v1/runs/{a.run.pk}/trace").json()["steps"]
    assert [step["started_at"] for step in steps] == ["2026-06-12T08:00:00.000000Z"]


def test_turn_on_an_archived_thread_answers_409(a: Place) -> None:
    a.api.post(f"/v1/threads/{a.thread.pk}/archive")
    turn = {"input": "q", "output": "a", "status": "failed"}
    answer = a.api.post(f"/v1/threads/{a.thread.pk}/turns", turn)
    assert (answer.status_code, answer.json()["code"]) == (409, "thread_archived")


def test_cancel_of_a_finished_run_answers_409(a: Place) -> None:
    answer = a.api.post(f"/v1/runs/{a.run.pk}/cancel")
    assert (answer.status_code, answer.json()["code"]) == (409, "run_finished")


@pytest.mark.req("B17")
def test_case_4_key_of_another_agent_sees_threads_of_its_own_only(a: Place) -> None:
    other = make_agent(a.tenant, a.provider)
    key = Api(make_key(a.tenant, agent_id=other.pk))
    for path in (
        f"/v1/agents/{a.agent.pk}/threads",
        f"/v1/threads/{a.thread.pk}",
        f"/v1/threads/{a.thread.pk}/messages",
        f"/v1/threads/{a.thread.pk}/summary",
        f"/v1/runs/{a.run.pk}",
        f"/v1/runs/{a.run.pk}/trace",
        f"/v1/messages/{a.message_id}",
    ):
        assert key.get(path).status_code == 404, path
    assert key.get(f"/v1/agents/{other.pk}/threads").status_code == 200
    answer = key.post(f"/v1/agents/{a.agent.pk}/threads", {"user_id": "u"})
    assert answer.status_code == 404
    turn = {"input": "q", "output": "a", "status": "succeeded"}
    assert key.post(f"/v1/threads/{a.thread.pk}/turns", turn).status_code == 404


@pytest.mark.req("B17")
def test_case_7_key_bound_to_a_person_reaches_nobody_else(a: Place) -> None:
    other = make_end_user(a.tenant, "other")
    theirs = make_thread(a.agent, other, title="private")
    their_run = make_run(theirs)
    key = Api(make_key(a.tenant, end_user_id=a.person.pk))
    path = f"/v1/agents/{a.agent.pk}/threads"
    for user_id in ("other", "brand new"):
        answer = key.post(path, {"user_id": user_id})
        assert (answer.status_code, answer.json()["code"]) == (403, "forbidden")
        assert answer.json()["detail"] == "This key is limited to another user."
    assert key.get(path, {"user_id": "other"}).json()["results"] == []
    assert [row["id"] for row in key.get(path).json()["results"]] == [a.thread.pk]
    assert [row["user_id"] for row in key.get("/v1/users").json()["results"]] == [a.person.user_id]
    for hidden in (f"/v1/threads/{theirs.pk}", f"/v1/runs/{their_run.pk}"):
        assert key.get(hidden).status_code == 404
    assert key.get(f"/v1/threads/{a.thread.pk}").status_code == 200
    assert key.post(path, {"user_id": a.person.user_id}).status_code == 201


def _walk(api: Api, path: str, query: dict[str, object]) -> tuple[list[str], list[str]]:
    """The ids seen going on to the end, and those seen going back to the start."""
    page = api.get(path, query).json()
    assert page["previous"] is None
    there = [row["id"] for row in page["results"]]
    while page["next"]:
        page = api.get(page["next"]).json()
        there += [row["id"] for row in page["results"]]
    back = [row["id"] for row in page["results"]]
    while page["previous"]:
        page = api.get(page["previous"]).json()
        back = [row["id"] for row in page["results"]] + back
    return there, back


def test_case_148_pages_skip_and_double_nothing_at_equal_times(a: Place) -> None:
    made = {make_thread(a.agent, a.person, created_at=NOW, updated_at=NOW).pk for _ in range(7)}
    for limit in (1, 2, 3, 7, 8, 200):
        there, back = _walk(
            a.api, f"/v1/agents/{a.agent.pk}/threads", {"limit": limit, "user_id": a.person.user_id}
        )
        assert there == back
        assert len(there) == len(set(there)) == 8
        assert made <= set(there)


def test_pages_are_stable_under_inserts(a: Place) -> None:
    path = f"/v1/agents/{a.agent.pk}/threads"
    old = [
        make_thread(a.agent, a.person, updated_at=NOW - timedelta(days=n)).pk for n in range(1, 5)
    ]
    first = a.api.get(path, {"limit": 3}).json()
    make_thread(a.agent, a.person, updated_at=NOW + timedelta(days=99))
    second = a.api.get(first["next"]).json()
    seen = [row["id"] for row in first["results"] + second["results"]]
    assert seen == [a.thread.pk, *old]
    back = a.api.get(second["previous"]).json()
    assert [row["id"] for row in back["results"]] == seen[:3]


def test_messages_page_across_runs_in_order(a: Place) -> None:
    for number in range(4):
        turn = {"input": f"q{number}", "output": f"a{number}", "status": "succeeded"}
        a.api.post(f"/v1/threads/{a.thread.pk}/turns", turn)
    there, back = _walk(a.api, f"/v1/threads/{a.thread.pk}/messages", {"limit": 3})
    assert there == back
    assert len(there) == 10
    runs, _ = _walk(a.api, f"/v1/threads/{a.thread.pk}/runs", {"limit": 2})
    assert len(runs) == 5


def test_case_10_cursor_of_another_key_list_or_filter_answers_400(a: Place, b: Place) -> None:
    for _ in range(3):
        make_thread(a.agent, a.person)
    path = f"/v1/agents/{a.agent.pk}/threads"
    following = a.api.get(path, {"limit": 1}).json()["next"]
    assert following.startswith("http://testserver/v1/")
    cursor = parse_qs(urlsplit(following).query)["cursor"][0]
    second_key = Api(make_key(a.tenant))
    spoilt = cursor[:10] + ("A" if cursor[10] != "A" else "B") + cursor[11:]
    for api, where, query in (
        (second_key, path, {"cursor": cursor}),
        (a.api, path, {"cursor": cursor, "status": "archived"}),
        (a.api, f"/v1/threads/{a.thread.pk}/runs", {"cursor": cursor}),
        (a.api, path, {"cursor": spoilt}),
        (a.api, path, {"cursor": ""}),
        (a.api, path, {"cursor": "x" * 10_000}),
        (b.api, "/v1/users", {"cursor": cursor}),
    ):
        answer = api.get(where, query)
        assert (answer.status_code, answer.json()["code"]) == (400, "invalid_cursor")
    assert a.api.get(path, {"cursor": cursor, "limit": 2}).status_code == 200


def test_case_119_wildcards_in_a_user_id_are_literal(a: Place) -> None:
    make_thread(a.agent, make_end_user(a.tenant, "100%_\\*"))
    path = f"/v1/agents/{a.agent.pk}/threads"
    for user_id, count in (("%", 0), ("_", 0), ("*", 0), ("\\", 0), ("100%_\\*", 1)):
        assert len(a.api.get(path, {"user_id": user_id}).json()["results"]) == count


def test_reading_takes_few_statements_whatever_the_count(
    a: Place, django_assert_max_num_queries: object
) -> None:
    for _ in range(20):
        make_thread(a.agent, make_end_user(a.tenant))
    with django_assert_max_num_queries(30):  # type: ignore[operator]
        assert len(a.api.get(f"/v1/agents/{a.agent.pk}/threads").json()["results"]) == 21


def test_thread_of_an_account_without_its_grant_is_not_found(a: Place) -> None:
    """A grant that was taken away counts from the next request on."""
    with scoped_transaction(scope_of(a.tenant)):
        TenantUserGrant.objects.filter(permission__codename="act_for").delete()
    assert a.api.get(f"/v1/threads/{a.thread.pk}").status_code == 404
    assert a.api.get(f"/v1/agents/{a.agent.pk}/threads").json()["results"] == []
    assert a.api.get("/v1/users").json()["results"] == []
    with scoped_transaction(scope_of(a.tenant)):
        assert Thread.objects.in_scope(scope_of(a.tenant)).exists()
