"""Taking a correction: through the gate, stored with its person, and a wish for candidates."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from typing import Final

from governance import gate
from governance.entities.problems import NotRememberedError
from governance.entities.terms import admit_term
from governance.models import Correction
from governance.policy import policy_for
from governance.policy_rules import Policy
from memory import jobs
from memory.cleared import Cleared
from memory.models import JobKind
from memory.rls import narrow_open_scope, scoped_transaction
from memory.scope import Scope
from memory.store.corrections import NOTHING, NewCorrection, add_correction

MOST_TEXT_CHARACTERS: Final = 500
PROPOSE_KEY: Final = JobKind.PROPOSE_ENTITIES.value


@dataclass(frozen=True, slots=True, kw_only=True)
class Place:
    """Where a correction was made.

    Attributes:
        run_status: How the run of its message ended; None without a message.
    """

    end_user_id: str
    thread_id: str
    message_id: str | None = None
    run_id: str | None = None
    run_status: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Said:
    """A correction as it was handed in."""

    entity_type: str
    term: str
    wrong: str = ""
    right: str = ""


def record_correction(*, scope: Scope, place: Place, said: Said, now: datetime) -> Correction:
    """Store a correction and ask for candidates; one that carries orders is kept as evidence only.

    Cost: the gate outside transactions, and about eight statements.

    Args:
        scope: Reaches the person.
        place: The thread, and the message it is about.
        said: What was put right.
        now: When.

    Raises:
        NotRememberedError: The gate lets it not through.
    """
    with scoped_transaction(scope):
        policy = policy_for(scope=scope, agent_overrides={})
    correction = _through_the_gate(place, said, policy)
    with scoped_transaction(scope):
        if correction.tier != gate.UNTRUSTED:
            _ask_for_candidates(scope, now)
        made = add_correction(scope=scope, correction=correction, now=now)
        gate.record_written(
            scope=scope,
            kind="correction",
            target_id=made,
            cleared=[part for part in correction.parts if part.text],
            now=now,
            run_id=place.run_id,
            origin="api",
        )
        return Correction.objects.in_scope(scope).get(pk=made)


def propose_job() -> jobs.NewJob:
    """Return the job that makes candidates of a tenant's corrections; one unfinished one a tenant."""
    return jobs.NewJob(
        kind=JobKind.PROPOSE_ENTITIES,
        thread_id=None,
        run_id=None,
        end_user_id=None,
        dedupe_key=PROPOSE_KEY,
    )


def _ask_for_candidates(scope: Scope, now: datetime) -> None:
    """Enqueue in the tenant's scope, since the job is nobody's alone."""
    wide = Scope(tenant_ids=(scope.tenant_id,), principal_id=scope.principal_id)
    narrow_open_scope(wide)
    jobs.enqueue(scope=wide, job=propose_job(), now=now)
    narrow_open_scope(scope)


def _through_the_gate(place: Place, said: Said, policy: Policy) -> NewCorrection:
    if place.run_status not in (None, "succeeded"):
        raise NotRememberedError("Only a turn that succeeded teaches.")
    return NewCorrection(
        end_user_id=place.end_user_id,
        thread_id=place.thread_id,
        message_id=place.message_id,
        run_id=place.run_id,
        entity_type=said.entity_type,
        term=admit_term(text=said.term, policy=policy),
        wrong=_evidence(said.wrong, policy),
        right=_evidence(said.right, policy),
    )


def _evidence(text: str, policy: Policy) -> Cleared:
    if not text.strip():
        return NOTHING
    cleared = gate.admit(
        text=text,
        tier="stated",
        policy=policy,
        most_characters=MOST_TEXT_CHARACTERS,
        redlines="block",
    )
    if isinstance(cleared, gate.Blocked):
        raise NotRememberedError
    return cleared
