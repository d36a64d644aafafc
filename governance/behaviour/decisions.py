"""Deciding about behaviour samples: approved, rejected, retired; each once, each audited.

Nothing here asks who may: the caller's scope says which samples there are.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime

from governance import audit
from governance.behaviour.problems import InstructionLikeError, NotApprovedError
from governance.behaviour.proposals import INSTRUCTION_LIKE
from governance.decisions import (
    MOST_REASON_CHARACTERS,
    AlreadyDecidedError,
    SecondApproverError,
)
from governance.policy import policy_for
from governance.secrets import strip_secrets
from memory.errors import NotFoundError
from memory.models import BehaviourSample, SampleStatus
from memory.rls import scoped_transaction
from memory.scope import Scope
from memory.store.samples import decide_sample, note_first_approval


@dataclass(frozen=True, slots=True, kw_only=True)
class _Verdict:
    before: str
    status: str
    action: str
    by: str
    reason: str = ""


def approve_sample(
    *, scope: Scope, sample_id: str, by: str, now: datetime, anyway: bool = False
) -> BehaviourSample:
    """Approve a sample that waits: from now on system prompts say it, with today's date.

    Under policy `four_eyes` the first approval is noted, and another principal's decides. Approving
    an approved one changes nothing. Cost: up to five statements.

    Raises:
        NotFoundError: There is none in scope.
        AlreadyDecidedError: It was rejected or retired.
        InstructionLikeError: It is flagged so, and `anyway` was not said.
        SecondApproverError: Whoever approved first can not be the second.
    """
    verdict = _Verdict(
        before=SampleStatus.PENDING,
        status=SampleStatus.APPROVED,
        action="sample_approved",
        by=by,
    )
    with scoped_transaction(scope):
        sample = _locked(scope, sample_id)
        if sample.status != SampleStatus.PENDING:
            return _already(sample, verdict)
        if INSTRUCTION_LIKE in sample.flags and not anyway:
            raise InstructionLikeError
        if policy_for(scope=scope, agent_overrides={}).is_on("four_eyes"):
            if not sample.first_approved_by:
                return _first(scope, sample, by, now)
            if sample.first_approved_by == by:
                raise SecondApproverError
        return _decide(scope, sample, verdict, now)


def reject_sample(
    *, scope: Scope, sample_id: str, by: str, reason: str, now: datetime
) -> BehaviourSample:
    """Reject a sample that waits; rejecting again changes nothing, the reason neither.

    Cost: up to four statements.

    Raises:
        NotFoundError: There is none in scope.
        AlreadyDecidedError: It was approved or retired; an approved one can be retired.
    """
    verdict = _Verdict(
        before=SampleStatus.PENDING,
        status=SampleStatus.REJECTED,
        action="sample_rejected",
        by=by,
        reason=strip_secrets(reason).text[:MOST_REASON_CHARACTERS],
    )
    with scoped_transaction(scope):
        sample = _locked(scope, sample_id)
        if sample.status != SampleStatus.PENDING:
            return _already(sample, verdict)
        return _decide(scope, sample, verdict, now)


def retire_sample(
    *, scope: Scope, sample_id: str, by: str, now: datetime, reason: str = ""
) -> BehaviourSample:
    """Take an approved sample out of every later prompt; retiring again changes nothing.

    Cost: up to four statements.

    Raises:
        NotFoundError: There is none in scope.
        NotApprovedError: It still waits.
        AlreadyDecidedError: It was rejected.
    """
    verdict = _Verdict(
        before=SampleStatus.APPROVED,
        status=SampleStatus.RETIRED,
        action="sample_retired",
        by=by,
        reason=strip_secrets(reason).text[:MOST_REASON_CHARACTERS],
    )
    with scoped_transaction(scope):
        sample = _locked(scope, sample_id)
        if sample.status == SampleStatus.PENDING:
            raise NotApprovedError
        if sample.status != SampleStatus.APPROVED:
            return _already(sample, verdict)
        return _decide(scope, sample, verdict, now)


def _locked(scope: Scope, sample_id: str) -> BehaviourSample:
    """Return a sample; whoever decides about it at the same time waits for this transaction."""
    rows = BehaviourSample.objects.in_scope(scope).filter(pk=sample_id)
    sample = rows.select_for_update(of=("self",)).first()
    if sample is None:
        raise NotFoundError
    return sample


def _already(sample: BehaviourSample, verdict: _Verdict) -> BehaviourSample:
    if sample.status != verdict.status:
        raise AlreadyDecidedError
    return sample


def _first(scope: Scope, sample: BehaviourSample, by: str, now: datetime) -> BehaviourSample:
    note_first_approval(scope=scope, sample_id=sample.pk, by=by, now=now)
    _audit(scope, "sample_first_approved", sample, by, now)
    return BehaviourSample.objects.in_scope(scope).get(pk=sample.pk)


def _decide(
    scope: Scope, sample: BehaviourSample, verdict: _Verdict, now: datetime
) -> BehaviourSample:
    is_mine = decide_sample(
        scope=scope,
        sample_id=sample.pk,
        before=verdict.before,
        status=verdict.status,
        by=verdict.by,
        now=now,
        reason=verdict.reason,
    )
    decided = BehaviourSample.objects.in_scope(scope).get(pk=sample.pk)
    if is_mine:
        _audit(scope, verdict.action, decided, verdict.by, now)
    return _already(decided, verdict)


def _audit(scope: Scope, action: str, sample: BehaviourSample, by: str, now: datetime) -> None:
    audit.record(
        scope=scope,
        action=action,
        target_kind="sample",
        target_id=sample.pk,
        now=now,
        detail={
            "kind": sample.kind,
            "agent_id": sample.agent_id or "",
            "decided_by": by,
            "flags": list(sample.flags),
        },
    )
