"""Agents and providers over HTTP."""

from __future__ import annotations

import pytest

from memory.providers.crypto import open_sealed
from memory.rls import scoped_transaction
from tests.factories import scope_of
from tests.threads.api.client import Place, agent_body, code_of
from threads.models import Provider

AGENT_FIELDS = (
    "id name system_prompt provider_id model context_window max_output_tokens language role"
    " thread_strategy tools memory_fallback_provider_id policy is_active created_at updated_at"
).split()


def test_create_agent_fills_the_defaults(a: Place) -> None:
    agent = a.api.post("/v1/agents", agent_body(a)).json()
    assert list(agent) == AGENT_FIELDS
    assert agent["max_output_tokens"] == 1024
    assert (agent["language"], agent["role"]) == ("auto", "default")
    assert (agent["thread_strategy"], agent["tools"], agent["policy"]) == ("rolling", [], {})
    small = a.api.post("/v1/agents", agent_body(a, name="small", context_window=2000)).json()
    assert small["max_output_tokens"] == 500
    assert a.api.get(f"/v1/agents/{agent['id']}").json() == agent


def test_case_19_agent_name_taken_in_one_tenant_is_free_in_the_other(a: Place, b: Place) -> None:
    assert a.api.post("/v1/agents", agent_body(a)).status_code == 201
    assert b.api.post("/v1/agents", agent_body(b)).status_code == 201
    assert code_of(a.api.post("/v1/agents", agent_body(a))) == (409, "name_taken")


@pytest.mark.parametrize(
    ("values", "code"),
    [
        ({"context_window": 1023}, "invalid"),
        ({"context_window": "8192"}, "invalid"),
        ({"context_window": True}, "invalid"),
        ({"context_window": 8192.0}, "invalid"),
        ({"max_output_tokens": 8192}, "invalid"),
        ({"max_output_tokens": 0}, "invalid"),
        ({"provider_id": "prov_unknown"}, "unknown_provider"),
        ({"memory_fallback_provider_id": "nope"}, "unknown_provider"),
        ({"thread_strategy": "other"}, "invalid"),
        ({"tools": ["memory_grep", "memory_grep"]}, "invalid"),
        ({"tools": ["rm_rf"]}, "invalid"),
        ({"policy": {"thread_tokens": 1}}, "invalid_policy"),
        ({"policy": {"nothing": 1}}, "invalid_policy"),
        ({"policy": {"weight_relevance": 0.9}}, "invalid_policy"),
        ({"policy": []}, "invalid"),
        ({"language": "fr"}, "invalid"),
        ({"is_active": False}, "unknown_field"),
    ],
)
def test_agent_that_does_not_fit_answers_400(
    a: Place, values: dict[str, object], code: str
) -> None:
    assert code_of(a.api.post("/v1/agents", agent_body(a, **values))) == (400, code)


def test_agent_with_another_tenants_provider_answers_as_for_an_unknown_one(
    a: Place, b: Place
) -> None:
    foreign = b.api.post("/v1/agents", agent_body(b, provider_id=a.provider.pk))
    unknown = b.api.post("/v1/agents", agent_body(b, provider_id="prov_nothing"))
    assert code_of(foreign) == code_of(unknown) == (400, "unknown_provider")
    assert foreign.json()["errors"] == unknown.json()["errors"]


@pytest.mark.req("A15")
def test_memory_fallback_is_local_or_of_the_same_vendor(a: Place) -> None:
    def provider(name: str, locality: str, vendor: str) -> str:
        body = {
            "name": name,
            "kind": "openai_compatible",
            "base_url": "http://127.0.0.1:1/v1",
            "locality": locality,
            "vendor": vendor,
        }
        made = a.api.post("/v1/providers", body)
        assert made.status_code == 201, made.content
        return str(made.json()["id"])

    mine = provider("cloud one", "cloud", "acme")
    same = provider("cloud two", "cloud", "acme")
    other = provider("cloud three", "cloud", "globex")
    for own, fallback, is_allowed in (
        (mine, a.provider.pk, True),
        (mine, same, True),
        (mine, other, False),
        (a.provider.pk, same, False),
    ):
        body = agent_body(
            a, name=f"{own}{fallback}", provider_id=own, memory_fallback_provider_id=fallback
        )
        answer = a.api.post("/v1/agents", body)
        expected = 201 if is_allowed else 400
        assert answer.status_code == expected, answer.content
        assert is_allowed or answer.json()["code"] == "fallback_not_allowed"


