"""Every number of policy (T1), with its default, unit and bounds: DESIGN section 13 as data.

Pure: no table, no framework. `governance.policy` reads and writes what tenants changed.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from memory.errors import InvalidInputError

PolicyValue = int | float | bool | str | list[str] | None

# What people said while something was made is no knowledge, whatever a tenant would like.
PROCESS_KINDS: Final = frozenset(
    "approval approval_comment approval_note chat chat_history chat_log chat_message comment"
    " conversation dialogue message review_comment thread transcript".split()
)


class InvalidPolicyError(InvalidInputError):
    """A policy value is unknown or out of its bounds."""

    code = "invalid_policy"


@dataclass(frozen=True, slots=True, kw_only=True)
class Rule:
    """One number or switch of policy.

    Attributes:
        default: What holds where nobody changed it.
        unit: What the number counts.
        low: Least value allowed, for numbers.
        high: Greatest value allowed, for numbers.
        choices: The words allowed, for words.
        is_optional: Whether null ("none") is allowed.
        most_names: How many names may be listed, for lists of names.
        refused_names: Names that may not be among them.
    """

    default: PolicyValue
    unit: str
    low: float = 0
    high: float = 0
    choices: tuple[str, ...] = ()
    is_optional: bool = False
    most_names: int = 0
    refused_names: frozenset[str] = frozenset()

    @property
    def is_number(self) -> bool:
        """Whether `low` and `high` say something."""
        return not self.choices and not self.most_names and self.unit != "switch"


def _count(default: int | None, unit: str, low: int, high: int) -> Rule:
    return Rule(default=default, unit=unit, low=low, high=high, is_optional=default is None)


def _share(default: float, unit: str = "share", low: float = 0, high: float = 1) -> Rule:
    return Rule(default=default, unit=unit, low=low, high=high)


def _switch(*, is_on: bool) -> Rule:
    return Rule(default=is_on, unit="switch")


def _names(default: str, *, refused: frozenset[str]) -> Rule:
    return Rule(default=default.split(), unit="names", most_names=50, refused_names=refused)


_PII = ("strip", "mask", "tag", "block", "hold", "allow")

RULES: Final[Mapping[str, Rule]] = {
    "guidelines_tokens": _count(200, "tokens", 0, 4000),
    "preferences_tokens": _count(400, "tokens", 0, 4000),
    "facts_tokens": _count(400, "tokens", 0, 4000),
    "core_tokens": _count(800, "tokens", 0, 4000),
    "core_chars": _count(1000, "characters", 0, 16_000),
    "core_facts": _count(30, "facts", 1, 200),
    "behaviour_tokens": _count(800, "tokens", 0, 4000),
    "behaviour_samples": _count(40, "samples", 0, 200),
    "thread_tokens": _count(2000, "tokens", 200, 16_000),
    "summary_tokens": _count(600, "tokens", 200, 16_000),
    "recent_tokens": _count(1200, "tokens", 200, 16_000),
    "recent_turns": _count(2, "turns", 0, 10),
    "summary_after_messages": _count(20, "messages", 4, 200),
    "idle_minutes": _count(30, "minutes", 1, 1440),
    "related_tokens": _count(700, "tokens", 0, 16_000),
    "related_chars": _count(2000, "characters", 0, 64_000),
    "reference_tokens": _count(1500, "tokens", 0, 16_000),
    "continue_tokens": _count(400, "tokens", 0, 16_000),
    "recall_top_k": _count(3, "items", 0, 20),
    "min_relevance": _share(0.2),
    "weight_relevance": _share(0.70),
    "weight_recency": _share(0.12),
    "weight_credence": _share(0.13),
    "weight_frequency": _share(0.05),
    "half_life_recall_days": _count(30, "days", 1, 3650),
    "half_life_item_days": _count(180, "days", 1, 3650),
    "half_life_knowledge_days": _count(365, "days", 1, 3650),
    "half_life_message_days": _count(30, "days", 1, 3650),
    "credence_fact": _share(1.0),
    "credence_approved": _share(0.95),
    "credence_stated": _share(0.8),
    "credence_observed": _share(0.6),
    "credence_material": _share(0.6),
    "credence_derived": _share(0.5),
    "credence_untrusted": _share(0.2),
    "freshness_fact_days": _count(1, "days", 1, 3650),
    "freshness_recall_days": _count(90, "days", 1, 3650),
    "freshness_knowledge_days": _count(365, "days", 1, 3650),
    "entity_factor_up": _share(1.1, "factor", 1, 10),
    "entity_cap": _share(5.0, "weight", 1, 100),
    "entity_factor_down": _share(0.9, "factor", 0, 1),
    "entity_floor": _share(0.1, "weight", 0, 1),
    "entity_idle_days": _count(90, "days", 1, 3650),
    "similar_key": _share(0.8, "similarity"),
    "long_tool_result_tokens": _count(1500, "tokens", 100, 64_000),
    "tool_rounds": _count(8, "rounds", 0, 32),
    "forest_head_turns": _count(1, "turns", 0, 10),
    "forest_tail_turns": _count(3, "turns", 1, 20),
    "forest_base_turns": _count(4, "turns", 1, 100),
    "forest_base_tokens": _count(25_000, "tokens", 200, 200_000),
    "forest_consolidation_k": _count(4, "nodes", 2, 32),
    "forest_node_tokens": _count(400, "tokens", 50, 4000),
    "exact_search_rows": _count(20_000, "rows", 0, 1_000_000),
    "retrieval_limit_ms": _count(300, "milliseconds", 10, 10_000),
    "writeback": _switch(is_on=True),
    "learn_from_turns": _switch(is_on=False),
    "extract_core": _switch(is_on=True),
    "extract_on_import": _switch(is_on=False),
    "archive_artifacts": _switch(is_on=False),
    "allow_facts": _switch(is_on=True),
    "four_eyes": _switch(is_on=False),
    "govern_with_write": _switch(is_on=False),
    "knowledge_admit": _switch(is_on=False),
    "erase_entities": _switch(is_on=True),
    "knowledge_kinds": _names(
        "article artifact faq handbook manual note policy reference report", refused=PROCESS_KINDS
    ),
    "retention_messages_days": _count(None, "days", 1, 36_500),
    "retention_recall_days": _count(None, "days", 1, 36_500),
    "retention_traces_days": _count(90, "days", 1, 36_500),
    "retention_audit_days": _count(None, "days", 1, 36_500),
    "pii_secrets": Rule(default="strip", unit="action", choices=("strip",)),
    "pii_identity": Rule(default="mask", unit="action", choices=_PII),
    "pii_contact": Rule(default="tag", unit="action", choices=_PII),
    "pii_sensitive": Rule(default="block", unit="action", choices=_PII),
    "pii_uncertain": Rule(default="hold", unit="action", choices=_PII),
}
# What no agent can have otherwise than its tenant: who decides, and what is kept how long.
TENANT_ONLY: Final = frozenset(
    "erase_entities four_eyes govern_with_write knowledge_admit knowledge_kinds"
    " retention_messages_days retention_recall_days retention_traces_days retention_audit_days".split()
)
_NAME: Final = re.compile(r"[a-z][a-z0-9_]{0,39}")
_WEIGHTS = ("weight_relevance", "weight_recency", "weight_credence", "weight_frequency")


@dataclass(frozen=True, slots=True)
class Policy:
    """The values that hold for one tenant or agent; every name of RULES is there."""

    values: Mapping[str, PolicyValue]

    def count(self, name: str) -> int:
        """Return a whole number of policy."""
        value = self.values[name]
        if not isinstance(value, int):
            raise InvalidPolicyError(f"{name} is not a whole number.", field=name)
        return value

    def share(self, name: str) -> float:
        """Return a number of policy that need not be whole."""
        value = self.values[name]
        if isinstance(value, bool) or not isinstance(value, int | float):
            raise InvalidPolicyError(f"{name} is not a number.", field=name)
        return float(value)

    def is_on(self, name: str) -> bool:
        """Return a switch of policy."""
        return self.values[name] is True

    def names(self, name: str) -> tuple[str, ...]:
        """Return a list of names of policy."""
        value = self.values[name]
        return tuple(value) if isinstance(value, list) else ()


def validate(overrides: Mapping[str, object]) -> dict[str, PolicyValue]:
    """Return the overrides with their types checked.

    Raises:
        InvalidPolicyError: An unknown name, a wrong type, a value out of bounds, or weights that
            do not sum to 1.
    """
    checked = {name: _checked(name, value) for name, value in overrides.items()}
    weights = [checked.get(name, RULES[name].default) for name in _WEIGHTS]
    if abs(sum(weight for weight in weights if isinstance(weight, int | float)) - 1) > 1e-6:
        raise InvalidPolicyError("The four weights must sum to 1.", field="weight_relevance")
    return checked


def _checked(name: str, value: object) -> PolicyValue:
    rule = RULES.get(name)
    if rule is None:
        raise InvalidPolicyError(f"There is no policy named {name[:64]!r}.", field=name[:64])
    if value is None and rule.is_optional:
        return None
    if rule.choices:
        return _checked_word(name, rule, value)
    if rule.most_names:
        return _checked_names(name, rule, value)
    if rule.unit == "switch":
        if not isinstance(value, bool):
            raise InvalidPolicyError(f"{name} is true or false.", field=name)
        return value
    return _checked_number(name, rule, value)


def _checked_word(name: str, rule: Rule, value: object) -> str:
    if not isinstance(value, str) or value not in rule.choices:
        raise InvalidPolicyError(f"{name} is one of: {', '.join(rule.choices)}.", field=name)
    return value


def _checked_names(name: str, rule: Rule, value: object) -> list[str]:
    if not isinstance(value, list) or len(value) > rule.most_names:
        detail = f"{name} is a list of at most {rule.most_names} names."
        raise InvalidPolicyError(detail, field=name)
    for one in value:
        if not isinstance(one, str) or not _NAME.fullmatch(one):
            detail = f"{name} holds names in snake_case, 1 to 40 letters each."
            raise InvalidPolicyError(detail, field=name)
        if one in rule.refused_names:
            raise InvalidPolicyError(f"{name} never holds {one!r}.", field=name)
    return sorted(set(value))


def _checked_number(name: str, rule: Rule, value: object) -> int | float:
    wants_whole = isinstance(rule.default, int) or rule.default is None
    is_number = isinstance(value, int if wants_whole else (int, float))
    if isinstance(value, bool) or not is_number or not isinstance(value, (int, float)):
        kind = "a whole number" if wants_whole else "a number"
        raise InvalidPolicyError(f"{name} is {kind} of {rule.unit}.", field=name)
    if not rule.low <= value <= rule.high:
        bounds = f"{rule.low:g} to {rule.high:g}"
        raise InvalidPolicyError(f"{name} is {bounds} {rule.unit}.", field=name)
    return value if wants_whole else float(value)


def effective(*layers: Mapping[str, PolicyValue]) -> Policy:
    """Return the policy that holds when each layer overrides the one before it."""
    values = {name: rule.default for name, rule in RULES.items()}
    for layer in layers:
        values.update({name: value for name, value in layer.items() if name in values})
    return Policy(values)
