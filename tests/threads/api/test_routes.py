"""Every route, every kind of key: what is not listed here fails the build."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

import pytest
from django.http import HttpResponse
from django.urls import URLPattern, URLResolver, get_resolver

from memory.ids import new_id
from tests.factories import make_artifact, make_end_user, make_key
from tests.threads.api.client import Api, Place
from tests.vocabulary import make_vocabulary
from threads.api.views.base import ApiView

OPEN = ("/", "/v1/openapi.json", "/v1/docs", "/healthz", "/readyz", "/exports/{token}")
ROUTES = (
    ("POST", "/v1/agents/{agent_id}/run", "run"),
    ("POST", "/v1/agents/{agent_id}/run/stream", "run"),
    ("POST", "/v1/agents/{agent_id}/context", "read"),
    ("GET", "/v1/agents/{agent_id}/threads", "read"),
    ("POST", "/v1/agents/{agent_id}/threads", "write"),
    ("GET", "/v1/runs/{run_id}", "read"),
    ("GET", "/v1/runs/{run_id}/trace", "read"),
    ("GET", "/v1/runs/{run_id}/context", "read"),
    ("POST", "/v1/runs/{run_id}/cancel", "run"),
    ("GET", "/v1/runs/{run_id}/artifacts/{artifact_id}", "read"),
    ("GET", "/v1/threads/{thread_id}", "read"),
    ("PATCH", "/v1/threads/{thread_id}", "write"),
    ("DELETE", "/v1/threads/{thread_id}", "erase"),
    ("POST", "/v1/threads/{thread_id}/archive", "write"),
    ("POST", "/v1/threads/{thread_id}/unarchive", "write"),
    ("GET", "/v1/threads/{thread_id}/runs", "read"),
    ("GET", "/v1/threads/{thread_id}/messages", "read"),
    ("GET", "/v1/threads/{thread_id}/summary", "read"),
    ("POST", "/v1/threads/{thread_id}/turns", "write"),
    ("GET", "/v1/messages/{message_id}", "read"),
    ("GET", "/v1/agents", "admin"),
    ("POST", "/v1/agents", "admin"),
    ("GET", "/v1/agents/{agent_id}", "admin"),
    ("PATCH", "/v1/agents/{agent_id}", "admin"),
    ("DELETE", "/v1/agents/{agent_id}", "admin"),
    ("GET", "/v1/providers", "admin"),
    ("POST", "/v1/providers", "admin"),
    ("PATCH", "/v1/providers/{provider_id}", "admin"),
    ("GET", "/v1/policy", "admin"),
    ("PATCH", "/v1/policy", "admin"),
    ("GET", "/v1/keys", "admin"),
    ("POST", "/v1/keys", "admin"),
    ("DELETE", "/v1/keys/{key_id}", "admin"),
    ("GET", "/v1/teams", "admin"),
    ("POST", "/v1/teams", "admin"),
    ("PATCH", "/v1/teams/{team_id}", "admin"),
    ("DELETE", "/v1/teams/{team_id}", "admin"),
    ("GET", "/v1/jobs", "admin"),
    ("POST", "/v1/jobs/{job_id}/retry", "admin"),
    ("GET", "/v1/audit", "admin"),
    ("GET", "/v1/users", "read"),
    ("DELETE", "/v1/users/{user}", "erase"),
    ("GET", "/v1/users/{user}/export", "erase"),
    ("POST", "/v1/users/{user}/exports", "erase"),
    ("POST", "/v1/users/{user}/chat-links", "admin"),
    ("POST", "/v1/users/{user}/hold", "erase"),
    ("DELETE", "/v1/users/{user}/hold", "erase"),
    ("DELETE", "/v1/exports/{export_id}", "erase"),
    ("GET", "/v1/erasures", "erase"),
    ("GET", "/v1/erasures/{erasure_id}", "erase"),
    ("POST", "/v1/erasures/{erasure_id}/retry", "erase"),
    ("GET", "/v1/items/{item_id}/uses", "read"),
    ("POST", "/v1/items/{item_id}/rederive", "govern"),
    ("GET", "/v1/usage", "read"),
    ("POST", "/v1/memories/search", "read"),
    ("POST", "/v1/memories/grep", "read"),
    ("GET", "/v1/memories", "read"),
    ("GET", "/v1/memories/{category}/{key}", "read"),
    ("PUT", "/v1/memories/{category}/{key}", "write"),
    ("DELETE", "/v1/memories/{category}/{key}", "write"),
    ("GET", "/v1/memories/{category}/{key}/history", "read"),
    ("GET", "/v1/users/{user}/timeline", "read"),
    ("GET", "/v1/users/{user}/core", "read"),
    ("POST", "/v1/users/{user}/core", "write"),
    ("POST", "/v1/core-candidates/{core_candidate_id}/confirm", "govern"),
    ("POST", "/v1/core-candidates/{core_candidate_id}/reject", "govern"),
    ("PATCH", "/v1/core-facts/{fact_id}", "govern"),
    ("DELETE", "/v1/core-facts/{fact_id}", "govern"),
    ("GET", "/v1/behaviour-samples", "read"),
    ("POST", "/v1/behaviour-samples", "write"),
    ("POST", "/v1/behaviour-samples/{sample_id}/approve", "govern"),
    ("POST", "/v1/behaviour-samples/{sample_id}/reject", "govern"),
    ("POST", "/v1/behaviour-samples/{sample_id}/retire", "govern"),
    ("GET", "/v1/knowledge/documents", "read"),
    ("POST", "/v1/knowledge/documents", "write"),
    ("GET", "/v1/knowledge/documents/{document_id}", "read"),
    ("DELETE", "/v1/knowledge/documents/{document_id}", "write"),
    ("POST", "/v1/knowledge/documents/{document_id}/admit", "govern"),
    ("POST", "/v1/knowledge/documents/{document_id}/refuse", "govern"),
    ("POST", "/v1/threads/{thread_id}/corrections", "write"),
    ("GET", "/v1/entities", "read"),
    ("GET", "/v1/entities/{entity_id}", "read"),
    ("PATCH", "/v1/entities/{entity_id}", "govern"),
    ("GET", "/v1/entities/{entity_id}/history", "read"),
    ("POST", "/v1/entities/{entity_id}/merge", "govern"),
    ("POST", "/v1/entities/{entity_id}/unmerge", "govern"),
    ("GET", "/v1/entity-candidates", "read"),
    ("POST", "/v1/entity-candidates/{entity_candidate_id}/approve", "govern"),
    ("POST", "/v1/entity-candidates/{entity_candidate_id}/reject", "govern"),
)
BODIES: dict[tuple[str, str], Any] = {
    ("POST", "/v1/agents/{agent_id}/run"): {"input": "hi", "user_id": "u"},
    ("POST", "/v1/agents/{agent_id}/run/stream"): {"input": "你好", "user_id": "u"},
    ("POST", "/v1/agents/{agent_id}/context"): {"input": "你好", "user_id": "u"},
    ("POST", "/v1/agents/{agent_id}/threads"): {"user_id": "u"},
    ("PATCH", "/v1/threads/{thread_id}"): {"title": "taken over"},
    ("POST", "/v1/threads/{thread_id}/corrections"): {"term": "t", "entity_type": "product"},
    ("POST", "/v1/entities/{entity_id}/merge"): {"target_id": "ent_00000000000000000000000000"},
    ("POST", "/v1/threads/{thread_id}/turns"): {
        "input": "q",
        "output": "a",
        "status": "succeeded",
    },
}
# An unknown person is no error but has nothing: tests/threads/api/test_grep_and_timeline.py; a key
# is no id, and whose it is stands in the query: tests/threads/api/test_items.py.
_NO_IDS = ("{user}", "{key}")
WITH_ID = tuple(
    route for route in ROUTES if "{" in route[1] and not any(no in route[1] for no in _NO_IDS)
)
PREFIXES = {
    "agent_id": "ag",
    "run_id": "run",
    "item_id": "run",
    "artifact_id": "art",
    "document_id": "doc",
    "thread_id": "th",
    "message_id": "msg",
    "provider_id": "prov",
    "key_id": "key",
    "team_id": "team",
    "job_id": "job",
    "sample_id": "smp",
    "core_candidate_id": "ccand",
    "fact_id": "fact",
    "entity_id": "ent",
    "entity_candidate_id": "ecand",
    "erasure_id": "era",
    "export_id": "exp",
}


def patterns(resolver: URLResolver | None = None, prefix: str = "/") -> Iterator[tuple[str, Any]]:
    for pattern in (resolver or get_resolver()).url_patterns:
        path = prefix + str(pattern.pattern)
        if path.startswith(("/admin", "/chat")):
            continue  # Walked by the tests of those pages.
        if isinstance(pattern, URLPattern):
            yield re.sub(r"<str:(\w+)>", r"{\1}", path), pattern.callback
        else:
            yield from patterns(pattern, path)


def ids_of(place: Place) -> dict[str, str]:
    team = place.api.post("/v1/teams", {"name": "t", "members": [place.canary]}).json()
    note = {"title": place.canary, "content": place.canary, "kind": "note"}
    document = place.api.post("/v1/knowledge/documents", note).json()
    rule = {"kind": "rule", "content": place.canary}
    sample = place.api.post("/v1/behaviour-samples", rule).json()
    core = f"/v1/users/{place.person.pk}/core"
    candidate = place.api.post(core, {"fact": place.canary}).json()
    other = place.api.post(core, {"fact": f"{place.canary} too"}).json()
    confirmed = place.api.post(f"/v1/core-candidates/{other['id']}/confirm", {}).json()
    link = place.api.post(f"/v1/users/{place.person.pk}/exports").json()
    leaving = make_end_user(place.tenant, f"{place.canary}-leaves")
    erasure = place.api.delete(f"/v1/users/{leaving.pk}?mode=all").json()
    waiting, entity = make_vocabulary(place.thread, f"{place.canary} one", f"{place.canary} two")
    return {
        "agent_id": place.agent.pk,
        "run_id": place.run.pk,
        "item_id": place.run.pk,
        "artifact_id": make_artifact(place.run).pk,
        "thread_id": place.thread.pk,
        "message_id": place.message_id,
        "provider_id": place.provider.pk,
        "key_id": place.key.id,
        "team_id": team["id"],
        "job_id": new_id("job"),
        "document_id": document["id"],
        "sample_id": sample["id"],
        "core_candidate_id": candidate["id"],
        "fact_id": confirmed["fact"]["id"],
        "entity_id": entity.pk,
        "entity_candidate_id": waiting.pk,
        "export_id": link["id"],
        "erasure_id": erasure["id"],
        "user": place.person.pk,
        "category": "memo",
        "key": "course",
    }


def normal(response: HttpResponse) -> tuple[int, bytes, list[tuple[str, str]]]:
    """An answer with its random request id taken out, for comparing byte by byte."""
    request_id = response["X-Request-Id"]
    headers = sorted((n, v.replace(request_id, "ID")) for n, v in response.items())
    return response.status_code, response.content.replace(request_id.encode(), b"ID"), headers


@pytest.mark.req("B17")
def test_routes_of_the_urlconf_equal_the_list() -> None:
    served = set()
    for path, callback in patterns():
        view = callback.view_class
        if path in OPEN:
            assert view.authentication_classes == ()
            continue
        assert issubclass(view, ApiView), path
        for method in ("GET", "POST", "PUT", "PATCH", "DELETE"):
            if hasattr(view, method.lower()):
                served.add((method, path, str(view.key_scopes[method])))
    assert served == set(ROUTES)


@pytest.mark.req("B17")
def test_every_post_takes_an_idempotency_key() -> None:
    for path, callback in patterns():
        post = getattr(callback.view_class, "post", None)
        is_apart = path.endswith(("/run", "/run/stream", "/context", "/search", "/grep"))
        assert post is None or is_apart or post.takes_idempotency_key, path


def body_of(method: str, path: str) -> Any:
    return BODIES.get((method, path), {}) if method != "GET" else None


@pytest.mark.req("B17")
def test_every_route_without_a_good_key_answers_401_alike(a: Place) -> None:
    """Case 41's shape: nothing can be learned from why a key is refused."""
    ids = ids_of(a)
    wrong = a.key.secret[:-1] + ("a" if a.key.secret[-1] != "a" else "b")
    seen = set()
    for method, path, _ in ROUTES:
        for raw in (None, "garbage", "", "cr_aaaaaaaa_bbb", wrong):
            found = normal(Api(raw).send(method, path.format(**ids), body_of(method, path)))
            assert found[0] == 401, (method, path, raw)
            seen.add(found[1])
    assert len(seen) == 1
    assert b'"code":"unauthenticated"' in seen.pop()