def test_patch_agent_changes_what_is_named(a: Place) -> None:
    path = f"/v1/agents/{a.agent.pk}"
    before = a.api.get(path).json()
    changed = a.api.patch(path, {"policy": {"recent_turns": 4}, "language": "zh"}).json()
    differing = {name for name in before if before[name] != changed[name]}
    assert differing == {"policy", "language", "updated_at"}
    assert code_of(a.api.patch(path, {"context_window": 1024, "max_output_tokens": 1024})) == (
        400,
        "invalid",
    )
    assert a.api.get(path).json() == changed


def test_agent_with_runs_is_deactivated_and_one_without_is_deleted(a: Place) -> None:
    fresh = a.api.post("/v1/agents", agent_body(a)).json()["id"]
    assert a.api.delete(f"/v1/agents/{fresh}").status_code == 204
    assert a.api.get(f"/v1/agents/{fresh}").status_code == 404
    path = f"/v1/agents/{a.agent.pk}"
    gone = a.api.delete(path)
    assert (gone.status_code, gone.json()["is_active"]) == (200, False)
    assert a.api.delete(path).status_code == 200
    assert code_of(a.api.patch(path, {"role": "x"})) == (409, "agent_inactive")
    assert a.api.get(f"/v1/runs/{a.run.pk}").status_code == 200
    assert a.api.post(f"{path}/threads", {"user_id": "u"}).status_code == 404
    assert code_of(a.api.post(f"{path}/run", {"input": "hi", "user_id": "u"})) == (404, "not_found")
    assert a.api.post("/v1/agents", agent_body(a, name=a.agent.name)).status_code == 201


def test_provider_key_is_sealed_and_never_shown(a: Place, settings: object) -> None:
    body = {
        "name": "served",
        "kind": "openai_compatible",
        "base_url": "http://127.0.0.1:9/v1",
        "api_key": "sk-CNRY-secret",
        "locality": "local",
        "timeouts": {"total": 30, "connect": 0.5},
    }
    made = a.api.post("/v1/providers", body)
    assert made.status_code == 201
    shown = made.json()
    assert shown["has_api_key"] is True
    assert "api_key" not in shown
    assert "CNRY-secret" not in made.content.decode() + a.api.get("/v1/providers").content.decode()
    scope = scope_of(a.tenant)
    with scoped_transaction(scope):
        stored = Provider.objects.in_scope(scope).get(pk=shown["id"])
    keys = settings.CREDENCE_ENCRYPTION_KEYS  # type: ignore[attr-defined]
    assert "CNRY" not in stored.sealed_api_key
    assert open_sealed(stored.sealed_api_key, keys=keys) == "sk-CNRY-secret"
    assert stored.timeouts == {"total": 30.0, "connect": 0.5}


