"""Hostile requests are told 4xx with a code, never 500 (cases of 5.1, 5.2 and 5.6)."""

from __future__ import annotations

import gzip
from typing import Any

import pytest
from django.test import RequestFactory

from memory.rls import scoped_transaction
from tests.factories import make_key, scope_of
from tests.threads.api.client import Api, Place
from threads.api.middleware import request_id_of

THREADS = "/v1/agents/{}/threads"


def told(response: Any) -> tuple[int, str]:
    assert response["Content-Type"] == "application/problem+json"
    assert response["X-Request-Id"] == response.json()["request_id"]
    assert response["Cache-Control"] == "private, no-store"
    assert response["X-Content-Type-Options"] == "nosniff"
    return response.status_code, response.json()["code"]


@pytest.mark.parametrize(
    ("raw", "code"),
    [
        (b"{", "invalid_json"),
        (b'{"user_id": NaN}', "invalid_json"),
        (b'{"user_id": "u", "user_id": "v"}', "invalid_json"),
        (b"\xef\xbb\xbf{}", "invalid_json"),
        ('{"user_id": "u"}'.encode("utf-16"), "invalid_json"),
        (b'{"user_id": "\xff"}', "invalid_json"),
        (rb'{"user_id": "u\u0000"}', "invalid_text"),
        (rb'{"user_id": "\ud800"}', "invalid_text"),
        (rb'{"user_id": "u", "x\ud800": 1}', "invalid_text"),
        (b'{"user_id": "u", "title": ' + b"[" * 100_000, "invalid_json"),
        (b'{"user_id": "u", "tenant_id": "tn_1"}', "unknown_field"),
        (b'{"user_id": 7}', "invalid"),
        (b'{"user_id": true}', "invalid"),
        (b'{"user_id": ""}', "invalid"),
        (b'{"user_id": "   "}', "reserved_user_id"),
        (b'{"user_id": "usr_01jd0000000000000000000000"}', "reserved_user_id"),
        (rb'{"user_id": "a\u0007b"}', "reserved_user_id"),
        (b"{}", "invalid"),
        (b"[]", "invalid_json"),
    ],
)
def test_body_that_does_not_fit_answers_400_with_its_code(a: Place, raw: bytes, code: str) -> None:
    """Cases 112, 113, 115 and 116 over HTTP; bug report M3: deep JSON."""
    assert told(a.api.post(THREADS.format(a.agent.pk), raw)) == (400, code)


@pytest.mark.parametrize(
    "content_type",
    [
        "text/plain",
        "application/xml",
        "application/x-www-form-urlencoded",
        "multipart/form-data; boundary=x",
        "application/json; charset=utf-16",
        "application/json; charset=utf-7",
        "application/json; charset=utf-99",
        "garbage",
        "",
    ],
)
def test_case_127_other_content_types_answer_415(a: Place, content_type: str) -> None:
    response = a.api.post(
        THREADS.format(a.agent.pk), b'{"user_id": "u"}', content_type=content_type
    )
    assert told(response) == (415, "unsupported_media_type")


def test_case_124_compressed_and_multipart_bombs_answer_415(a: Place) -> None:
    path = THREADS.format(a.agent.pk)
    bomb = gzip.compress(b" " * 1_000_000)
    for encoding in ("gzip", "deflate", "br", "gzip, gzip"):
        response = a.api.post(path, bomb, headers={"Content-Encoding": encoding})
        assert told(response) == (415, "unsupported_media_type")
    parts = b"".join(
        b'--x\r\nContent-Disposition: form-data; name="a"\r\n\r\n\r\n' for _ in range(9999)
    )
    response = a.api.post(path, parts, content_type="multipart/form-data; boundary=x")
    assert told(response) == (415, "unsupported_media_type")


def test_utf8_charset_is_taken(a: Place) -> None:
    response = a.api.post(
        THREADS.format(a.agent.pk),
        '{"user_id": "张老师"}'.encode(),
        content_type='application/json; charset="UTF-8"',
    )
    assert (response.status_code, response.json()["user_id"]) == (201, "张老师")


def test_empty_body_is_an_empty_object_where_nothing_is_required(a: Place) -> None:
    path = f"/v1/threads/{a.thread.pk}/archive"
    assert a.api.post(path).status_code == 200
    assert a.api.post(path, b"  \n").status_code == 200
    assert a.api.post(path, {}).status_code == 200
    assert told(a.api.post(path, {"x": 1})) == (400, "unknown_field")


@pytest.mark.parametrize(
    "query",
    [
        {"tenant": "A"},
        {"tenant_id__in": "A"},
        {"thread__tenant__name__startswith": "A"},
        {"_connector": "OR 1=1"},
        {"foo": "1"},
        {"format": "json"},
        {"api_key": "x"},
        {"a') OR 1=1--": "1"},
        {"user_id') OR ('1'='1": "u"},
        {"user_id[$ne]": ""},
        {"user_id.$gt": ""},
    ],
)
def test_case_8_unknown_query_parameters_answer_400(a: Place, query: dict[str, str]) -> None:
    """Case 8 and bug report M3: SQL, ORM and operator injection through the names of filters."""
    for path in ("/v1/users", "/v1/audit", f"/v1/threads/{a.thread.pk}/runs", "/v1/usage"):
        assert told(a.api.get(path, query)) == (400, "unknown_parameter")
    assert told(a.api.send("PATCH", "/v1/policy", {}, query_params=query))[0] == 400


