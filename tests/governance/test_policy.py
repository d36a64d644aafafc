"""Policy: the numbers of the design with their bounds, layers, and changes that are all or none."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from governance.models import AuditEntry, TenantPolicy
from governance.policy import change_policy, policy_for, tenant_overrides
from governance.policy_rules import RULES, InvalidPolicyError, Policy, effective, validate
from memory.rls import scoped_transaction
from tests.factories import NOW, make_tenant, scope_of

# DESIGN section 13, row by row: default, low, high.
NUMBERS = {
    "guidelines_tokens": (200, 0, 4000),
    "preferences_tokens": (400, 0, 4000),
    "facts_tokens": (400, 0, 4000),
    "core_tokens": (800, 0, 4000),
    "behaviour_tokens": (800, 0, 4000),
    "behaviour_samples": (40, 0, 200),
    "thread_tokens": (2000, 200, 16_000),
    "summary_tokens": (600, 200, 16_000),
    "recent_tokens": (1200, 200, 16_000),
    "recent_turns": (2, 0, 10),
    "summary_after_messages": (20, 4, 200),
    "idle_minutes": (30, 1, 1440),
    "related_tokens": (700, 0, 16_000),
    "reference_tokens": (1500, 0, 16_000),
    "continue_tokens": (400, 0, 16_000),
    "recall_top_k": (3, 0, 20),
    "min_relevance": (0.2, 0, 1),
    "half_life_recall_days": (30, 1, 3650),
    "half_life_item_days": (180, 1, 3650),
    "half_life_knowledge_days": (365, 1, 3650),
    "half_life_message_days": (30, 1, 3650),
    "similar_key": (0.8, 0, 1),
}
DEFAULTS: dict[str, Any] = {
    "weight_relevance": 0.70,
    "weight_recency": 0.12,
    "weight_credence": 0.13,
    "weight_frequency": 0.05,
    "entity_factor_up": 1.1,
    "entity_cap": 5.0,
    "entity_factor_down": 0.9,
    "entity_floor": 0.1,
    "entity_idle_days": 90,
    "long_tool_result_tokens": 1500,
    "tool_rounds": 8,
    "exact_search_rows": 20_000,
    "retrieval_limit_ms": 300,
    "writeback": True,
    "learn_from_turns": False,
    "extract_on_import": False,
    "archive_artifacts": False,
    "allow_facts": True,
    "knowledge_admit": False,
    "knowledge_kinds": [
        "article",
        "artifact",
        "faq",
        "handbook",
        "manual",
        "note",
        "policy",
        "reference",
        "report",
    ],
    "retention_messages_days": None,
    "retention_recall_days": None,
    "retention_traces_days": 90,
    "retention_audit_days": None,
    "pii_secrets": "strip",
    "pii_identity": "mask",
    "pii_contact": "tag",
    "pii_sensitive": "block",
    "pii_uncertain": "hold",
}


@pytest.mark.parametrize("name", NUMBERS)
def test_number_has_the_default_and_bounds_of_the_design(name: str) -> None:
    default, low, high = NUMBERS[name]
    assert RULES[name].default == default
    for value in (low, high, default):
        assert validate({name: value}) == {name: value}
    for value in (low - 1, high + 1):
        with pytest.raises(InvalidPolicyError) as error:
            validate({name: value})
        assert error.value.field == name


def test_other_defaults_are_those_of_the_design() -> None:
    values = effective().values
    assert {name: values[name] for name in DEFAULTS} == DEFAULTS
    tiers = {"fact": 1.0, "approved": 0.95, "stated": 0.8, "observed": 0.6, "untrusted": 0.2}
    assert {tier: values[f"credence_{tier}"] for tier in tiers} == tiers


def test_every_default_is_valid_and_every_rule_has_a_unit() -> None:
    assert validate({name: rule.default for name, rule in RULES.items()}) == effective().values
    assert all(rule.unit for rule in RULES.values())


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("recent_turns", True),
        ("recent_turns", 2.0),
        ("recent_turns", "2"),
        ("recent_turns", None),
        ("recent_turns", [2]),
        ("min_relevance", float("nan")),
        ("min_relevance", float("inf")),
        ("min_relevance", False),
        ("writeback", 1),
        ("writeback", "on"),
        ("writeback", None),
        ("pii_secrets", "allow"),
        ("pii_contact", "ALLOW"),
        ("pii_contact", None),
        ("no_such_name", 1),
        ("retention_traces_days", 0),
        ("weight_relevance", 0.9),
        ("knowledge_kinds", None),
        ("knowledge_kinds", "faq"),
        ("knowledge_kinds", ["FAQ"]),
        ("knowledge_kinds", ["a-b"]),
        ("knowledge_kinds", ["手册"]),
        ("knowledge_kinds", [""]),
        ("knowledge_kinds", ["x" * 41]),
        ("knowledge_kinds", [1]),
        ("knowledge_kinds", [f"kind_{number}" for number in range(51)]),
        ("knowledge_kinds", ["faq", "approval_comment"]),
        ("knowledge_kinds", ["chat"]),
        ("knowledge_admit", "on"),
    ],
)
def test_value_of_wrong_kind_refused(name: str, value: object) -> None:
    with pytest.raises(InvalidPolicyError) as error:
        validate({name: value})
    assert error.value.code == "invalid_policy"


def test_weights_change_together_only() -> None:
    changed = {"weight_relevance": 0.6, "weight_recency": 0.22}
    assert validate(changed) == changed
    with pytest.raises(InvalidPolicyError):
        validate({"weight_relevance": 0.6})


def test_layers_override_from_left_to_right_and_strangers_are_ignored() -> None:
    policy = effective({"recent_turns": 3, "tool_rounds": 4}, {"recent_turns": 5, "odd": 1})
    assert (policy.count("recent_turns"), policy.count("tool_rounds")) == (5, 4)
    assert "odd" not in policy.values
    assert policy.count("summary_after_messages") == 20


def test_reading_a_switch_as_a_count_refused() -> None:
    policy = Policy({"min_relevance": 0.2, "writeback": True})
    assert policy.is_on("writeback")
    with pytest.raises(InvalidPolicyError):
        policy.count("min_relevance")


@given(
    st.dictionaries(
        st.sampled_from(sorted(RULES)) | st.text(max_size=80),
        st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=9),
        max_size=4,
    )
)
def test_any_values_pass_within_bounds_or_are_refused(changes: dict[str, object]) -> None:
    try:
        checked = validate(changes)
    except InvalidPolicyError:
        return
    assert checked.keys() == changes.keys() <= RULES.keys()


@pytest.mark.req("B18")
def test_change_holds_for_its_tenant_alone_and_agents_go_before_it(db: None) -> None:
    a, b = make_tenant(), make_tenant()
    change_policy(scope=scope_of(a), changes={"recent_turns": 5, "writeback": False}, now=NOW)
    for tenant, turns in ((a, 5), (b, 2)):
        with scoped_transaction(scope_of(tenant)):
            policy = policy_for(scope=scope_of(tenant), agent_overrides={})
            assert policy.count("recent_turns") == turns
            assert policy.is_on("writeback") is (tenant is b)
    with scoped_transaction(scope_of(a)):
        own = policy_for(scope=scope_of(a), agent_overrides={"recent_turns": 7})
        assert own.count("recent_turns") == 7


def test_change_refused_changes_nothing(db: None) -> None:
    tenant = make_tenant()
    scope = scope_of(tenant)
    change_policy(scope=scope, changes={"recent_turns": 5}, now=NOW)
    with pytest.raises(InvalidPolicyError):
        change_policy(scope=scope, changes={"recent_turns": 6, "tool_rounds": 99}, now=NOW)
    with scoped_transaction(scope):
        assert tenant_overrides(scope=scope) == {"recent_turns": 5}
        changed = AuditEntry.objects.in_scope(scope).filter(action="policy_changed")
        detail = {"names": ["recent_turns"], "changes": ["recent_turns: 2 -> 5"]}
        assert [row.detail for row in changed] == [detail]


def test_null_resets_to_the_default(db: None) -> None:
    tenant = make_tenant()
    scope = scope_of(tenant)
    change_policy(scope=scope, changes={"recent_turns": 5, "tool_rounds": 3}, now=NOW)
    policy = change_policy(scope=scope, changes={"recent_turns": None}, now=NOW)
    assert (policy.count("recent_turns"), policy.count("tool_rounds")) == (2, 3)
    with scoped_transaction(scope):
        assert tenant_overrides(scope=scope) == {"tool_rounds": 3}
        assert TenantPolicy.objects.in_scope(scope).count() == 1


def test_names_are_kept_once_and_in_order() -> None:
    most = [f"kind_{number:02}" for number in range(50)]
    assert validate({"knowledge_kinds": most}) == {"knowledge_kinds": most}
    assert validate({"knowledge_kinds": ["faq", "article", "faq"]}) == {
        "knowledge_kinds": ["article", "faq"]
    }
    assert effective({"knowledge_kinds": []}).names("knowledge_kinds") == ()