@pytest.mark.parametrize(
    ("values", "code"),
    [
        ({"base_url": "http://example.com/v1"}, "provider_host_refused"),
        ({"base_url": "http://169.254.169.254/v1"}, "provider_host_refused"),
        ({"base_url": "ftp://127.0.0.1/"}, "provider_misconfigured"),
        ({"base_url": "http://user:pw@127.0.0.1/"}, "provider_misconfigured"),
        ({"base_url": ""}, "invalid"),
        ({"base_url": "http://127.0.0.1:99999/"}, "provider_misconfigured"),
        ({"locality": "moon"}, "invalid"),
        ({"kind": "offline"}, "invalid"),
        ({"kind": "other"}, "invalid"),
        ({"timeouts": {"total": "5"}}, "invalid"),
        ({"timeouts": {"total": 0}}, "invalid"),
        ({"timeouts": {"forever": 1}}, "unknown_field"),
        ({"sealed_api_key": "x"}, "unknown_field"),
    ],
)
def test_provider_that_does_not_fit_answers_400(
    a: Place, values: dict[str, object], code: str
) -> None:
    body = {
        "name": "p",
        "kind": "openai_compatible",
        "base_url": "http://127.0.0.1:9/v1",
        "locality": "local",
    }
    assert code_of(a.api.post("/v1/providers", body | values)) == (400, code)


def test_provider_key_does_not_follow_to_another_host(a: Place) -> None:
    body = {
        "name": "p",
        "kind": "openai_compatible",
        "base_url": "http://127.0.0.1:9/v1",
        "api_key": "sk-1",
        "locality": "local",
    }
    path = f"/v1/providers/{a.api.post('/v1/providers', body).json()['id']}"
    elsewhere = {"base_url": "http://127.0.0.1:10/v1"}
    assert code_of(a.api.patch(path, elsewhere)) == (400, "api_key_required")
    assert a.api.patch(path, {"base_url": "http://127.0.0.1:9/v2"}).json()["has_api_key"] is True
    moved = a.api.patch(path, elsewhere | {"api_key": "sk-2"}).json()
    assert (moved["base_url"], moved["has_api_key"]) == ("http://127.0.0.1:10/v1", True)
    assert a.api.patch(path, {"api_key": None}).json()["has_api_key"] is False
    taken = a.api.patch(path, {"name": a.provider.name})
    assert code_of(taken) == (409, "name_taken")


ENDPOINT = {
    "name": "p",
    "kind": "openai_compatible",
    "base_url": "http://127.0.0.1:9/v1",
    "locality": "local",
}


@pytest.mark.parametrize(
    "base_url",
    [
        "http://127.0.0.1:9/v1\r\nX-Injected: 1",
        "http://127.0.0.1:9/v1\n",
        "http://127.0.0.1:9/\tv1",
        "http://127.0.0.1:9/v 1",
        " http://127.0.0.1:9/v1",
        "http://127.0.0.1:9/\u0007",
        "http://127.0.0.1:9/\u3000v1",
        "http://127.0.0.1:9/\u202ev1",
        "http://１２７.0.0.1:9/v1",
        "http://１２７.1:9/v1",
        "http://127。0。0。1:9/v1",
        "http://a..b/v1",
        "http://[::1/v1",
    ],
)
def test_base_url_no_client_could_read_is_refused_when_made_and_changed(
    a: Place, base_url: str
) -> None:
    path = f"/v1/providers/{a.api.post('/v1/providers', ENDPOINT).json()['id']}"
    again = ENDPOINT | {"name": "q", "base_url": base_url}
    for answer in (a.api.post("/v1/providers", again), a.api.patch(path, {"base_url": base_url})):
        assert answer.status_code == 400
        assert answer.json()["code"] in ("provider_misconfigured", "provider_host_refused")
        assert [error["field"] for error in answer.json()["errors"]] == ["base_url"]


@pytest.mark.parametrize("api_key", ["sk-1\r\nX: 1", "sk-\u0007", "sk-密钥", "   ", "sk-1 "])
def test_api_key_no_header_can_carry_is_refused_when_made_and_changed(
    a: Place, api_key: str
) -> None:
    path = f"/v1/providers/{a.api.post('/v1/providers', ENDPOINT).json()['id']}"
    again = ENDPOINT | {"name": "q", "api_key": api_key}
    for answer in (a.api.post("/v1/providers", again), a.api.patch(path, {"api_key": api_key})):
        assert code_of(answer) == (400, "invalid")
        assert [error["field"] for error in answer.json()["errors"]] == ["api_key"]
