"""Proposing a behaviour sample: its shape, the gate, its key; nothing takes effect by it."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Final, Literal

from governance import audit, gate
from governance.behaviour.problems import (
    SampleRefusedError,
    SampleShapeError,
    SampleTooLongError,
)
from governance.policy import policy_for
from governance.policy_rules import Policy
from memory.cleared import Cleared
from memory.compression.folding import fold
from memory.models import BehaviourSample, SampleKind, SampleStatus
from memory.rls import scoped_transaction
from memory.scope import Scope
from memory.store.samples import NewSample, add_sample

INSTRUCTION_LIKE: Final = "instruction_like"
PERSONAL: Final = "personal"
MOST_NAME_CHARACTERS: Final = 120
MOST_CHARACTERS: Final = 4000
PARTS: Final[Mapping[str, tuple[str, ...]]] = {
    SampleKind.RULE: ("content",),
    SampleKind.EXAMPLE: ("input", "output"),
    SampleKind.INTENT: ("name", "content"),
}
_TIER: Final = "stated"
_BETWEEN: Final = "\x1f"  # in no text: control characters fold away


@dataclass(frozen=True, slots=True, kw_only=True)
class Proposal:
    """What somebody wants an agent to do from now on.

    Attributes:
        kind: `rule`, `example` or `intent`; which parts it has follows from that.
        origin: Whether a key or a member of staff proposes it.
        agent_id: The agent it is for, known to be in scope; None for all of the tenant's.
    """

    kind: str
    origin: Literal["api", "staff"]
    agent_id: str | None = None
    name: str = ""
    content: str = ""
    input: str = ""
    output: str = ""


def propose_sample(
    *, scope: Scope, proposal: Proposal, now: datetime
) -> tuple[BehaviourSample, bool]:
    """Store a proposal as waiting; return it, and whether it is new.

    The same words for the same agent, waiting or approved, are the sample there is. A text with
    marks of roles or orders to forget is kept as evidence: untrusted and flagged. Cost: up to five
    statements.

    Raises:
        SampleShapeError: Parts are missing, or do not belong to its kind.
        SampleTooLongError: A part is too long.
        SampleRefusedError: The gate lets a part not through.
    """
    parts = _parts_of(proposal)
    with scoped_transaction(scope):
        policy = policy_for(scope=scope, agent_overrides={})
    cleared = {name: _through_the_gate(name, text, policy) for name, text in parts.items()}
    sample = NewSample(
        kind=proposal.kind,
        sample_key=_key(cleared),
        origin=proposal.origin,
        tier=_tier(cleared),
        agent_id=proposal.agent_id,
        flags=_flags(cleared),
        **cleared,
    )
    with scoped_transaction(scope):
        new = add_sample(scope=scope, sample=sample, now=now)
        if new is None:
            return _same_as(scope, sample), False
        _audit(scope, new, cleared, now)
    return new, True


def _parts_of(proposal: Proposal) -> dict[str, str]:
    """Return the parts its kind has, none of them empty.

    Raises:
        SampleShapeError: One is missing, or there is one too many.
    """
    wanted = PARTS.get(proposal.kind)
    if wanted is None:
        raise SampleShapeError(field="kind")
    given = {name: getattr(proposal, name) for name in ("name", "content", "input", "output")}
    for name, text in given.items():
        if bool(text.strip()) != (name in wanted):
            raise SampleShapeError(field=name)
    return {name: given[name] for name in wanted}


def _through_the_gate(name: str, text: str, policy: Policy) -> Cleared:
    most = MOST_NAME_CHARACTERS if name == "name" else MOST_CHARACTERS
    passed = gate.admit(
        text=text.strip(), tier=_TIER, policy=policy, most_characters=most, redlines="block"
    )
    if isinstance(passed, Cleared):
        return passed
    if passed.reason == "too_long":
        raise SampleTooLongError(f"{name} has at most {most:,} characters.", field=name)
    raise SampleRefusedError


def _key(cleared: Mapping[str, Cleared]) -> str:
    """Return what is equal of two samples that say the same, whatever their width and case."""
    said = _BETWEEN.join(f"{name}={fold(part.text)}" for name, part in sorted(cleared.items()))
    return hashlib.sha256(said.encode()).hexdigest()


def _tier(cleared: Mapping[str, Cleared]) -> str:
    is_untrusted = any(part.tier == gate.UNTRUSTED for part in cleared.values())
    return gate.UNTRUSTED if is_untrusted else _TIER


def _flags(cleared: Mapping[str, Cleared]) -> tuple[str, ...]:
    """Return what whoever decides should see at once; `is_held` is no matter: all of them wait."""
    flags = set()
    if any(part.markers for part in cleared.values()):
        flags.add(INSTRUCTION_LIKE)
    if any(part.pii or part.is_held for part in cleared.values()):
        flags.add(PERSONAL)
    return tuple(sorted(flags))


def _same_as(scope: Scope, sample: NewSample) -> BehaviourSample:
    rows = BehaviourSample.objects.in_scope(scope).filter(
        agent_id=sample.agent_id, kind=sample.kind, sample_key=sample.sample_key
    )
    live = rows.filter(status__in=[SampleStatus.PENDING, SampleStatus.APPROVED])
    return live.order_by("id")[0]


def _audit(
    scope: Scope, sample: BehaviourSample, cleared: Mapping[str, Cleared], now: datetime
) -> None:
    audit.record(
        scope=scope,
        action="sample_proposed",
        target_kind="sample",
        target_id=sample.pk,
        now=now,
        detail={"kind": sample.kind, "agent_id": sample.agent_id or "", "flags": sample.flags},
    )
    gate.record_written(
        scope=scope,
        kind="sample",
        target_id=sample.pk,
        cleared=list(cleared.values()),
        now=now,
        origin=sample.origin,
    )
