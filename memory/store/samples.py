"""The only writer of behaviour samples: what an agent's system prompt may say besides its own words.

Each function writes inside the caller's scoped transaction, by one conditional statement.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime

from memory.cleared import Cleared
from memory.models import BehaviourSample, SampleStatus
from memory.scope import Scope

_NOTHING = Cleared(text="", tier="stated")


@dataclass(frozen=True, slots=True, kw_only=True)
class NewSample:
    """A sample that waits for a decision.

    Attributes:
        kind: `rule` (content), `example` (input, output) or `intent` (name, content).
        sample_key: Hash of its folded words: one waiting or approved sample has it.
        origin: `api` or `staff`.
        agent_id: The agent it is for; None for all of the tenant's.
        flags: What the gate found about it, sorted.
    """

    kind: str
    sample_key: str
    origin: str
    tier: str
    agent_id: str | None = None
    name: Cleared = _NOTHING
    content: Cleared = _NOTHING
    input: Cleared = _NOTHING
    output: Cleared = _NOTHING
    flags: Sequence[str] = ()


def add_sample(*, scope: Scope, sample: NewSample, now: datetime) -> BehaviourSample | None:
    """Store a sample as waiting and return it; None where the same one waits or holds already.

    Cost: two statements.
    """
    rows = BehaviourSample.objects.get_queryset().unscoped(
        reason="insert in the scope's own tenant; its unique key and RLS decide"
    )
    row = BehaviourSample(
        tenant_id=scope.tenant_id,
        agent_id=sample.agent_id,
        kind=sample.kind,
        name=sample.name.text,
        content=sample.content.text,
        input=sample.input.text,
        output=sample.output.text,
        sample_key=sample.sample_key,
        tier=sample.tier,
        origin=sample.origin,
        proposed_by=scope.principal_id,
        flags=list(sample.flags),
        created_at=now,
        updated_at=now,
    )
    rows.bulk_create([row], ignore_conflicts=True)
    return BehaviourSample.objects.in_scope(scope).filter(pk=row.pk).first()


def note_first_approval(*, scope: Scope, sample_id: str, by: str, now: datetime) -> bool:
    """Note who approved first, where two are needed; whether it was this call. One statement."""
    rows = BehaviourSample.objects.in_scope(scope).filter(
        pk=sample_id, status=SampleStatus.PENDING, first_approved_by=""
    )
    return bool(rows.update(first_approved_by=by, updated_at=now))


def decide_sample(
    *,
    scope: Scope,
    sample_id: str,
    before: str,
    status: str,
    by: str,
    now: datetime,
    reason: str = "",
) -> bool:
    """Move a sample from one status to another; whether it was this call. One statement.

    An approved one is as trusted as whoever approved it; every other keeps its tier.
    """
    rows = BehaviourSample.objects.in_scope(scope).filter(pk=sample_id, status=before)
    tier = {"tier": "approved"} if status == SampleStatus.APPROVED else {}
    return bool(
        rows.update(
            status=status, decided_by=by, decided_at=now, reason=reason, updated_at=now, **tier
        )
    )