@pytest.mark.req("B17")
def test_every_route_with_another_tenants_id_answers_as_for_an_unknown_one(
    a: Place, b: Place
) -> None:
    """Cases 1, 2 and 118, bug report C5: foreign, unknown and misshapen ids look the same, byte for byte."""
    theirs = ids_of(a)
    random_ids = {name: new_id(prefix) for name, prefix in PREFIXES.items()}
    misshapen = ("abc", "0x1", "١", "1%00", theirs["agent_id"].upper(), "ag_", new_id("tn"), "%C3")
    for method, path, _ in WITH_ID:
        body = body_of(method, path)
        unknown = normal(b.api.send(method, path.format(**random_ids), body))
        assert unknown[0] == 404, (method, path)
        assert normal(b.api.send(method, path.format(**theirs), body)) == unknown, (method, path)
        for word in misshapen:
            found = normal(b.api.send(method, path.format(**dict.fromkeys(theirs, word)), body))
            assert found == unknown, (method, path, word)


@pytest.mark.req("B17")
def test_every_route_with_a_key_of_all_other_scopes_answers_403(a: Place) -> None:
    """Cases 43 and 44: a key that lacks just this scope is refused before anything is read."""
    ids = ids_of(a)
    every = {"run", "read", "write", "govern", "erase", "admin"}
    keys = {scope: make_key(a.tenant, tuple(every - {scope})) for scope in every}
    for method, path, scope in ROUTES:
        response = Api(keys[scope]).send(method, path.format(**ids), b"not even json")
        assert (response.status_code, response.json()["code"]) == (403, "forbidden"), (method, path)


