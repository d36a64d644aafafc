"""Weights of entities by policy: up when a succeeded run names them, down when nobody does.

A person raises an entity once a day at most; what has been idle falls once in so many days, however
often anybody looks.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime

from governance import audit
from governance.policy import policy_for
from governance.policy_rules import Policy
from memory.retrieval.vocabulary import entities_named
from memory.rls import scoped_transaction
from memory.scope import Scope
from memory.store.weights import Fall, Hit, Rise, count_idle, lower_weights, raise_weights


@dataclass(frozen=True, slots=True, kw_only=True)
class DecayReport:
    """How many entities fell, or would.

    Attributes:
        decayed: How many.
        is_dry_run: Whether nothing was changed.
        factor: What their weight is multiplied by.
        floor: What it does not fall below.
        idle_days: How long they were idle at least.
    """

    decayed: int
    is_dry_run: bool
    factor: float
    floor: float
    idle_days: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Asked:
    """What was said in a succeeded run, and when."""

    end_user_id: str
    run_id: str
    text: str
    at: datetime


def count_hits(*, scope: Scope, asked: Asked, now: datetime) -> int:
    """Raise the weight of the active entities that a succeeded run's input names; return how many.

    Once a person and day (UTC, of the run). Inside the caller's transaction. Cost: one statement
    where it names none, else four.

    Args:
        scope: The tenant's, without a person.
        asked: The run's input.
        now: When it is counted.
    """
    named = entities_named(scope=scope, text=asked.text)
    if not named:
        return 0
    policy = policy_for(scope=scope, agent_overrides={})
    hit = Hit(
        end_user_id=asked.end_user_id,
        run_id=asked.run_id,
        at=asked.at,
        day=asked.at.astimezone(UTC).date(),
    )
    rise = Rise(factor=policy.share("entity_factor_up"), cap=policy.share("entity_cap"))
    return raise_weights(scope=scope, entity_ids=sorted(named), hit=hit, rise=rise, now=now)


def decay(*, scope: Scope, now: datetime, is_dry_run: bool = False) -> DecayReport:
    """Lower the weights of the tenant's idle entities, in one audited act; say how many fell.

    Cost: about five statements over the tenant's entities.

    Args:
        scope: The tenant's, without a person.
        now: When.
        is_dry_run: Only count.
    """
    with scoped_transaction(scope):
        fall = fall_of(policy_for(scope=scope, agent_overrides={}))
        if is_dry_run:
            fallen = count_idle(scope=scope, fall=fall, now=now)
        else:
            fallen = lower_weights(scope=scope, fall=fall, now=now)
        if fallen and not is_dry_run:
            audit.record(
                scope=scope,
                action="weights_decayed",
                target_kind="tenant",
                target_id=scope.tenant_id,
                now=now,
                detail={"entities": fallen, "idle_days": fall.days},
            )
    return DecayReport(
        decayed=fallen,
        is_dry_run=is_dry_run,
        factor=fall.factor,
        floor=fall.floor,
        idle_days=fall.days,
    )


def fall_of(policy: Policy) -> Fall:
    """Return how weights fall by policy."""
    return Fall(
        factor=policy.share("entity_factor_down"),
        floor=policy.share("entity_floor"),
        days=policy.count("entity_idle_days"),
    )