@pytest.mark.parametrize(
    "limit", ["-1", "0", "201", "1000000000", "abc", "1e3", "", " 5", "٣", "+5"]
)
def test_case_11_limits_out_of_range_answer_400(a: Place, limit: str) -> None:
    assert told(a.api.get("/v1/users", {"limit": limit})) == (400, "invalid_parameter")


def test_query_values_that_no_text_may_hold_answer_400(a: Place) -> None:
    path = THREADS.format(a.agent.pk)
    assert told(a.api.get(path, {"user_id": "a\x00b"})) == (400, "invalid_text")
    assert told(a.api.get(path, {"user_id": ["a", "b"]})) == (400, "invalid_parameter")
    assert told(a.api.get(path, {"status": "gone"})) == (400, "invalid_parameter")
    assert told(a.api.get("/v1/usage", {"from": "9999-12-31T23:59:60Z"})) == (
        400,
        "invalid_parameter",
    )
    assert told(a.api.get("/v1/audit", {"since": "infinity"})) == (400, "invalid_parameter")


def test_case_47_key_in_query_or_cookie_answers_401(a: Place) -> None:
    nobody = Api(None)
    assert told(nobody.get("/v1/users", {"api_key": a.key.secret}))[0] == 401
    nobody.client.cookies["Authorization"] = f"Bearer {a.key.secret}"
    nobody.client.cookies["api_key"] = a.key.secret
    assert told(nobody.get("/v1/users"))[0] == 401


def test_case_50_no_other_header_carries_a_key(a: Place) -> None:
    nobody = Api(None)
    for name in ("X-Api-Key", "Api-Key", "Proxy-Authorization", "X-Authorization"):
        for value in (a.key.secret, f"Bearer {a.key.secret}"):
            assert told(nobody.get("/v1/users", headers={name: value}))[0] == 401
    for kind in ("Basic", "Token", ""):
        headers = {"Authorization": f"{kind} {a.key.secret}".strip()}
        assert told(nobody.get("/v1/users", headers=headers))[0] == 401


def test_case_38_open_paths_show_no_tenant(a: Place, b: Place) -> None:
    for path in ("/healthz", "/readyz", "/v1/openapi.json", "/v1/docs"):
        for api in (Api(None), b.api):
            answer = api.get(path)
            assert a.canary not in answer.content.decode()
            assert a.tenant.slug not in answer.content.decode()
    assert Api(None).get("/metrics").status_code == 404


def test_case_34_conflicts_name_neither_table_nor_value(a: Place) -> None:
    body = {
        "name": a.agent.name,
        "provider_id": a.provider.pk,
        "model": "m",
        "context_window": 4096,
    }
    answers = [a.api.post("/v1/agents", body), a.api.post("/v1/teams", {"name": "t"})]
    answers.append(a.api.post("/v1/teams", {"name": "t"}))
    assert [answer.status_code for answer in answers] == [409, 201, 409]
    for answer in (answers[0], answers[2]):
        assert told(answer) == (409, "name_taken")
        for word in (a.canary, "SQL", "constraint", "threads_", "memory_", "DETAIL"):
            assert word not in answer.content.decode()


def test_request_id_of_the_client_is_taken_only_if_plain(a: Place) -> None:
    assert (
        a.api.get("/v1/users", headers={"X-Request-Id": "trace-1.a"})["X-Request-Id"] == "trace-1.a"
    )
    for hostile in ("a b", "x" * 65, "a;b", "<script>", "../etc", "-lead"):
        found = a.api.get("/v1/users", headers={"X-Request-Id": hostile})["X-Request-Id"]
        assert found.startswith("req-")
        assert len(found) == 36
    assert request_id_of(RequestFactory().get("/")) == ""


def test_answers_may_not_be_kept_by_anybody(a: Place) -> None:
    """Case 16's header."""
    answer = a.api.get("/v1/users")
    assert answer["Cache-Control"] == "private, no-store"
    assert answer["X-Content-Type-Options"] == "nosniff"


def test_errors_name_every_field_that_is_wrong(a: Place) -> None:
    body = {
        "input": "",
        "user_id": "u",
        "facts": [{"label": "x", "value": 12}, {"value": "y", "z": 1}],
        "no": 1,
    }
    answer = a.api.post(f"/v1/agents/{a.agent.pk}/run", body)
    assert told(answer) == (400, "unknown_field")
    found = {(error["field"], error["code"]) for error in answer.json()["errors"]}
    assert found == {
        ("input", "blank"),
        ("facts.0.value", "invalid"),
        ("facts.1.label", "required"),
        ("facts.1.z", "unknown_field"),
        ("no", "unknown_field"),
    }


def test_input_over_its_limit_answers_400(a: Place) -> None:
    body = {"input": "字" * 200_001, "user_id": "u"}
    assert told(a.api.post(f"/v1/agents/{a.agent.pk}/run", body))[0] == 400


def test_case_41_expired_revoked_and_suspended_keys_answer_alike(a: Place, b: Place) -> None:
    revoked = make_key(a.tenant)
    assert a.api.delete(f"/v1/keys/{revoked.id}").status_code == 204
    b.tenant.status = "suspended"
    with scoped_transaction(scope_of(b.tenant)):
        b.tenant.save()
    answers = [Api(key).get("/v1/users") for key in (revoked, b.key, "nonsense")]
    bodies = set()
    for answer in answers:
        assert told(answer) == (401, "unauthenticated")
        bodies.add(answer.content.replace(answer["X-Request-Id"].encode(), b"ID"))
        assert answer["WWW-Authenticate"] == "Bearer"
    assert len(bodies) == 1