@pytest.mark.req("B17")
def test_a_key_limited_to_an_agent_or_person_administers_nothing(a: Place) -> None:
    ids = ids_of(a)
    limited = (
        make_key(a.tenant, agent_id=a.agent.pk),
        make_key(a.tenant, end_user_id=a.person.pk),
    )
    for method, path, scope in ROUTES:
        for key in limited if scope == "admin" else ():
            response = Api(key).send(method, path.format(**ids), body_of(method, path))
            assert response.status_code == 403, (method, path)


def test_case_2_foreign_writes_leave_the_rows_unchanged(a: Place, b: Place) -> None:
    before = a.api.get(f"/v1/threads/{a.thread.pk}").json()
    for method, path, body in (
        ("PATCH", f"/v1/threads/{a.thread.pk}", {"title": "mine"}),
        ("POST", f"/v1/threads/{a.thread.pk}/archive", None),
        ("DELETE", f"/v1/agents/{a.agent.pk}", None),
        ("DELETE", f"/v1/keys/{a.key.id}", None),
        ("PATCH", f"/v1/providers/{a.provider.pk}", {"vendor": "b"}),
    ):
        assert b.api.send(method, path, body).status_code == 404
    assert a.api.get(f"/v1/threads/{a.thread.pk}").json() == before
    assert a.api.get(f"/v1/agents/{a.agent.pk}").json()["is_active"] is True


@pytest.mark.parametrize("path", ["/v1/nothing", "/v1", "/v1/agents/", "/v1/memory", "/v1/runs"])
def test_unknown_url_answers_a_problem(a: Place, path: str) -> None:
    response = a.api.get(path)
    assert response.status_code == 404
    assert response["Content-Type"] == "application/problem+json"
    assert response.json()["code"] == "not_found"


def test_wrong_method_answers_405_with_allow(a: Place) -> None:
    for method in ("PUT", "DELETE", "OPTIONS", "TRACE"):
        response = a.api.send(method, "/v1/policy")
        assert (response.status_code, response.json()["code"]) == (405, "method_not_allowed")
        assert "PATCH" in response["Allow"]


def test_head_is_answered_as_get_under_the_same_scope(a: Place) -> None:
    assert a.api.send("HEAD", "/v1/users").status_code == 200
    key = make_key(a.tenant, ("run",))
    assert Api(key).send("HEAD", "/v1/users").status_code == 403


def test_html_wanted_answers_406_as_a_problem(a: Place) -> None:
    response = a.api.get("/v1/users", headers={"Accept": "text/html"})
    assert (response.status_code, response.json()["code"]) == (406, "not_acceptable")
    assert response["Content-Type"] == "application/problem+json"
