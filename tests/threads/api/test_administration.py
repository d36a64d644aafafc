"""Agents, providers, policy, keys, teams, jobs, audit and usage over HTTP."""

from __future__ import annotations

from datetime import timedelta
from decimal import Decimal

import pytest

from memory.models import Job, MemoryOp
from memory.providers.crypto import open_sealed
from memory.rls import scoped_transaction
from tests.factories import NOW, make_key, make_run, scope_of
from tests.threads.api.client import Api, Place
from threads.models import Provider, Run

AGENT_FIELDS = (
    "id name system_prompt provider_id model context_window max_output_tokens language role"
    " thread_strategy tools memory_fallback_provider_id policy is_active created_at updated_at"
).split()


def agent_body(place: Place, **values: object) -> dict[str, object]:
    return {
        "name": "tutor",
        "provider_id": place.provider.pk,
        "model": "m",
        "context_window": 8192,
    } | values


def code_of(response: object) -> tuple[int, str]:
    return response.status_code, response.json()["code"]  # type: ignore[attr-defined]


@pytest.mark.req("A03")
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
        ({"thread_strategy": "lossless"}, "unavailable"),
        ({"thread_strategy": "other"}, "invalid"),
        ({"tools": ["memory_search"]}, "unavailable"),
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


@pytest.mark.req("A03")
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


def test_policy_shows_every_value_with_its_rule_and_changes_what_is_named(a: Place) -> None:
    before = a.api.get("/v1/policy").json()
    rules = before.pop("rules")
    assert set(rules) == set(before)
    assert rules["thread_tokens"] == {
        "default": 2000,
        "unit": "tokens",
        "low": 200,
        "high": 16000,
        "choices": [],
    }
    changed = a.api.patch("/v1/policy", {"thread_tokens": 900, "writeback": False}).json()
    assert {n for n in before if before[n] != changed[n]} == {"thread_tokens", "writeback"}
    assert a.api.get("/v1/policy").json() == changed
    assert a.api.patch("/v1/policy", {"thread_tokens": None}).json()["thread_tokens"] == 2000


@pytest.mark.parametrize(
    ("changes", "code"),
    [
        ({"nothing": 1}, "unknown_field"),
        ({"thread_tokens": 10}, "invalid"),
        ({"thread_tokens": "900"}, "invalid"),
        ({"thread_tokens": True}, "invalid"),
        ({"writeback": 1}, "invalid"),
        ({"weight_relevance": 0.9}, "invalid_policy"),
        ({"pii_contact": "sell"}, "invalid_policy"),
        ({"pii_secrets": "allow"}, "invalid_policy"),
    ],
)
def test_policy_out_of_bounds_answers_400_and_changes_nothing(
    a: Place, changes: dict[str, object], code: str
) -> None:
    before = a.api.get("/v1/policy").json()
    assert code_of(a.api.patch("/v1/policy", {"recent_turns": 5} | changes)) == (400, code)
    assert a.api.get("/v1/policy").json() == before


def test_key_works_shows_its_secret_once_and_stops_when_revoked(a: Place) -> None:
    body = {"name": "app", "scopes": ["run", "read"], "user_id": "新人", "agent_id": a.agent.pk}
    made = a.api.post("/v1/keys", body).json()
    secret = made.pop("secret")
    assert secret.startswith(f"cr_{made['prefix']}_")
    assert (made["user_id"], made["agent_id"]) == ("新人", a.agent.pk)
    listed = a.api.get("/v1/keys")
    assert made in [{**row, "last_used_at": None} for row in listed.json()["results"]]
    assert secret.rpartition("_")[2] not in listed.content.decode()
    assert Api(secret).get("/v1/users").status_code == 200
    assert a.api.delete(f"/v1/keys/{made['id']}").status_code == 204
    assert Api(secret).get("/v1/users").status_code == 401
    assert a.api.delete(f"/v1/keys/{made['id']}").status_code == 204


@pytest.mark.parametrize(
    ("values", "code"),
    [
        ({"scopes": []}, "invalid"),
        ({"scopes": ["root"]}, "invalid"),
        ({"scopes": "read"}, "invalid"),
        ({"expires_at": "2020-01-01T00:00:00Z"}, "invalid"),
        ({"agent_id": "ag_nothing"}, "unknown_agent"),
        ({"tenant_id": "tn_x"}, "unknown_field"),
    ],
)
def test_key_that_does_not_fit_answers_400(a: Place, values: dict[str, object], code: str) -> None:
    assert code_of(a.api.post("/v1/keys", {"scopes": ["read"]} | values)) == (400, code)


def test_two_keys_live_at_once_for_rotation(a: Place) -> None:
    second = a.api.post("/v1/keys", {"scopes": ["read"]}).json()["secret"]
    assert [Api(key).get("/v1/users").status_code for key in (a.key, second)] == [200, 200]


def test_team_members_are_replaced_as_a_whole(a: Place) -> None:
    made = a.api.post("/v1/teams", {"name": "班主任", "members": ["b", "a", "b"]})
    assert made.status_code == 201
    assert made.json()["members"] == ["a", "b"]
    path = f"/v1/teams/{made.json()['id']}"
    assert a.api.patch(path, {"members": ["c", "b"]}).json()["members"] == ["b", "c"]
    assert a.api.patch(path, {"name": "office"}).json()["members"] == ["b", "c"]
    assert a.api.get("/v1/teams").json()["results"][0]["name"] == "office"
    assert a.api.patch(path, {"members": []}).json()["members"] == []
    assert a.api.delete(path).status_code == 204
    assert a.api.delete(path).status_code == 404


