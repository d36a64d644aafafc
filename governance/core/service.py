"""Core memory for whoever speaks for a key: what it reaches, and as whom it decides."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Final, Literal

from governance import access
from governance.access import ForbiddenError, Principal
from governance.core import candidates, facts
from governance.core.candidates import Added
from governance.core.clearing import StatedFact
from governance.core.problems import SameFactError, WrongPersonError
from governance.decisions import DecidedBy
from governance.models import CoreCandidate
from governance.policy import policy_for
from governance.tenants import ensure_end_user, find_end_user, same_in_any_form
from memory.errors import NotFoundError
from memory.models import CoreFact, EndUser, FactEnd
from memory.querysets import ScopedQuerySet
from memory.rls import scoped_transaction
from memory.scope import Scope

MOST_CANDIDATES: Final = 200


@dataclass(frozen=True, slots=True, kw_only=True)
class Decider:
    """Who decides besides the key itself: the person, by the tenant's id or the `usr_` id."""

    kind: Literal["end_user", "staff"]
    id: str


@dataclass(frozen=True, slots=True, kw_only=True)
class CoreMemory:
    """A person's core memory: what holds, and what waits with the facts it would end."""

    facts: Sequence[CoreFact] = ()
    waiting: Sequence[CoreCandidate] = ()
    conflicts: Mapping[str, Sequence[str]] | None = None


def core_of(*, principal: Principal, user_id: str, as_of: datetime | None = None) -> CoreMemory:
    """Return a person's core memory, now or as of a time; candidates are those that wait now.

    An unknown person has none. At most 200 candidates, the likeliest first. Cost: four statements.

    Raises:
        ForbiddenError: The principal may not act for this person.
    """
    wide = access.tenant_scope(principal)
    with scoped_transaction(wide):
        person = None if "\0" in user_id else find_end_user(scope=wide, user_id=user_id)
        if person is None:
            access.require_act_for_anybody(principal=principal)
            return CoreMemory()
        scope = access.scope_for_user(principal=principal, end_user=person)
    with scoped_transaction(scope):
        held = facts.facts_of(scope=scope, end_user_id=person.pk)
        found = held
        if as_of is not None:
            found = facts.facts_of(scope=scope, end_user_id=person.pk, as_of=as_of)
        waiting = list(candidates.waiting(scope=scope, end_user_id=person.pk)[:MOST_CANDIDATES])
    return CoreMemory(facts=found, waiting=waiting, conflicts=_ended_by(waiting, held))


def add(*, principal: Principal, user_id: str, fact: str, subject: str, now: datetime) -> Added:
    """Let a fact about a person wait for a decision; the person is made on first write.

    Raises:
        ForbiddenError: The principal may not act for this person.
        SameFactError: A fact whose candidate is gone says the same.
        CredenceError: As `candidates.add_candidate`.
    """
    wide = access.tenant_scope(principal)
    stated = StatedFact(fact=fact, subject=subject, origin="api", by=principal.id)
    with scoped_transaction(wide):
        person = ensure_end_user(scope=wide, user_id=user_id, now=now)
        scope = access.scope_for_user(principal=principal, end_user=person)
        policy = policy_for(scope=wide, agent_overrides={})
        added = candidates.add_candidate(
            scope=scope, end_user_id=person.pk, stated=stated, policy=policy, now=now
        )
    if added.candidate is None:
        raise SameFactError
    return added


def conflicts_with(
    *, principal: Principal, candidate: CoreCandidate
) -> Mapping[str, Sequence[str]]:
    """Return the ids of the facts that a candidate would end, by its id. Cost: one query."""
    scope = access.tenant_scope(principal).narrowed(user_id=candidate.end_user_id)
    with scoped_transaction(scope):
        held = facts.facts_of(scope=scope, end_user_id=candidate.end_user_id)
    return _ended_by([candidate], held)


def _ended_by(
    waiting: Sequence[CoreCandidate], held: Sequence[CoreFact]
) -> Mapping[str, Sequence[str]]:
    """Return the ids of the facts that each candidate would end, by the candidate's id."""
    return {
        one.pk: [fact.pk for fact in candidates.conflicts_of(candidate=one, facts=held)]
        for one in waiting
    }


