"""The only writer of candidates for core memory; their table belongs to governance.

Each function writes inside the caller's scoped transaction, by one conditional statement. Whoever
asks first what holds already locks the person's core memory (memory.store.core_facts.lock_core).
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Final

from django.db import connection

from memory.cleared import Cleared
from memory.ids import new_id
from memory.scope import Scope

_ADD: Final = """
    INSERT INTO governance_corecandidate AS known (id, tenant_id, end_user_id, fact, subject,
        fact_key, evidence, pii, confidence, status, origin, run_id, tier, flags, seen_count,
        last_seen_at, first_approved_by, decided_by_kind, decided_by_id, decided_fact, reason,
        proposed_by, created_at)
    VALUES (%(id)s, %(tenant)s, %(end_user)s, %(fact)s, %(subject)s, %(key)s, %(evidence)s,
        %(pii)s::jsonb, %(confidence)s, 'pending', %(origin)s, %(run)s, %(tier)s, %(flags)s::jsonb,
        1, %(now)s, '', '', '', '', '', %(by)s, %(now)s)
    ON CONFLICT (tenant_id, end_user_id, fact_key) WHERE status IN ('pending', 'rejected')
    DO UPDATE SET seen_count = known.seen_count + 1,
        last_seen_at = greatest(known.last_seen_at, excluded.last_seen_at),
        confidence = CASE WHEN known.status = 'pending'
            THEN greatest(known.confidence, excluded.confidence) ELSE known.confidence END
    RETURNING id, xmax = 0
"""
_DECIDE: Final = """
    UPDATE governance_corecandidate SET status = %(status)s, decided_by_kind = %(kind)s,
        decided_by_id = %(by)s, decided_at = %(now)s, decided_fact = %(fact)s, reason = %(reason)s
    WHERE tenant_id = %(tenant)s AND id = %(id)s AND status = 'pending'
"""
_REOPEN: Final = """
    UPDATE governance_corecandidate SET status = 'pending', decided_by_kind = '',
        decided_by_id = '', decided_at = NULL, reason = '', first_approved_by = ''
    WHERE tenant_id = %(tenant)s AND id = %(id)s AND status = 'rejected'
"""
_APPROVE_FIRST: Final = """
    UPDATE governance_corecandidate SET first_approved_by = %(by)s, fact = %(fact)s,
        fact_key = %(key)s, pii = %(pii)s::jsonb
    WHERE tenant_id = %(tenant)s AND id = %(id)s AND status = 'pending'
"""
_FORGET: Final = """
    DELETE FROM governance_corecandidate
    WHERE tenant_id = %(tenant)s AND (id = %(id)s OR decided_fact = %(fact)s)
        AND status = 'confirmed'
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class ClearedFact:
    """A fact as the gate let it through, and the hash of its folded words.

    Attributes:
        evidence: The person's own words it was found in; None for none.
        flags: What whoever decides should see at once, sorted.
        tier: That of the weakest of its texts.
    """

    fact: Cleared
    key: str
    tier: str
    subject: Cleared | None = None
    evidence: Cleared | None = None
    flags: Sequence[str] = ()

    @property
    def texts(self) -> tuple[Cleared, ...]:
        """All of its texts."""
        return tuple(one for one in (self.fact, self.subject, self.evidence) if one is not None)

    @property
    def subject_text(self) -> str:
        """What it is about, empty for nothing."""
        return self.subject.text if self.subject else ""


@dataclass(frozen=True, slots=True, kw_only=True)
class NewCandidate:
    """A fact about a person that waits for a decision.

    Attributes:
        origin: `run` or `import` with the run it comes from, `api` or `staff`.
        proposed_by: The principal's id.
        confidence: 0 to 1; it orders the queue and decides nothing.
    """

    end_user_id: str
    cleared: ClearedFact
    origin: str
    proposed_by: str
    confidence: float
    run_id: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Verdict:
    """How a candidate was decided: `confirmed` with its fact, or `rejected` with a reason."""

    status: str
    by_kind: str
    by_id: str
    fact_id: str = ""
    reason: str = ""


def add_candidate(*, scope: Scope, new: NewCandidate, now: datetime) -> tuple[str, bool]:
    """Store a candidate, or count that a waiting or rejected one was seen again.

    What was rejected stays rejected. Returns its id, and whether it is new. Cost: one statement.

    Raises:
        IntegrityError: The run has not succeeded, or is another person's.
    """
    cleared = new.cleared
    values: dict[str, Any] = {
        "id": new_id("ccand"),
        "tenant": scope.tenant_id,
        "end_user": new.end_user_id,
        "fact": cleared.fact.text,
        "subject": cleared.subject_text,
        "key": cleared.key,
        "evidence": cleared.evidence.text if cleared.evidence else "",
        "pii": json.dumps(cleared.fact.pii_json()),
        "confidence": new.confidence,
        "origin": new.origin,
        "run": new.run_id,
        "tier": cleared.tier,
        "flags": json.dumps(sorted(cleared.flags)),
        "by": new.proposed_by,
        "now": now,
    }
    with connection.cursor() as cursor:
        cursor.execute(_ADD, values)
        row = cursor.fetchone()
    assert row is not None  # noqa: S101 - the insert or the update returns one
    return str(row[0]), bool(row[1])


def decide_candidate(*, scope: Scope, candidate_id: str, verdict: Verdict, now: datetime) -> bool:
    """Decide a candidate that waits; whether it was this call. Cost: one statement."""
    values: dict[str, Any] = {
        "status": verdict.status,
        "kind": verdict.by_kind,
        "by": verdict.by_id,
        "fact": verdict.fact_id,
        "reason": verdict.reason,
        "now": now,
    }
    return _changed(_DECIDE, scope, candidate_id, values)


def reopen_candidate(*, scope: Scope, candidate_id: str) -> bool:
    """Let a rejected candidate wait again; whether it was this call. Cost: one statement."""
    return _changed(_REOPEN, scope, candidate_id, {})


def approve_first(*, scope: Scope, candidate_id: str, cleared: ClearedFact, by: str) -> bool:
    """Note who approved first, where two are needed, in the words that were approved.

    Cost: one statement.

    Raises:
        IntegrityError: Another waiting or rejected candidate says the same already.
    """
    values: dict[str, Any] = {
        "by": by,
        "fact": cleared.fact.text,
        "key": cleared.key,
        "pii": json.dumps(cleared.fact.pii_json()),
    }
    return _changed(_APPROVE_FIRST, scope, candidate_id, values)


def forget_candidates(*, scope: Scope, candidate_id: str | None, fact_id: str) -> None:
    """Delete the confirmed candidates of a fact, whose words they repeat. Cost: one statement."""
    _changed(_FORGET, scope, candidate_id or "", {"fact": fact_id})


def _changed(statement: str, scope: Scope, candidate_id: str, values: dict[str, Any]) -> bool:
    named = values | {"tenant": scope.tenant_id, "id": candidate_id}
    with connection.cursor() as cursor:
        cursor.execute(statement, named)
        return bool(cursor.rowcount)
