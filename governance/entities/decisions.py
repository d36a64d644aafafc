"""Deciding about candidates: approved into the vocabulary, rejected, opened again; each audited once.

Nothing here asks who may: the caller's scope says which candidates there are.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime

from governance import audit, gate
from governance.decisions import (
    MOST_REASON_CHARACTERS,
    AlreadyDecidedError,
    SecondApproverError,
)
from governance.entities.likeness import propose_merges
from governance.entities.problems import NameTakenError
from governance.entities.proposals import entity_named
from governance.entities.terms import admit_name
from governance.models import EntityCandidate, EntityCandidateStatus
from governance.policy import policy_for
from governance.policy_rules import Policy
from governance.secrets import strip_secrets
from memory.cleared import Cleared
from memory.errors import NotFoundError
from memory.models import Entity, EntityStatus
from memory.querysets import ScopedQuerySet
from memory.retrieval.names import name_key
from memory.rls import scoped_transaction
from memory.scope import Scope
from memory.store.corrections import rename_candidate
from memory.store.entities import (
    NewEvent,
    activate_entity,
    add_entity,
    add_event,
    hold_vocabulary,
)

APPROVED = EntityCandidateStatus.APPROVED
REJECTED = EntityCandidateStatus.REJECTED
PENDING = EntityCandidateStatus.PENDING


@dataclass(frozen=True, slots=True, kw_only=True)
class _Wanted:
    """The term that a decider approves, and whether it is another one than was proposed."""

    term: Cleared
    entity_type: str
    is_edited: bool


def approve_candidate(
    *,
    scope: Scope,
    candidate_id: str,
    by: str,
    now: datetime,
    term: str | None = None,
    entity_type: str | None = None,
) -> tuple[EntityCandidate, Entity | None]:
    """Approve a candidate: its term is an active entity from now on, in the tenant's vocabulary.

    A name that was retired is active again; one that lives on in another entity stands for that.
    Under policy `four_eyes` the first approval is noted, and another principal's decides, about the
    same words: an edit starts over. Approving an approved one changes nothing. Cost: about fifteen
    statements, and one pass over the entities of its type.

    Args:
        scope: The tenant's.
        candidate_id: Which.
        by: Who decides.
        now: When.
        term: The term as the decider wrote it; None for the candidate's.
        entity_type: Likewise.

    Returns:
        The candidate and its entity; None while a second approval is missing.

    Raises:
        NotFoundError: There is none in scope.
        AlreadyDecidedError: It was rejected, or approved under another name.
        NotRememberedError: The gate lets the term not through.
        NameTakenError: Another candidate waits under the edited name, or was rejected.
        SecondApproverError: Whoever approved first can not be the second.
    """
    with scoped_transaction(scope):
        hold_vocabulary(scope=scope)
        policy = policy_for(scope=scope, agent_overrides={})
        candidate = _locked(scope, candidate_id)
        if candidate.status == REJECTED:
            raise AlreadyDecidedError
        if candidate.status == APPROVED:
            if term is not None and name_key(term) != candidate.term_key:
                raise AlreadyDecidedError("This was approved under another name.")
            return candidate, candidate.entity
        wanted = _wanted(candidate, policy, term, entity_type)
        if policy.is_on("four_eyes") and not _is_second(scope, candidate, wanted, by, now):
            return _locked(scope, candidate_id), None
        _mark_approved(scope, candidate, wanted, by, now)
        entity = _take_in(scope, candidate, wanted, by, now)
        _rows(scope, candidate_id).update(entity_id=entity.pk)
        _audit_approved(scope, candidate, wanted, entity, now)
        propose_merges(scope=scope, entity=entity, now=now)
    candidate = _read(scope, candidate_id)
    return candidate, candidate.entity


def reject_candidate(
    *, scope: Scope, candidate_id: str, by: str, reason: str, now: datetime
) -> EntityCandidate:
    """Reject a candidate; it stays on record, gathers evidence, and stays rejected.

    Rejecting again changes nothing, the reason neither. Cost: five statements.

    Raises:
        NotFoundError: There is none in scope.
        AlreadyDecidedError: It was approved.
    """
    with scoped_transaction(scope):
        candidate = _locked(scope, candidate_id)
        if candidate.status == APPROVED:
            raise AlreadyDecidedError
        if candidate.status == PENDING:
            _rows(scope, candidate_id).update(
                status=REJECTED,
                decided_by=by,
                decided_at=now,
                reason=strip_secrets(reason).text[:MOST_REASON_CHARACTERS],
                updated_at=now,
            )
            _audit(scope, "entity_candidate_rejected", candidate, now)
    return _read(scope, candidate_id)


def reopen_candidate(*, scope: Scope, candidate_id: str, now: datetime) -> EntityCandidate:
    """Let a rejected candidate wait again; one that waits is left alone. Cost: five statements.

    Raises:
        NotFoundError: There is none in scope.
        AlreadyDecidedError: It was approved; its entity can be retired.
    """
    with scoped_transaction(scope):
        candidate = _locked(scope, candidate_id)
        if candidate.status == APPROVED:
            raise AlreadyDecidedError
        if candidate.status == REJECTED:
            _rows(scope, candidate_id).update(
                status=PENDING,
                decided_by="",
                decided_at=None,
                reason="",
                first_approved_by="",
                updated_at=now,
            )
            _audit(scope, "entity_candidate_reopened", candidate, now)
    return _read(scope, candidate_id)


def _rows(scope: Scope, candidate_id: str) -> ScopedQuerySet[EntityCandidate]:
    return EntityCandidate.objects.in_scope(scope).filter(pk=candidate_id)


def _locked(scope: Scope, candidate_id: str) -> EntityCandidate:
    found = _rows(scope, candidate_id).select_for_update(no_key=True, of=("self",)).first()
    if found is None:
        raise NotFoundError
    return found


def _read(scope: Scope, candidate_id: str) -> EntityCandidate:
    with scoped_transaction(scope):
        return _rows(scope, candidate_id).select_related("entity").get()


def _wanted(
    candidate: EntityCandidate, policy: Policy, term: str | None, entity_type: str | None
) -> _Wanted:
    cleared = admit_name(text=candidate.term if term is None else term, policy=policy)
    kind = entity_type or candidate.entity_type
    is_edited = cleared.text != candidate.term or kind != candidate.entity_type
    return _Wanted(term=cleared, entity_type=kind, is_edited=is_edited)


def _is_second(
    scope: Scope, candidate: EntityCandidate, wanted: _Wanted, by: str, now: datetime
) -> bool:
    """Say whether this is the second approval of the same words; note it if it is the first."""
    if candidate.first_approved_by and not wanted.is_edited:
        if candidate.first_approved_by == by:
            raise SecondApproverError
        return True
    if wanted.is_edited:
        _require_free(scope, candidate, wanted)
        _rename(scope, candidate, wanted, now)
    _rows(scope, candidate.pk).update(first_approved_by=by, updated_at=now)
    _audit(scope, "entity_candidate_approved_first", candidate, now)
    return False


def _require_free(scope: Scope, candidate: EntityCandidate, wanted: _Wanted) -> None:
    rows = EntityCandidate.objects.in_scope(scope).filter(
        entity_type=wanted.entity_type,
        term_key=name_key(wanted.term.text),
        status__in=(PENDING, REJECTED),
    )
    if rows.exclude(pk=candidate.pk).exists():
        raise NameTakenError("Another candidate waits under that name, or was rejected.")


def _mark_approved(
    scope: Scope, candidate: EntityCandidate, wanted: _Wanted, by: str, now: datetime
) -> None:
    """Decide first: the database takes an entity of an approved candidate only."""
    decided = _rows(scope, candidate.pk).filter(status=PENDING)
    if not decided.update(status=APPROVED, decided_by=by, decided_at=now, updated_at=now):
        raise AlreadyDecidedError
    if wanted.is_edited:
        _rename(scope, candidate, wanted, now)


def _rename(scope: Scope, candidate: EntityCandidate, wanted: _Wanted, now: datetime) -> None:
    rename_candidate(
        scope=scope,
        candidate_id=candidate.pk,
        entity_type=wanted.entity_type,
        term=wanted.term,
        now=now,
    )


def _take_in(
    scope: Scope, candidate: EntityCandidate, wanted: _Wanted, by: str, now: datetime
) -> Entity:
    """Return the entity that the term is from now on: a new one, or the one there is."""
    known = _known(scope, wanted)
    if known is None:
        made = add_entity(
            scope=scope,
            candidate_id=candidate.pk,
            entity_type=wanted.entity_type,
            term=wanted.term,
            by=by,
            now=now,
        )
        _note_approved(scope, made, by, now)
        return made
    if known.status == EntityStatus.RETIRED:
        activate_entity(scope=scope, entity_id=known.pk, now=now, by=by, candidate_id=candidate.pk)
        _note_approved(scope, known, by, now)
    return known


def _known(scope: Scope, wanted: _Wanted) -> Entity | None:
    """Return the entity that has this name, or the one in which that lives on."""
    key = name_key(wanted.term.text)
    rows = Entity.objects.in_scope(scope).select_related("merged_into")
    found = rows.filter(entity_type=wanted.entity_type, term_key=key).first()
    if found is None:
        return entity_named(scope=scope, entity_type=wanted.entity_type, key=key)
    return found.merged_into or found


def _note_approved(scope: Scope, entity: Entity, by: str, now: datetime) -> None:
    event = NewEvent(kind="approved", weight_before=entity.weight, weight_after=entity.weight)
    add_event(scope=scope, entity_id=entity.pk, event=event, by=by, now=now)


def _audit_approved(
    scope: Scope, candidate: EntityCandidate, wanted: _Wanted, entity: Entity, now: datetime
) -> None:
    detail = gate.written_detail(kind="entity", cleared=[wanted.term], run_id=None, origin="api")
    audit.record(
        scope=scope,
        action="entity_candidate_approved",
        target_kind="entity_candidate",
        target_id=candidate.pk,
        now=now,
        detail={**detail, "entity_id": entity.pk, "is_edited": wanted.is_edited},
    )


def _audit(scope: Scope, action: str, candidate: EntityCandidate, now: datetime) -> None:
    audit.record(
        scope=scope,
        action=action,
        target_kind="entity_candidate",
        target_id=candidate.pk,
        now=now,
        detail={"evidence": candidate.evidence_count},
    )