def evicted_at(*, principal: Principal, candidate: CoreCandidate, at: datetime) -> list[str]:
    """Return the ids of the person's facts that made room at one moment. Cost: one query."""
    scope = access.tenant_scope(principal).narrowed(user_id=candidate.end_user_id)
    with scoped_transaction(scope):
        rows = CoreFact.objects.in_scope(scope).filter(end_user_id=candidate.end_user_id)
        evicted = rows.filter(end_reason=FactEnd.EVICTED, valid_to=at)
        return list(evicted.order_by("pk").values_list("pk", flat=True))


def confirm(
    *,
    principal: Principal,
    candidate_id: str,
    now: datetime,
    fact: str | None = None,
    decider: Decider | None = None,
    may_evict: bool = False,
) -> tuple[CoreCandidate, CoreFact | None]:
    """Confirm a candidate, as the staff that the key stands for or as its person.

    Raises:
        NotFoundError: It is unknown, or out of this principal's reach.
        WrongPersonError: Another person is named.
        CredenceError: As `candidates.confirm_candidate`.
    """
    scope, person = _reach_candidate(principal, candidate_id)
    return candidates.confirm_candidate(
        scope=scope,
        candidate_id=candidate_id,
        by=_decided_by(principal, decider, person),
        now=now,
        fact=fact,
        may_evict=may_evict,
    )


def reject(
    *,
    principal: Principal,
    candidate_id: str,
    reason: str,
    now: datetime,
    decider: Decider | None = None,
) -> CoreCandidate:
    """Reject a candidate, as the staff that the key stands for or as its person.

    Raises:
        NotFoundError: It is unknown, or out of this principal's reach.
        WrongPersonError: Another person is named.
        AlreadyDecidedError: It was confirmed.
    """
    scope, person = _reach_candidate(principal, candidate_id)
    return candidates.reject_candidate(
        scope=scope,
        candidate_id=candidate_id,
        by=_decided_by(principal, decider, person),
        reason=reason,
        now=now,
    )


def change(
    *,
    principal: Principal,
    fact_id: str,
    now: datetime,
    fact: str | None = None,
    subject: str | None = None,
    is_restored: bool = False,
) -> CoreFact:
    """Change a fact, or let an evicted one hold again.

    Raises:
        NotFoundError: It is unknown, or out of this principal's reach.
        CredenceError: As `facts.change_fact`.
    """
    return facts.change_fact(
        scope=_reach_fact(principal, fact_id),
        fact_id=fact_id,
        by=DecidedBy(kind="staff", id=principal.id),
        now=now,
        fact=fact,
        subject=subject,
        is_restored=is_restored,
    )


def delete(*, principal: Principal, fact_id: str, now: datetime) -> None:
    """Delete a fact, and what led to it.

    Raises:
        NotFoundError: It is unknown, or out of this principal's reach.
    """
    facts.delete_fact(scope=_reach_fact(principal, fact_id), fact_id=fact_id, now=now)


def _reach_candidate(principal: Principal, candidate_id: str) -> tuple[Scope, EndUser]:
    wide = access.tenant_scope(principal)
    with scoped_transaction(wide):
        return _reach(principal, CoreCandidate.objects.in_scope(wide).filter(pk=candidate_id))


def _reach_fact(principal: Principal, fact_id: str) -> Scope:
    wide = access.tenant_scope(principal)
    with scoped_transaction(wide):
        return _reach(principal, CoreFact.objects.in_scope(wide).filter(pk=fact_id))[0]


def _reach(
    principal: Principal, rows: ScopedQuerySet[CoreCandidate] | ScopedQuerySet[CoreFact]
) -> tuple[Scope, EndUser]:
    """Return the scope of the person that a row is about, and the person."""
    row = rows.select_related("end_user").first()
    if row is None:
        raise NotFoundError
    try:
        return access.scope_for_user(principal=principal, end_user=row.end_user), row.end_user
    except ForbiddenError as error:
        raise NotFoundError from error


def _decided_by(principal: Principal, decider: Decider | None, person: EndUser) -> DecidedBy:
    """Return as whom a key decides: it is the staff's, unless it says it passes the person's word."""
    if decider is None or decider.kind == "staff":
        return DecidedBy(kind="staff", id=principal.id)
    if same_in_any_form(decider.id) not in (person.user_id, person.pk):
        raise WrongPersonError(field="decided_by.id")
    return DecidedBy(kind="end_user", id=same_in_any_form(decider.id))
