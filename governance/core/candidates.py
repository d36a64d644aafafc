"""Candidates for core memory: added and seen again, confirmed, rejected, let wait again.

Nothing here asks who may: the caller's scope says which candidates there are. `confirm_candidate`
is the only way to a core fact; the database demands the confirmed candidate besides.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Final

from governance import audit, gate
from governance.core import capacity
from governance.core.clearing import StatedFact, fact_key, require_clear, subject_key
from governance.core.problems import SameFactError
from governance.core.words import share_said
from governance.decisions import (
    MOST_REASON_CHARACTERS,
    AlreadyDecidedError,
    DecidedBy,
    SecondApproverError,
)
from governance.models import CandidateStatus, CoreCandidate
from governance.policy import policy_for
from governance.policy_rules import Policy
from governance.secrets import strip_secrets
from memory.errors import NotFoundError
from memory.models import CoreFact, FactEnd
from memory.querysets import ScopedQuerySet
from memory.rls import scoped_transaction
from memory.scope import Scope
from memory.store import candidates as store
from memory.store import core_facts
from memory.store.candidates import ClearedFact, NewCandidate, Verdict

_NEAR: Final = 0.5  # share of words from which a fact is shown as a similar one
_MOST_SIMILAR: Final = 10


@dataclass(frozen=True, slots=True, kw_only=True)
class Added:
    """A candidate and whether it is new; None where a fact whose candidate is gone says the same."""

    candidate: CoreCandidate | None
    is_new: bool


def add_candidate(
    *, scope: Scope, end_user_id: str, stated: StatedFact, policy: Policy, now: datetime
) -> Added:
    """Let a fact about a person wait for a decision, whoever states it; the gate is asked here.

    What waits already is counted as seen again, what was rejected stays so, and of what holds as a
    fact the decided candidate comes back. Cost: five statements.

    Raises:
        FactEmptyError: It says nothing.
        FactTooLongError: It has more than 120 characters.
        FactRefusedError: It names what must not be remembered.
        IntegrityError: Its run has not succeeded.
    """
    cleared = require_clear(stated=stated, policy=policy)
    with scoped_transaction(scope):
        return add_cleared(
            scope=scope, end_user_id=end_user_id, stated=stated, cleared=cleared, now=now
        )


def add_cleared(
    *, scope: Scope, end_user_id: str, stated: StatedFact, cleared: ClearedFact, now: datetime
) -> Added:
    """As `add_candidate`, inside the caller's transaction, of what the gate let through before.

    Raises:
        IntegrityError: Its run has not succeeded.
    """
    core_facts.lock_core(scope=scope, end_user_id=end_user_id)
    same = capacity.holding(scope=scope, end_user_id=end_user_id).filter(fact_key=cleared.key)
    fact = same.first()
    rows = CoreCandidate.objects.in_scope(scope)
    if fact is not None:
        return Added(candidate=rows.filter(pk=fact.candidate_id).first(), is_new=False)
    new = NewCandidate(
        end_user_id=end_user_id,
        cleared=cleared,
        origin=stated.origin,
        proposed_by=stated.by,
        confidence=min(max(stated.confidence, 0.0), 1.0),
        run_id=stated.run_id,
    )
    candidate_id, is_new = store.add_candidate(scope=scope, new=new, now=now)
    if is_new:
        gate.record_written(
            scope=scope,
            kind="core_candidate",
            target_id=candidate_id,
            cleared=cleared.texts,
            now=now,
            run_id=stated.run_id,
            origin=stated.origin,
        )
    return Added(candidate=rows.get(pk=candidate_id), is_new=is_new)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Confirmation:
    """What confirms a candidate: its row, locked, its words through the gate, and by whom."""

    scope: Scope
    candidate: CoreCandidate
    cleared: ClearedFact
    by: DecidedBy
    policy: Policy
    now: datetime
    may_evict: bool
    is_edited: bool


def confirm_candidate(
    *,
    scope: Scope,
    candidate_id: str,
    by: DecidedBy,
    now: datetime,
    fact: str | None = None,
    may_evict: bool = False,
) -> tuple[CoreCandidate, CoreFact | None]:
    """Confirm a candidate, in other words if `fact` is given; it holds from now on.

    The gate is asked again. Facts of the same subject hold until now. Confirming again changes
    nothing. Where policy wants two approvers, the first one's approval leaves it waiting, and there
    is no fact yet; other words are approved anew. Cost: about twenty statements.

    Args:
        scope: The tenant's or the person's.
        candidate_id: The candidate.
        by: Who decides.
        now: When.
        fact: The fact in other words.
        may_evict: Whether the least recently used facts end where core memory is full.

    Raises:
        NotFoundError: There is none in scope.
        AlreadyDecidedError: It was rejected, or confirmed in other words.
        SecondApproverError: This principal has approved it already.
        CoreFullError: There is no room, and nothing may be evicted.
        FactTooLongError: It has more than 120 characters.
        FactRefusedError: It names what must not be remembered.
    """
    with scoped_transaction(scope):
        candidate = _locked(scope, candidate_id)
        if candidate.status == CandidateStatus.CONFIRMED:
            return candidate, _fact_of(scope, candidate, said=fact)
        _require_waiting(candidate)
        policy = policy_for(scope=scope, agent_overrides={})
        cleared = _cleared(candidate, fact, policy)
        confirmation = _Confirmation(
            scope=scope,
            candidate=candidate,
            cleared=cleared,
            by=by,
            policy=policy,
            now=now,
            may_evict=may_evict,
            is_edited=cleared.fact.text != candidate.fact,
        )
        if _waits_for_second(confirmation):
            return _read(scope, candidate_id), None
        made = _confirm_waiting(confirmation)
        return _read(scope, candidate_id), made


def reject_candidate(
    *, scope: Scope, candidate_id: str, by: DecidedBy, reason: str, now: datetime
) -> CoreCandidate:
    """Reject a candidate; seen again, it stays rejected. Rejecting again changes nothing.

    Cost: five statements.

    Raises:
        NotFoundError: There is none in scope.
        AlreadyDecidedError: It was confirmed; the fact can be deleted.
    """
    kept = strip_secrets(reason).text[:MOST_REASON_CHARACTERS]
    verdict = Verdict(status=CandidateStatus.REJECTED, by_kind=by.kind, by_id=by.id, reason=kept)
    with scoped_transaction(scope):
        candidate = _locked(scope, candidate_id)
        if candidate.status == CandidateStatus.REJECTED:
            return candidate
        _require_waiting(candidate)
        store.decide_candidate(scope=scope, candidate_id=candidate_id, verdict=verdict, now=now)
        _audit(scope, "core_candidate_rejected", candidate, now, {"decided_by": by.kind})
        return _read(scope, candidate_id)


def reopen_candidate(*, scope: Scope, candidate_id: str, now: datetime) -> CoreCandidate:
    """Let a rejected candidate wait again; one that waits already is left as it is.

    Raises:
        NotFoundError: There is none in scope.
        AlreadyDecidedError: It was confirmed.
        SameFactError: What it says holds as a fact meanwhile.
    """
    with scoped_transaction(scope):
        candidate = _locked(scope, candidate_id)
        if candidate.status == CandidateStatus.PENDING:
            return candidate
        if candidate.status == CandidateStatus.CONFIRMED:
            raise AlreadyDecidedError
        held = capacity.holding(scope=scope, end_user_id=candidate.end_user_id)
        if held.filter(fact_key=candidate.fact_key).exists():
            raise SameFactError
        store.reopen_candidate(scope=scope, candidate_id=candidate_id)
        _audit(scope, "core_candidate_reopened", candidate, now, {})
        return _read(scope, candidate_id)


def similar_facts(*, scope: Scope, candidate: CoreCandidate) -> list[CoreFact]:
    """Return the facts that a candidate would end (same subject), then those much like it.

    Inside the caller's transaction. Cost: one query.
    """
    held = list(capacity.holding(scope=scope, end_user_id=candidate.end_user_id))
    ended = conflicts_of(candidate=candidate, facts=held)
    near = [
        (share, fact)
        for fact in held
        if fact not in ended and (share := _likeness(candidate.fact, fact.fact)) >= _NEAR
    ]
    near.sort(key=lambda one: (one[0], one[1].pk), reverse=True)
    return [*ended, *(fact for _, fact in near)][:_MOST_SIMILAR]


def conflicts_of(*, candidate: CoreCandidate, facts: Sequence[CoreFact]) -> list[CoreFact]:
    """Return which facts would end with a candidate's confirmation: same subject, other words."""
    subject = subject_key(candidate.subject)
    if not subject:
        return []
    same = [fact for fact in facts if subject_key(fact.subject) == subject]
    return [fact for fact in same if fact.fact_key != candidate.fact_key]


