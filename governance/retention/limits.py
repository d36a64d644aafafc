"""Until when what was remembered is kept: policy's days as moments. Pure but for reading policy."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, timedelta

from governance.policy import policy_for
from governance.policy_rules import Policy
from memory.scope import Scope


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """What is older than these moments is due to go; None where it is kept for good.

    Attributes:
        items_before: Memory items whose own end lies before this.
        recall_before: Recall of turns that took place before this.
        traces_before: Traces of prompts made before this.
    """

    items_before: datetime
    recall_before: datetime | None
    traces_before: datetime | None


def limits_of(*, policy: Policy, now: datetime) -> Limits:
    """Return a tenant's limits as they stand now."""
    return Limits(
        items_before=now,
        recall_before=_before(policy, "retention_recall_days", now),
        traces_before=_before(policy, "retention_traces_days", now),
    )


def messages_before(*, policy: Policy, now: datetime) -> datetime | None:
    """Return before when turns are due to go, None where they are kept for good."""
    return _before(policy, "retention_messages_days", now)


def recall_limit(*, scope: Scope, now: datetime) -> datetime | None:
    """Return before when a tenant recalls nothing any more, None for no limit. Cost: one query.

    Inside the caller's transaction. It is the whole tenant's: no agent has another.
    """
    return limits_of(policy=policy_for(scope=scope, agent_overrides={}), now=now).recall_before


def _before(policy: Policy, name: str, now: datetime) -> datetime | None:
    return None if policy.values[name] is None else now - timedelta(days=policy.count(name))
