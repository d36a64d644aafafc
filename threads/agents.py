"""Making, changing and retiring agents."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from typing import Any, Final, TypedDict

from governance import access, audit
from governance.access import ForbiddenError, Principal
from governance.policy import changed_detail, tenant_overrides
from governance.policy_rules import (
    TENANT_ONLY,
    InvalidPolicyError,
    PolicyValue,
    effective,
    validate,
)
from governance.tenants import same_in_any_form
from memory.errors import ConflictError, InvalidInputError, NotFoundError
from memory.ledger import target_budget
from memory.rls import scoped_transaction
from memory.scope import Scope
from threads.models import Agent, Locality, Provider, Run, ThreadStrategy

KNOWN_TOOLS: Final = (
    "memory_search",
    "memory_grep",
    "memory_upsert",
    "view_message",
    "view_chat_history_summary",
    "kb_search",
    "write_artifact",
)
STRATEGIES: Final = ("rolling", "lossless")
MAX_DEFAULT_OUTPUT_TOKENS: Final = 1024
LEAST_CONTEXT_WINDOW: Final = 1024
LEAST_TARGET_TOKENS: Final = 256


class NameTakenError(ConflictError):
    """That name is in use."""

    code = "name_taken"


class AgentInactiveError(ConflictError):
    """The agent was deactivated; it can not be changed any more."""

    code = "agent_inactive"


class UnknownProviderError(InvalidInputError):
    """There is no such provider."""

    code = "unknown_provider"


class FallbackNotAllowedError(InvalidInputError):
    """The memory fallback must be local, or a cloud provider of the same vendor."""

    code = "fallback_not_allowed"


class AgentValues(TypedDict, total=False):
    """What can be said of an agent; all but the first four have defaults."""

    name: str
    provider_id: str
    model: str
    context_window: int
    max_output_tokens: int
    system_prompt: str
    language: str
    role: str
    thread_strategy: str
    tools: list[str]
    memory_fallback_provider_id: str | None
    policy: Mapping[str, Any]


def read_agent(*, scope: Scope, agent_id: str) -> Agent:
    """Return an agent, also a deactivated one. Cost: one query.

    Raises:
        NotFoundError: There is none in scope.
    """
    with scoped_transaction(scope):
        return _find(scope, agent_id)


def create_agent(*, scope: Scope, values: AgentValues, now: datetime) -> Agent:
    """Make an agent; `max_output_tokens` defaults to 1,024 or a quarter of the window, audited.

    Raises:
        NameTakenError: An active agent of the tenant has the name.
        UnknownProviderError: A provider is not in scope.
        FallbackNotAllowedError: Memory work would go to a vendor it may not go to.
        InvalidPolicyError: An override is unknown or out of bounds.
        InvalidInputError: The window is below 1,024 tokens, or the answer would not fit it.
    """
    with scoped_transaction(scope):
        agent = Agent(tenant_id=scope.tenant_id, created_at=now)
        agent.max_output_tokens = default_output_tokens(values["context_window"])
        _apply(scope, agent, values, now)
        agent.save(force_insert=True)
        _audit(scope, "agent_created", agent, now, sorted(values), before={})
    return agent


def update_agent(*, scope: Scope, agent_id: str, values: AgentValues, now: datetime) -> Agent:
    """Change an agent; runs on their way keep the settings they began with. Audited.

    Raises:
        NotFoundError: There is none in scope.
        AgentInactiveError: It was deactivated.
        CredenceError: As `create_agent`.
    """
    with scoped_transaction(scope):
        agent = _find(scope, agent_id, is_locked=True)
        if not agent.is_active:
            raise AgentInactiveError
        before = dict(agent.policy)
        _apply(scope, agent, values, now)
        agent.save()
        _audit(scope, "agent_updated", agent, now, sorted(values), before=before)
    return agent


def delete_agent(*, scope: Scope, agent_id: str, now: datetime) -> Agent | None:
    """Delete an agent without threads and runs, deactivate any other; audited.

    Returns:
        The deactivated agent, or None where nothing is left of it.

    Raises:
        NotFoundError: There is none in scope.
    """
    with scoped_transaction(scope):
        agent = _find(scope, agent_id, is_locked=True)
        if not _is_used(scope, agent):
            _audit(scope, "agent_deleted", agent, now, [])
            agent.delete()
            return None
        if agent.is_active:
            agent.is_active, agent.updated_at = False, now
            agent.save(update_fields=["is_active", "updated_at"])
            _audit(scope, "agent_deactivated", agent, now, [])
    return agent


def default_output_tokens(context_window: int) -> int:
    """Return how many tokens an answer may have where nobody said."""
    return min(MAX_DEFAULT_OUTPUT_TOKENS, context_window // 4)


def _find(scope: Scope, agent_id: str, *, is_locked: bool = False) -> Agent:
    rows = Agent.objects.in_scope(scope)
    agent = (rows.select_for_update() if is_locked else rows).filter(pk=agent_id).first()
    if agent is None:
        raise NotFoundError
    return agent


def _is_used(scope: Scope, agent: Agent) -> bool:
    has_runs = Run.objects.in_scope(scope).filter(agent_id=agent.pk).exists()
    return has_runs or agent.threads.in_scope(scope).exists()


def _apply(scope: Scope, agent: Agent, values: AgentValues, now: datetime) -> None:
    _check_parts(values)
    for name, value in values.items():
        setattr(agent, name, value)
    agent.name = same_in_any_form(agent.name)
    agent.updated_at = now
    if any(not letter.isprintable() for letter in agent.role):
        raise InvalidInputError("A role is one line of printable characters.", field="role")
    _check_name(scope, agent)
    _check_providers(scope, agent)
    if agent.context_window < LEAST_CONTEXT_WINDOW:
        raise InvalidInputError(
            f"A context window has at least {LEAST_CONTEXT_WINDOW:,} tokens.",
            field="context_window",
        )
    if not 1 <= agent.max_output_tokens < agent.context_window:
        raise InvalidInputError(
            "The answer's tokens must be fewer than the window's.", field="max_output_tokens"
        )
    target = target_budget(
        context_window=agent.context_window, max_output_tokens=agent.max_output_tokens
    )
    if target < LEAST_TARGET_TOKENS:
        raise InvalidInputError(
            f"This leaves a prompt {target:,} tokens; at least {LEAST_TARGET_TOKENS:,} are needed:"
            " lower max_output_tokens or take a larger window.",
            field="max_output_tokens",
        )
    agent.policy = _checked_policy(scope, agent.policy)


def _check_parts(values: AgentValues) -> None:
    """Refuse what there is not, rather than take it and do nothing."""
    strategy = values.get("thread_strategy", ThreadStrategy.ROLLING)
    if strategy not in STRATEGIES:
        detail = f"A thread strategy is one of: {', '.join(STRATEGIES)}."
        raise InvalidInputError(detail, field="thread_strategy")
    tools = values.get("tools", [])
    if not set(tools) <= set(KNOWN_TOOLS):
        raise InvalidInputError(f"Tools are of: {', '.join(KNOWN_TOOLS)}.", field="tools")
    if len(set(tools)) != len(tools):
        raise InvalidInputError("Name each tool once.", field="tools")


def _check_name(scope: Scope, agent: Agent) -> None:
    others = Agent.objects.in_scope(scope).filter(name=agent.name, is_active=True)
    if others.exclude(pk=agent.pk).exists():
        raise NameTakenError("An active agent has that name.")


def _check_providers(scope: Scope, agent: Agent) -> None:
    own = _provider(scope, agent.provider_id, field="provider_id")
    if agent.memory_fallback_provider_id is None:
        return
    field = "memory_fallback_provider_id"
    fallback = _provider(scope, agent.memory_fallback_provider_id, field=field)
    is_same_cloud = own.locality == Locality.CLOUD and bool(own.vendor)
    is_same_cloud = is_same_cloud and own.vendor == fallback.vendor
    if fallback.locality != Locality.LOCAL and not is_same_cloud:
        raise FallbackNotAllowedError(field=field)


def _provider(scope: Scope, provider_id: str, *, field: str) -> Provider:
    found = Provider.objects.in_scope(scope).filter(pk=provider_id, is_active=True).first()
    if found is None:
        raise UnknownProviderError(field=field)
    return found


def _checked_policy(scope: Scope, overrides: Mapping[str, Any]) -> dict[str, PolicyValue]:
    """Return the overrides, which must hold on top of what the tenant changed.

    Raises:
        InvalidPolicyError: They do not hold, or one is the whole tenant's.
    """
    for name in sorted(TENANT_ONLY.intersection(overrides)):
        raise InvalidPolicyError(
            f"{name} holds for the whole tenant, not for one agent.", field=name
        )
    merged = validate({**tenant_overrides(scope=scope), **overrides})
    return {name: merged[name] for name in overrides}


def _audit(
    scope: Scope,
    action: str,
    agent: Agent,
    now: datetime,
    names: list[str],
    *,
    before: Mapping[str, PolicyValue] | None = None,
) -> None:
    """Record an act on an agent: names of what was written, of its policy the values too."""
    detail: dict[str, int | str | bool | list[str]] = {"names": names} if names else {}
    if before is not None and "policy" in names:
        tenants = tenant_overrides(scope=scope)
        changed = changed_detail(
            before=effective(tenants, before),
            after=effective(tenants, agent.policy),
            names={*before, *agent.policy},
        )
        detail["policy"] = changed["changes"]
    audit.record(
        scope=scope,
        action=action,
        target_kind="agent",
        target_id=agent.pk,
        now=now,
        detail=detail or None,
    )


def role_within_reach(*, principal: Principal, role: str | None) -> str | None:
    """Return the role that a key looks into: of one limited to an agent, that agent's and no other.

    Cost: no query, one for such a key.

    Raises:
        NotFoundError: Its agent is gone.
        ForbiddenError: Another role is asked for.
    """
    if principal.agent_id is None:
        return role
    scope = access.tenant_scope(principal)
    with scoped_transaction(scope):
        own = Agent.objects.in_scope(scope).filter(pk=principal.agent_id)
        only = own.values_list("role", flat=True).first()
    if only is None:
        raise NotFoundError
    if role not in (None, only):
        raise ForbiddenError("This key is limited to an agent of another role.")
    return only
