"""Core memory over HTTP: what holds beside what waits, deciding, eviction, reach."""

from __future__ import annotations

from typing import Any

import pytest

from governance.policy import change_policy
from tests.factories import NOW, make_end_user, make_key, scope_of
from tests.threads.api.client import Api, Place, code_of


def core(place: Place) -> str:
    return f"/v1/users/{place.person.pk}/core"


def add(place: Place, fact: str, subject: str = "") -> Any:
    return place.api.post(core(place), {"fact": fact, "subject": subject})


def confirm(place: Place, candidate_id: str, body: Any = None, **options: Any) -> Any:
    path = f"/v1/core-candidates/{candidate_id}/confirm"
    return place.api.post(path, body or {}, **options)


def hold(place: Place, fact: str, subject: str = "") -> Any:
    answer = confirm(place, add(place, fact, subject).json()["id"])
    assert answer.status_code == 200
    return answer.json()["fact"]


@pytest.mark.req("A18")
@pytest.mark.parametrize("fact", ["I prefer short answers", "我喜欢简短的回答"])
def test_candidate_waits_and_holds_when_confirmed(a: Place, fact: str) -> None:
    made = add(a, fact, "answers")
    assert made.status_code == 201
    candidate = made.json()
    assert candidate["source"] == {"kind": "api", "id": None, "external_id": None}
    assert (candidate["status"], candidate["tier"], candidate["decided_by"]) == (
        "pending",
        "stated",
        None,
    )
    both = a.api.get(core(a)).json()
    assert (both["facts"], [one["id"] for one in both["candidates"]]) == ([], [candidate["id"]])
    assert both["candidates"][0]["conflicts_with"] == []
    answer = confirm(a, candidate["id"]).json()
    assert answer["candidate"]["status"] == "confirmed"
    held = answer["fact"]
    assert (held["fact"], held["subject"], held["valid_to"]) == (fact, "answers", None)
    assert held["decided_by"] == {"kind": "staff", "id": a.key.id}
    both = a.api.get(core(a)).json()
    assert (both["facts"], both["candidates"]) == ([held], [])
    assert confirm(a, candidate["id"]).json() == answer


def test_same_fact_again_answers_what_there_is(a: Place) -> None:
    first = add(a, "I like tea")
    again = add(a, "i like TEA.")
    assert (again.status_code, again.json()["id"]) == (200, first.json()["id"])
    confirm(a, first.json()["id"])
    known = add(a, "I like tea")
    assert (known.status_code, known.json()["status"]) == (200, "confirmed")


def test_person_decides_by_either_id_and_nobody_else_does(a: Place) -> None:
    other = make_end_user(a.tenant, "somebody-else")
    path = f"/v1/core-candidates/{add(a, 'I like tea').json()['id']}/confirm"
    for wrong in (other.user_id, other.pk, "nobody"):
        answer = a.api.post(path, {"decided_by": {"kind": "end_user", "id": wrong}})
        assert code_of(answer) == (400, "wrong_person")
    for number, right in enumerate((a.person.pk, a.person.user_id)):
        candidate_id = add(a, f"fact {number}").json()["id"]
        answer = confirm(a, candidate_id, {"decided_by": {"kind": "end_user", "id": right}})
        assert answer.json()["fact"]["decided_by"] == {"kind": "end_user", "id": right}


def test_rejected_candidate_is_decided_once(a: Place) -> None:
    candidate_id = add(a, "I like tea").json()["id"]
    path = f"/v1/core-candidates/{candidate_id}/reject"
    first = a.api.post(path, {"reason": "不对"}).json()
    assert (first["status"], first["reason"]) == ("rejected", "不对")
    assert a.api.post(path, {"reason": "other"}).json() == first
    assert code_of(confirm(a, candidate_id)) == (409, "already_decided")
    again = add(a, "I like tea")
    assert (again.status_code, again.json()["status"]) == (200, "rejected")
    assert a.api.get(core(a)).json()["candidates"] == []


def test_conflict_is_named_and_superseded_and_the_past_can_be_read(a: Place) -> None:
    """F2: the current one by default, the old one as of then."""
    blue = hold(a, "My colour is blue", "colour")
    red = add(a, "My colour is red", "Colour").json()
    (waiting,) = a.api.get(core(a)).json()["candidates"]
    assert waiting["conflicts_with"] == [blue["id"]]
    current = confirm(a, red["id"]).json()["fact"]
    assert [one["id"] for one in a.api.get(core(a)).json()["facts"]] == [current["id"]]
    then = a.api.get(core(a), {"as_of": blue["valid_from"]}).json()["facts"]
    assert [(one["id"], one["end_reason"], one["superseded_by"]) for one in then] == [
        (blue["id"], "superseded", current["id"])
    ]