def waiting(*, scope: Scope, end_user_id: str) -> ScopedQuerySet[CoreCandidate]:
    """Return the query of a person's candidates that wait, the likeliest first."""
    rows = CoreCandidate.objects.in_scope(scope).filter(end_user_id=end_user_id)
    return rows.filter(status=CandidateStatus.PENDING).order_by("-confidence", "-id")


def _likeness(first: str, second: str) -> float:
    return min(share_said(fact=first, said=second), share_said(fact=second, said=first))


def _locked(scope: Scope, candidate_id: str) -> CoreCandidate:
    """Return a candidate, its person's core memory locked until the transaction ends."""
    rows = CoreCandidate.objects.in_scope(scope).filter(pk=candidate_id)
    end_user_id = rows.values_list("end_user_id", flat=True).first()
    if end_user_id is None:
        raise NotFoundError
    core_facts.lock_core(scope=scope, end_user_id=end_user_id)
    candidate = rows.select_related("end_user").first()
    if candidate is None:
        raise NotFoundError
    return candidate


def _read(scope: Scope, candidate_id: str) -> CoreCandidate:
    return CoreCandidate.objects.in_scope(scope).select_related("end_user").get(pk=candidate_id)


def _fact_of(scope: Scope, candidate: CoreCandidate, *, said: str | None) -> CoreFact | None:
    made = CoreFact.objects.in_scope(scope).filter(pk=candidate.decided_fact).first()
    if made and said and fact_key(said) != made.fact_key:
        raise AlreadyDecidedError("This was confirmed in other words; change the fact instead.")
    return made


