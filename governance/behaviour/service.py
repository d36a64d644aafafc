"""Behaviour samples as far as a key reaches.

A sample concerns everybody an agent talks to, so a key that is limited to one person may look at
samples and decide nothing about them; a key that is limited to one agent knows that agent's and
the tenant's own, and writes for its agent alone.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from datetime import datetime

from django.db.models import Q

from governance import access
from governance.access import ForbiddenError, Principal
from governance.behaviour import decisions
from governance.behaviour.proposals import Proposal, propose_sample
from memory.errors import NotFoundError
from memory.models import BehaviourSample
from memory.querysets import ScopedQuerySet
from memory.rls import scoped_transaction
from memory.scope import Scope


@dataclass(frozen=True, slots=True, kw_only=True)
class Filters:
    """Which samples to list; those of an agent are its own and the tenant's."""

    agent_id: str | None = None
    status: str | None = None
    kind: str | None = None


def propose(
    *, principal: Principal, proposal: Proposal, now: datetime
) -> tuple[BehaviourSample, bool]:
    """Propose a sample; return it, and whether it is new.

    Raises:
        ForbiddenError: The key may not write for all of that agent's people.
        SampleShapeError: As `propose_sample`; so are SampleTooLongError and SampleRefusedError.
    """
    _require_to_change(principal, proposal.agent_id)
    scope = access.tenant_scope(principal)
    return propose_sample(scope=scope, proposal=replace(proposal, origin="api"), now=now)


def samples_of(*, principal: Principal, filters: Filters) -> ScopedQuerySet[BehaviourSample]:
    """Return the query of the samples in reach."""
    rows = _shown_to(principal, access.tenant_scope(principal))
    if filters.agent_id:
        rows = rows.filter(Q(agent_id=filters.agent_id) | Q(agent_id__isnull=True))
    if filters.status:
        rows = rows.filter(status=filters.status)
    return rows.filter(kind=filters.kind) if filters.kind else rows


def approve(
    *, principal: Principal, sample_id: str, now: datetime, anyway: bool = False
) -> BehaviourSample:
    """Approve a sample for the staff. Raises as `approve_sample`, or ForbiddenError.

    Raises:
        ForbiddenError: It is seen by this key, but concerns others as well.
    """
    scope = _scope_to_decide(principal, sample_id)
    return decisions.approve_sample(
        scope=scope, sample_id=sample_id, by=principal.id, now=now, anyway=anyway
    )


def reject(*, principal: Principal, sample_id: str, reason: str, now: datetime) -> BehaviourSample:
    """Reject a sample for the staff. Raises as `reject_sample`, or ForbiddenError.

    Raises:
        ForbiddenError: It is seen by this key, but concerns others as well.
    """
    scope = _scope_to_decide(principal, sample_id)
    return decisions.reject_sample(
        scope=scope, sample_id=sample_id, by=principal.id, reason=reason, now=now
    )


def retire(*, principal: Principal, sample_id: str, reason: str, now: datetime) -> BehaviourSample:
    """Retire a sample for the staff. Raises as `retire_sample`, or ForbiddenError.

    Raises:
        ForbiddenError: It is seen by this key, but concerns others as well.
    """
    scope = _scope_to_decide(principal, sample_id)
    return decisions.retire_sample(
        scope=scope, sample_id=sample_id, by=principal.id, reason=reason, now=now
    )


def _shown_to(principal: Principal, scope: Scope) -> ScopedQuerySet[BehaviourSample]:
    rows = BehaviourSample.objects.in_scope(scope)
    if principal.agent_id is None:
        return rows
    return rows.filter(Q(agent_id=principal.agent_id) | Q(agent_id__isnull=True))


def _scope_to_decide(principal: Principal, sample_id: str) -> Scope:
    scope = access.tenant_scope(principal)
    with scoped_transaction(scope):
        sample = _shown_to(principal, scope).filter(pk=sample_id).first()
    if sample is None:
        raise NotFoundError
    _require_to_change(principal, sample.agent_id)
    return scope


def _require_to_change(principal: Principal, agent_id: str | None) -> None:
    access.require_act_for_anybody(principal=principal)
    if principal.agent_id not in (None, agent_id):
        raise ForbiddenError("This key is limited to another agent.")
