"""Policy, keys, teams, jobs, audit and usage over HTTP."""

from __future__ import annotations

from datetime import timedelta
from decimal import Decimal

import pytest

from memory.models import Job, MemoryOp
from memory.rls import scoped_transaction
from tests.factories import NOW, make_key, make_run, scope_of
from tests.threads.api.client import Api, Place, agent_body, code_of
from threads.models import Run


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


def test_usage_of_a_span_that_ends_before_it_begins_answers_400(a: Place) -> None:
    answer = a.api.get("/v1/usage", {"from": "2026-06-02", "to": "2026-06-01"})
    assert code_of(answer) == (400, "invalid_parameter")
    assert a.api.get("/v1/usage", {"from": "2026-06-01", "to": "2026-06-01"}).status_code == 200


BOTH = (["govern", "write"], ["govern", "run"], ["run", "read", "write", "govern"])


@pytest.mark.req("B14")
@pytest.mark.parametrize("scopes", BOTH)
def test_a_key_that_proposes_and_approves_is_refused_unless_policy_says_so(
    a: Place, scopes: list[str]
) -> None:
    refused = a.api.post("/v1/keys", {"scopes": scopes})
    assert code_of(refused) == (409, "govern_with_write")
    assert "two keys" in refused.json()["detail"]
    assert refused.json()["errors"][0]["field"] == "scopes"
    for apart in (["govern", "read", "admin"], ["run", "write"]):
        assert a.api.post("/v1/keys", {"scopes": apart}).status_code == 201
    assert a.api.patch("/v1/policy", {"govern_with_write": True}).status_code == 200
    assert a.api.post("/v1/keys", {"scopes": scopes}).status_code == 201


def test_a_changed_policy_is_audited_with_its_values_before_and_after(a: Place) -> None:
    body = {
        "recall_top_k": 7,
        "four_eyes": True,
        "knowledge_kinds": ["faq"],
        "retention_recall_days": 30,
        "min_relevance": 0.25,
    }
    assert a.api.patch("/v1/policy", body).status_code == 200
    assert a.api.patch("/v1/policy", {"recall_top_k": None}).status_code == 200
    rows = [one for one in a.api.get("/v1/audit").json()["results"] if "policy" in one["action"]]
    first, newest = rows
    assert first["detail"] == {
        "names": sorted(body),
        "changes": [
            "four_eyes: off -> on",
            "knowledge_kinds: 9 names -> 1 names",
            "min_relevance: 0.2 -> 0.25",
            "recall_top_k: 3 -> 7",
            "retention_recall_days: none -> 30",
        ],
    }
    assert newest["detail"] == {"names": ["recall_top_k"], "changes": ["recall_top_k: 7 -> 3"]}


def test_an_agents_policy_is_checked_and_audited_and_leaves_the_tenants_alone(a: Place) -> None:
    path = f"/v1/agents/{a.agent.pk}"
    for name, value in (("four_eyes", True), ("retention_traces_days", 3), ("recall_top_k", 21)):
        refused = a.api.patch(path, {"policy": {name: value}})
        assert code_of(refused) == (400, "invalid_policy"), name
    assert a.api.patch(path, {"policy": {"recall_top_k": 5}}).status_code == 200
    (row,) = [
        one for one in a.api.get("/v1/audit").json()["results"] if one["action"] == "agent_updated"
    ]
    assert row["detail"] == {"names": ["policy"], "policy": ["recall_top_k: 3 -> 5"]}


def test_read_policy_shows_unit_default_and_bounds_of_every_value(a: Place) -> None:
    shown = a.api.get("/v1/policy").json()
    rules = shown.pop("rules")
    assert rules.keys() == shown.keys()
    assert rules["behaviour_tokens"] == {
        "default": 800,
        "unit": "tokens",
        "low": 0,
        "high": 4000,
        "choices": [],
    }
    assert all(rule["unit"] for rule in rules.values())
