"""Export, links, erasures and holds over HTTP."""

from __future__ import annotations

import json
from datetime import timedelta
from typing import Any
from urllib.parse import quote, urlsplit

import pytest
from django.test import Client
from django.utils import timezone

from governance.models import AuditEntry, ExportLink
from memory.rls import scoped_transaction
from tests.exporting import lines_of
from tests.factories import make_end_user, make_key, scope_of
from tests.threads.api.client import Api, Place, code_of


def test_export_line_says_where_it_comes_from(a: Place) -> None:
    lines = lines_of(a.api.get(f"/v1/users/{quote(a.person.user_id, safe='')}/export"))
    assert lines[0]["user_id"] == a.person.user_id
    (run,) = [line for line in lines if line["type"] == "run"]
    assert run["id"] == a.run.pk
    messages = [line for line in lines if line["type"] == "message"]
    assert {line["run_id"] for line in messages} == {a.run.pk}
    assert all(line["created_at"].endswith("Z") for line in messages)


def test_export_of_an_unknown_person_has_two_lines_and_creates_nobody(a: Place) -> None:
    lines = lines_of(a.api.get("/v1/users/nobody-knows/export"))
    assert [line["type"] for line in lines] == ["export", "end"]
    assert lines[-1]["counts"] == {}
    assert "nobody-knows" not in a.api.get("/v1/users").content.decode()


def test_export_is_audited_without_a_name(a: Place) -> None:
    lines_of(a.api.get(f"/v1/users/{a.person.pk}/export"))
    with scoped_transaction(scope_of(a.tenant)):
        row = AuditEntry.objects.in_scope(scope_of(a.tenant)).get(action="person_exported")
    assert (row.target_id, row.actor, row.detail["via"]) == (a.person.pk, a.key.id, "api")
    assert a.canary not in json.dumps(row.detail)


@pytest.mark.req("B18")
def test_another_tenants_person_is_unknown_here(a: Place, b: Place) -> None:
    """Case 7 and the walk: b's key learns nothing of a's person, by name or id."""
    for user in (quote(a.person.user_id, safe=""), a.person.pk):
        lines = lines_of(b.api.get(f"/v1/users/{user}/export"))
        assert [line["type"] for line in lines] == ["export", "end"]
        unknown = "nobody" if user != a.person.pk else "usr_01jd0000000000000000000000"
        for method, path, body in (
            ("DELETE", "/v1/users/{}?mode=all", None),
            ("POST", "/v1/users/{}/hold", {}),
            ("DELETE", "/v1/users/{}/hold", None),
            ("POST", "/v1/users/{}/exports", {}),
        ):
            there = b.api.send(method, path.format(user), body)
            nowhere = b.api.send(method, path.format(unknown), body)
            assert code_of(there) == code_of(nowhere) == (404, "not_found")
    assert a.api.get(f"/v1/runs/{a.run.pk}").status_code == 200


def test_case_7_key_of_one_person_reaches_that_person_only(a: Place) -> None:
    other = make_end_user(a.tenant, "someone-else")
    bound = Api(make_key(a.tenant, end_user_id=a.person.pk))
    assert len(lines_of(bound.get(f"/v1/users/{a.person.pk}/export"))) > 2
    for method, path in (
        ("GET", "/v1/users/{}/export"),
        ("DELETE", "/v1/users/{}?mode=all"),
        ("POST", "/v1/users/{}/hold"),
        ("POST", "/v1/users/{}/exports"),
    ):
        for user in (other.pk, other.user_id):
            answer = bound.send(method, path.format(user))
            assert code_of(answer) == (403, "forbidden"), (method, path)


def test_erasure_needs_a_mode_and_known_words(a: Place) -> None:
    path = f"/v1/users/{a.person.pk}"
    assert code_of(a.api.delete(path)) == (400, "invalid_parameter")
    assert code_of(a.api.delete(f"{path}?mode=some")) == (400, "invalid_parameter")
    assert code_of(a.api.delete(f"{path}?mode=tagged&kinds=shoe")) == (400, "unknown_kind")
    assert code_of(a.api.delete(f"{path}?mode=all&kinds=email")) == (400, "erasure_narrowed")
    assert code_of(a.api.delete(f"{path}?mode=tagged&before=soon")) == (400, "invalid_parameter")
    assert code_of(a.api.delete("/v1/users/nobody?mode=all")) == (404, "not_found")


def test_erasure_is_queued_and_asked_again_is_the_same_one(a: Place) -> None:
    path = f"/v1/users/{quote(a.person.user_id, safe='')}?mode=all"
    first = a.api.delete(path)
    assert (first.status_code, first.json()["status"]) == (202, "queued")
    assert first.json()["id"].startswith("era_")
    assert a.api.delete(path).json() == first.json()
    told = a.api.get(f"/v1/erasures/{first.json()['id']}").json()
    assert (told["verified"], told["subject"], told["mode"]) == ("pending", a.person.pk, "all")
    assert a.canary not in json.dumps(told)
    listed = a.api.get("/v1/erasures").json()["results"]
    assert [row["id"] for row in listed] == [told["id"]]
    retried = a.api.post(f"/v1/erasures/{told['id']}/retry")
    assert code_of(retried) == (409, "erasure_not_failed")