def test_case_37_foreign_ids_in_a_list_are_refused_like_any_of_our_shape(
    a: Place, b: Place
) -> None:
    for user_id in (a.person.pk, "usr_01jd0000000000000000000000"):
        answer = b.api.post("/v1/teams", {"name": "t", "members": ["mine", user_id]})
        assert code_of(answer) == (400, "reserved_user_id")
        assert answer.json()["errors"][0]["field"] == "members.1"
    assert b.api.get("/v1/teams").json()["results"] == []


def test_dead_job_is_listed_and_retried_once(a: Place) -> None:
    with scoped_transaction(scope_of(a.tenant)):
        job = Job.objects.create(
            tenant=a.tenant,
            thread=a.thread,
            end_user=a.person,
            kind="roll_summary",
            dedupe_key="x",
            lane_key=1,
            status="dead",
            attempts=5,
            error_code="provider_error",
            finished_at=NOW,
        )
    dead = a.api.get("/v1/jobs", {"status": "dead"}).json()["results"]
    assert [(row["id"], row["attempts"], row["error_code"]) for row in dead] == [
        (job.pk, 5, "provider_error")
    ]
    assert a.api.get("/v1/jobs", {"status": "done"}).json()["results"] == []
    retried = a.api.post(f"/v1/jobs/{job.pk}/retry").json()
    assert (retried["status"], retried["attempts"]) == ("ready", 0)
    assert code_of(a.api.post(f"/v1/jobs/{job.pk}/retry")) == (409, "conflict")
    actions = [row["action"] for row in a.api.get("/v1/audit").json()["results"]]
    assert actions.count("job_retried") == 1


def test_audit_lists_acts_with_internal_ids_only(a: Place) -> None:
    a.api.post("/v1/teams", {"name": "CNRY-team", "members": ["CNRY-member"]})
    a.api.post("/v1/agents", agent_body(a, system_prompt="CNRY-prompt"))
    listed = a.api.get("/v1/audit")
    rows = listed.json()["results"]
    assert list(rows[-1]) == ["id", "at", "actor", "action", "target", "detail", "sealed"]
    assert rows[-1]["action"] == "agent_created"
    assert rows[-1]["actor"] == a.key.id
    assert rows[-1]["target"]["kind"] == "agent"
    assert "CNRY" not in listed.content.decode()
    assert [row["at"] for row in rows] == sorted(row["at"] for row in rows)
    later = a.api.get("/v1/audit", {"since": rows[-1]["at"]}).json()["results"]
    assert rows[-1] in later
    assert len(later) < len(rows)


@pytest.mark.req("A28")
def test_usage_adds_runs_and_memory_work_apart(a: Place, b: Place) -> None:
    for day in (0, 1):
        at = NOW + timedelta(days=day)
        run = make_run(
            a.thread,
            origin="run",
            status="running",
            finished_at=None,
            created_at=at,
            lease_until=at,
        )
        with scoped_transaction(scope_of(a.tenant)):
            Run.objects.in_scope(scope_of(a.tenant)).filter(pk=run.pk).update(
                status="succeeded",
                finished_at=at,
                input_tokens=100,
                output_tokens=10,
                cost_usd=Decimal("0.00041"),
            )
            MemoryOp.objects.create(
                tenant=a.tenant,
                thread=a.thread,
                agent=a.agent,
                kind="roll_summary",
                model="m",
                outcome="ok",
                input_tokens=50,
                output_tokens=5,
                cost_usd=Decimal("0.0001"),
                at=at,
            )
    report = a.api.get("/v1/usage").json()
    assert [row["key"] for row in report["results"]] == ["2026-11-02", "2026-11-03"]
    assert report["results"][0] == {
        "runs": {"count": 1, "input_tokens": 100, "output_tokens": 10, "cost_usd": "0.000410"},
        "memory_ops": {"count": 1, "input_tokens": 50, "output_tokens": 5, "cost_usd": "0.000100"},
        "total_usd": "0.000510",
        "key": "2026-11-02",
    }
    assert report["total"]["total_usd"] == "0.001020"
    by_kind = a.api.get("/v1/usage", {"group_by": "kind"}).json()["results"]
    assert {row["key"]: row["total_usd"] for row in by_kind} == {
        "run": "0.000820",
        "roll_summary": "0.000200",
    }
    by_agent = a.api.get("/v1/usage", {"group_by": "agent"}).json()["results"]
    assert [row["key"] for row in by_agent] == [a.agent.pk]
    first = a.api.get("/v1/usage", {"from": "2026-11-02", "to": "2026-11-03"}).json()
    assert first["total"]["runs"]["count"] == 1
    assert b.api.get("/v1/usage").json()["results"] == []
    other = Api(make_key(a.tenant, ("read",), end_user_id=a.person.pk))
    assert other.get("/v1/usage").json()["total"]["runs"]["count"] == 2
    assert a.api.get("/v1/usage", {"group_by": "week"}).status_code == 400