@pytest.mark.req("A20")
@pytest.mark.parametrize("how", ["query", "body"])
def test_full_core_offers_the_least_recently_used_and_evicts_if_asked(a: Place, how: str) -> None:
    change_policy(scope=scope_of(a.tenant), changes={"core_facts": 2}, now=NOW)
    first = hold(a, "fact one")
    hold(a, "fact two")
    candidate_id = add(a, "fact three").json()["id"]
    full = confirm(a, candidate_id)
    assert code_of(full) == (409, "core_full")
    assert full.json()["least_recently_used"] == {
        "id": first["id"],
        "fact": "fact one",
        "last_used_at": None,
    }
    options: Any = {"query_params": {"evict": "true"}} if how == "query" else {}
    evicting = confirm(a, candidate_id, {"evict": True} if how == "body" else {}, **options)
    assert evicting.status_code == 200
    held = a.api.get(core(a)).json()["facts"]
    assert sorted(one["fact"] for one in held) == ["fact three", "fact two"]
    path = f"/v1/core-facts/{first['id']}"
    assert code_of(a.api.patch(path, {"restore": True})) == (409, "core_full")
    a.api.delete(f"/v1/core-facts/{held[0]['id']}")
    restored = a.api.patch(path, {"restore": True}).json()
    assert (restored["valid_to"], restored["end_reason"]) == (None, "")


def test_fact_is_changed_and_deleted(a: Place) -> None:
    fact = hold(a, "I like tea")
    path = f"/v1/core-facts/{fact['id']}"
    assert a.api.patch(path, {"fact": "I like oolong"}).json()["fact"] == "I like oolong"
    assert code_of(a.api.patch(path, {"fact": "身份证号11010519491231002X"})) == (
        422,
        "not_admitted",
    )
    assert a.api.delete(path).status_code == 204
    assert code_of(a.api.delete(path)) == (404, "not_found")
    assert a.api.get(core(a)).json() == {"facts": [], "candidates": []}


@pytest.mark.parametrize(
    ("body", "expected"),
    [
        ({"fact": "x" * 121}, (400, "too_long")),
        ({"fact": "ok", "subject": "y" * 81}, (400, "too_long")),
        ({"fact": "李明数学考了 58 分"}, (422, "not_admitted")),
        ({"fact": "ok", "status": "confirmed"}, (400, "unknown_field")),
        ({"fact": "ok", "approved_by": "me", "confidence": 1}, (400, "unknown_field")),
        ({"fact": 7}, (400, "invalid")),
        ({"fact": " "}, (400, "invalid")),
    ],
)
def test_body_says_nothing_but_a_fact_58(a: Place, body: Any, expected: tuple[int, str]) -> None:
    assert code_of(a.api.post(core(a), body)) == expected
    assert a.api.get(core(a)).json()["candidates"] == []


@pytest.mark.parametrize("body", [{"status": "confirmed"}, {"confirmed": True}, {"tier": "fact"}])
def test_nothing_is_confirmed_by_the_way_58(a: Place, body: Any) -> None:
    candidate_id = add(a, "I like tea").json()["id"]
    assert code_of(confirm(a, candidate_id, body)) == (400, "unknown_field")


@pytest.mark.req("A19")
def test_candidates_are_ordered_by_confidence(a: Place) -> None:
    for number in range(3):
        add(a, f"fact {number}")
    found = a.api.get(core(a)).json()["candidates"]
    assert [one["fact"] for one in found] == ["fact 2", "fact 1", "fact 0"]


def test_unknown_person_has_nothing_and_is_not_made_by_reading(a: Place) -> None:
    assert a.api.get("/v1/users/nobody/core").json() == {"facts": [], "candidates": []}
    assert "nobody" not in str(a.api.get("/v1/users").json())
    made = a.api.post("/v1/users/new-one/core", {"fact": "I like tea"})
    assert made.status_code == 201
    assert "new-one" in str(a.api.get("/v1/users").json())


def test_key_of_another_person_sees_and_decides_nothing(a: Place) -> None:
    other = make_end_user(a.tenant, "somebody-else")
    key = Api(make_key(a.tenant, end_user_id=other.pk))
    candidate_id = add(a, "I like tea").json()["id"]
    fact = hold(a, "I like milk")
    assert code_of(key.get(core(a)))[0] == 403
    assert code_of(key.post(core(a), {"fact": "mine"}))[0] == 403
    assert code_of(key.post(f"/v1/core-candidates/{candidate_id}/confirm", {}))[0] == 404
    assert code_of(key.patch(f"/v1/core-facts/{fact['id']}", {"fact": "mine"}))[0] == 404
    assert code_of(key.delete(f"/v1/core-facts/{fact['id']}"))[0] == 404


def test_two_approvals_where_policy_wants_them(a: Place) -> None:
    change_policy(scope=scope_of(a.tenant), changes={"four_eyes": True}, now=NOW)
    candidate_id = add(a, "I like tea").json()["id"]
    first = confirm(a, candidate_id).json()
    assert (first["fact"], first["candidate"]["first_approved_by"]) == (None, a.key.id)
    assert code_of(confirm(a, candidate_id)) == (409, "second_approver_needed")
    second = Api(make_key(a.tenant)).post(f"/v1/core-candidates/{candidate_id}/confirm", {})
    assert second.json()["fact"]["fact"] == "I like tea"