def test_dry_run_counts_and_changes_nothing(a: Place) -> None:
    answer = a.api.delete(f"/v1/users/{a.person.pk}?mode=all&dry_run=true")
    assert answer.status_code == 200, answer.content
    told = answer.json()
    assert told["held"] is False
    assert told["total"] == sum(told["counts"].values()) > 0
    assert a.api.get("/v1/erasures").json()["results"] == []
    assert a.api.get(f"/v1/runs/{a.run.pk}").status_code == 200


def test_hold_refuses_the_erasure_until_it_is_released(a: Place) -> None:
    """Bug report I11: a legal hold blocks and says so."""
    path = f"/v1/users/{a.person.pk}"
    placed = a.api.post(f"{path}/hold", {"reason": "诉讼 case 4711"})
    assert placed.status_code == 200
    assert placed.json()["user"] == a.person.pk
    again = a.api.post(f"{path}/hold", {"reason": "another"})
    assert again.json()["id"] == placed.json()["id"]
    assert code_of(a.api.delete(f"{path}?mode=all")) == (409, "legal_hold")
    assert a.api.delete(f"{path}?mode=all&dry_run=true").json()["held"] is True
    assert a.api.delete(f"{path}/hold").status_code == 204
    assert a.api.delete(f"{path}/hold").status_code == 204
    assert a.api.delete(f"{path}?mode=all").status_code == 202
    assert code_of(a.api.post(f"{path}/hold")) == (409, "erasure_running")


def link(place: Place, **body: Any) -> str:
    made = place.api.post(f"/v1/users/{place.person.pk}/exports", body)
    assert made.status_code == 201, made.content
    path: str = urlsplit(made.json()["url"]).path
    return path


def test_link_gives_the_export_without_a_key_and_is_counted(a: Place) -> None:
    path = link(a)
    response = Client().get(path)
    assert "attachment" in response["Content-Disposition"]
    assert response["Cache-Control"] == "private, no-store"
    lines = lines_of(response)
    assert lines[0]["user_id"] == a.person.user_id
    assert "token_sha256" not in json.dumps(lines)
    with scoped_transaction(scope_of(a.tenant)):
        row = ExportLink.objects.in_scope(scope_of(a.tenant)).get()
        acts = AuditEntry.objects.in_scope(scope_of(a.tenant)).filter(actor=row.pk)
        assert [act.detail["via"] for act in acts] == ["link"]
    assert row.downloads == 1
    secret = path.rpartition(".")[2]
    assert secret not in str(row.__dict__)


def test_link_that_is_wrong_ended_or_revoked_looks_like_none(a: Place, b: Place) -> None:
    path = link(a)
    nothing = Client().get(
        "/exports/exp_01jd0000000000000000000000.tn_01jd0000000000000000000000.secret"
    )
    assert code_of(nothing) == (404, "not_found")

    def is_gone(wanted: str) -> bool:
        answer = Client().get(wanted)
        told, other = answer.json(), nothing.json()
        return {**told, "request_id": ""} == {**other, "request_id": ""}

    assert is_gone(path[:-1] + ("A" if path[-1] != "A" else "B"))
    assert is_gone(path.rpartition(".")[0])
    assert is_gone("/exports/1%00")
    export_id = path.split("/")[2].partition(".")[0]
    assert code_of(b.api.delete(f"/v1/exports/{export_id}")) == (404, "not_found")
    assert lines_of(Client().get(path))
    assert a.api.delete(f"/v1/exports/{export_id}").status_code == 204
    assert is_gone(path)
    second = link(a, valid_hours=1)
    with scoped_transaction(scope_of(a.tenant)):
        past = timezone.now() - timedelta(minutes=1)
        rows = ExportLink.objects.in_scope(scope_of(a.tenant)).filter(revoked_at=None)
        rows.update(created_at=past - timedelta(hours=1), expires_at=past)
    assert is_gone(second)


def test_link_ends_with_the_request_of_the_erasure_once_hidden(a: Place) -> None:
    path = link(a)
    with scoped_transaction(scope_of(a.tenant)):
        a.person.erasing_at = timezone.now()
        a.person.save()
    assert Client().get(path).status_code == 404


def test_link_lasts_an_hour_to_a_week(a: Place) -> None:
    path = f"/v1/users/{a.person.pk}/exports"
    for hours in (0, 169, "1", 1.5):
        assert a.api.post(path, {"valid_hours": hours}).status_code == 400
    assert a.api.post(path, {"valid_hours": 168}).status_code == 201


def test_replayed_link_does_not_show_its_address_again(a: Place) -> None:
    headers = {"Idempotency-Key": "once"}
    path = f"/v1/users/{a.person.pk}/exports"
    first = a.api.post(path, {}, headers=headers).json()
    again = a.api.post(path, {}, headers=headers)
    assert again["Idempotency-Replayed"] == "true"
    assert again.json() == {name: first[name] for name in ("id", "expires_at")}


def test_person_with_signs_in_the_name_is_found_by_id(a: Place) -> None:
    person = make_end_user(a.tenant, "班级/张老师 100%?")
    assert lines_of(a.api.get(f"/v1/users/{person.pk}/export"))[0]["user_id"] == person.user_id
