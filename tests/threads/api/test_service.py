"""Health, readiness, the OpenAPI document and its page."""

from __future__ import annotations

import re
from io import StringIO

import pytest
from django.core.management import call_command
from django.db import connection

from governance.models import KeyScope
from memory import lanes
from tests.threads.api.client import Api
from tests.threads.api.test_routes import ROUTES
from threads.api.errors import STATUS


def test_healthz_answers_without_a_key(db: None) -> None:
    answer = Api(None).get("/healthz")
    assert (answer.status_code, answer.json()) == (200, {"status": "ok"})
    assert answer["X-Request-Id"]


def test_readyz_names_the_queues_without_a_sign_of_life(db: None) -> None:
    answer = Api(None).get("/readyz")
    assert (answer.status_code, answer.json()["code"]) == (503, "not_ready")
    assert answer["Content-Type"] == "application/problem+json"
    assert {error["field"] for error in answer.json()["errors"]} == {"lanes"}
    lanes.beat(name=lanes.CONTROL)
    assert len(Api(None).get("/readyz").json()["errors"]) == 1
    lanes.beat(name=lanes.lane_name(0))
    assert Api(None).get("/readyz").json() == {"status": "ready"}
    with connection.cursor() as cursor:
        cursor.execute("UPDATE memory_lane SET heartbeat_at = now() - interval '1 hour'")
    assert Api(None).get("/readyz").status_code == 503


@pytest.mark.req("E03")
def test_openapi_document_is_valid_without_a_warning() -> None:
    out = StringIO()
    call_command(
        "spectacular", "--validate", "--fail-on-warn", "--format", "openapi-json", stdout=out
    )
    assert '"bearer"' in out.getvalue()


@pytest.mark.req("E03")
def test_openapi_document_describes_every_route_with_its_errors(db: None) -> None:
    document = Api(None).get("/v1/openapi.json").json()
    described = {
        (method.upper(), path)
        for path, methods in document["paths"].items()
        for method in methods
        if path.startswith("/v1/")
    }
    assert described == {(method, path) for method, path, _ in ROUTES}
    for method, path, _ in ROUTES:
        operation = document["paths"][path][method.lower()]
        (key,) = operation["security"]
        assert len(key["apiKey"]) == 1, path
        assert key["apiKey"][0] in KeyScope.values, path
        assert {"401", "403"} <= set(operation["responses"]), path
        assert operation["summary"]
    run = document["paths"]["/v1/agents/{agent_id}/run"]["post"]
    assert run["security"] == [{"apiKey": ["run"]}]
    assert document["paths"]["/v1/users/{user}"]["delete"]["security"] == [{"apiKey": ["erase"]}]
    assert run["requestBody"]["content"]["application/json"]["examples"]
    stream = document["paths"]["/v1/agents/{agent_id}/run/stream"]["post"]
    assert "text/event-stream" in stream["responses"]["200"]["content"]


@pytest.mark.req("E03")
def test_openapi_document_lists_the_statuses_that_occur(db: None) -> None:
    paths = Api(None).get("/v1/openapi.json").json()["paths"]
    for method, path, _ in ROUTES:
        operation = paths[path][method.lower()]
        told = set(operation["responses"])
        assert {"400", "401", "403", "429", "500", "503"} <= told, path
        limited = operation["responses"]["429"]
        assert "rate_limited" in limited["description"]
        assert set(limited["headers"]) == {
            "Retry-After",
            "RateLimit-Limit",
            "RateLimit-Remaining",
            "RateLimit-Reset",
        }
        assert ("413" in told) == (method in ("POST", "PUT", "PATCH")), path
    turns = paths["/v1/threads/{thread_id}/turns"]["post"]["responses"]
    assert {"200", "201"} <= set(turns)
    assert turns["200"]["content"] == turns["201"]["content"]
    assert {"200", "204"} <= set(paths["/v1/agents/{agent_id}"]["delete"]["responses"])


@pytest.mark.req("E03")
def test_openapi_document_names_the_codes_of_a_run(db: None) -> None:
    document = Api(None).get("/v1/openapi.json").json()
    for path in ("/v1/agents/{agent_id}/run", "/v1/agents/{agent_id}/run/stream"):
        told = document["paths"][path]["post"]["responses"]
        codes = {status: said["description"] for status, said in told.items()}
        assert codes["409"] == "code: thread_archived, run_cancelled, idempotency_conflict"
        assert codes["502"] == "code: provider_error, provider_misconfigured, provider_host_refused"
    body = document["components"]["schemas"]["RunBodyRequest"]["properties"]["metadata"]
    assert "16,000 characters" in body["description"]


def test_root_leads_to_the_docs() -> None:
    answer = Api(None).get("/")
    assert (answer.status_code, answer["Location"]) == (302, "/v1/docs")


def test_docs_page_loads_nothing_from_another_host(db: None) -> None:
    page = Api(None).get("/v1/docs", headers={"Accept": "text/html"})
    assert page.status_code == 200
    html = page.content.decode()
    assert re.findall(r"https?://[^\s\"']+", html) == []
    assert re.findall(r"(?:src|href)=[\"']//", html) == []
    assert "/static/drf_spectacular_sidecar/" in html
    script = Api(None).get("/v1/docs?script=").content.decode()
    assert "/v1/openapi.json" in script
    assert re.findall(r"https?://[^\s\"']+", script) == []


def test_every_code_has_a_status_that_is_an_error() -> None:
    assert all(400 <= status < 600 for status in STATUS.values())