def _require_waiting(candidate: CoreCandidate) -> None:
    if candidate.status != CandidateStatus.PENDING:
        raise AlreadyDecidedError


def _cleared(candidate: CoreCandidate, fact: str | None, policy: Policy) -> ClearedFact:
    """Return what is confirmed as the gate of today lets it through."""
    stated = StatedFact(
        fact=candidate.fact if fact is None else fact,
        subject=candidate.subject,
        origin=candidate.origin,
        by=candidate.proposed_by,
    )
    return require_clear(stated=stated, policy=policy)


def _waits_for_second(given: _Confirmation) -> bool:
    """Note the first of two approvals, if policy wants two and this is the first of these words."""
    if given.by.kind != "staff" or not given.policy.is_on("four_eyes"):
        return False
    candidate = given.candidate
    if candidate.first_approved_by and not given.is_edited:
        if candidate.first_approved_by == given.by.id:
            raise SecondApproverError
        return False
    others = CoreCandidate.objects.in_scope(given.scope).exclude(pk=candidate.pk)
    same = others.filter(end_user_id=candidate.end_user_id, fact_key=given.cleared.key)
    if same.exclude(status=CandidateStatus.CONFIRMED).exists():
        raise SameFactError
    store.approve_first(
        scope=given.scope, candidate_id=candidate.pk, cleared=given.cleared, by=given.by.id
    )
    detail = {"is_edited": given.is_edited}
    _audit(given.scope, "core_candidate_approved_first", candidate, given.now, detail)
    return True


def _confirm_waiting(given: _Confirmation) -> CoreFact:
    """Decide the candidate and let its fact hold; what holds already in the same words stays."""
    scope, candidate, now = given.scope, given.candidate, given.now
    held = list(capacity.holding(scope=scope, end_user_id=candidate.end_user_id))
    same = next((fact for fact in held if fact.fact_key == given.cleared.key), None)
    fact_id = same.pk if same else core_facts.new_fact_id()
    subject = subject_key(given.cleared.subject_text)
    ended = [one for one in held if same is None and subject == (subject_key(one.subject) or None)]
    room = capacity.Room(
        facts=[one for one in held if one not in ended],
        most_facts=given.policy.count("core_facts"),
        most_characters=given.policy.count("core_chars"),
    )
    evicted = []
    if same is None:
        evicted = room.make(len(given.cleared.fact.text), may_evict=given.may_evict)
    verdict = Verdict(
        status=CandidateStatus.CONFIRMED,
        by_kind=given.by.kind,
        by_id=given.by.id,
        fact_id=fact_id,
    )
    store.decide_candidate(scope=scope, candidate_id=candidate.pk, verdict=verdict, now=now)
    made = same or _let_hold(given, fact_id)
    core_facts.end_facts(
        scope=scope, facts=ended, reason=FactEnd.SUPERSEDED, now=now, superseded_by=fact_id
    )
    core_facts.end_facts(scope=scope, facts=evicted, reason=FactEnd.EVICTED, now=now)
    ids = {"superseded": [one.pk for one in ended], "evicted": [one.pk for one in evicted]}
    told: audit.Detail = {"fact": fact_id, "decided_by": given.by.kind}
    told |= {"is_edited": given.is_edited, **ids}
    _audit(scope, "core_candidate_confirmed", candidate, now, told)
    return made


def _let_hold(given: _Confirmation, fact_id: str) -> CoreFact:
    """Store the fact, with the audit row of a long-term write."""
    candidate, cleared = given.candidate, given.cleared
    is_untrusted = cleared.tier == gate.UNTRUSTED
    made = core_facts.add_fact(
        scope=given.scope,
        now=given.now,
        new=core_facts.NewFact(
            id=fact_id,
            end_user_id=candidate.end_user_id,
            candidate_id=candidate.pk,
            cleared=cleared,
            tier=gate.UNTRUSTED if is_untrusted else "approved",
            origin=candidate.origin,
            confidence=1.0,  # a person said so; how sure a model was stays with the candidate
            decided_by_kind=given.by.kind,
            decided_by_id=given.by.id,
            run_id=candidate.run_id,
        ),
    )
    gate.record_written(
        scope=given.scope,
        kind="core_fact",
        target_id=fact_id,
        cleared=cleared.texts,
        now=given.now,
        run_id=candidate.run_id,
        origin=candidate.origin,
    )
    return made


def _audit(
    scope: Scope,
    action: str,
    candidate: CoreCandidate,
    now: datetime,
    detail: Mapping[str, int | str | bool | list[str]],
) -> None:
    audit.record(
        scope=scope,
        action=action,
        target_kind="core_candidate",
        target_id=candidate.pk,
        now=now,
        detail=dict(detail),
    )
