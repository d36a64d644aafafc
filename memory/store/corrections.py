"""The only writer of corrections and of the candidates that grow from them.

Their tables belong to governance, which this package does not see: hence plain statements. Each
function writes inside the caller's scoped transaction.
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
from memory.retrieval.names import name_key
from memory.scope import Scope

NOTHING: Final = Cleared(text="", tier="stated")
_CORRECTION: Final = """
    INSERT INTO governance_correction (id, tenant_id, end_user_id, thread_id, run_id, message_id,
        entity_type, term, term_key, wrong, "right", pii, tier, markers, candidate_id, created_by,
        created_at)
    VALUES (%(id)s, %(tenant)s, %(end_user)s, %(thread)s, %(run)s, %(message)s, %(entity_type)s,
        %(term)s, %(key)s, %(wrong)s, %(right)s, %(pii)s, %(tier)s, %(markers)s, NULL, %(by)s,
        %(now)s)
"""
# One that waits or was rejected takes the wish over, and stays what it is.
_CANDIDATE: Final = """
    INSERT INTO governance_entitycandidate AS candidate (id, tenant_id, entity_type, term, term_key,
        status, flags, evidence_count, entity_id, first_approved_by, decided_by, decided_at, reason,
        created_at, updated_at)
    VALUES (%(id)s, %(tenant)s, %(entity_type)s, %(term)s, %(key)s, 'pending', %(flags)s, 0, NULL,
        '', '', NULL, '', %(now)s, %(now)s)
    ON CONFLICT (tenant_id, entity_type, term_key) WHERE status IN ('pending', 'rejected')
        DO UPDATE SET updated_at = EXCLUDED.updated_at
    RETURNING candidate.id, candidate.xmax = 0
"""
# For an entity whose candidate is gone: evidence needs a place, and nothing is left to decide.
_DECIDED: Final = """
    INSERT INTO governance_entitycandidate (id, tenant_id, entity_type, term, term_key, status,
        flags, evidence_count, entity_id, first_approved_by, decided_by, decided_at, reason,
        created_at, updated_at)
    SELECT %(id)s, tenant_id, entity_type, term, term_key, 'approved', '[]', 0, entity.id, '',
        approved_by, approved_at, '', %(now)s, %(now)s
    FROM memory_entity entity WHERE tenant_id = %(tenant)s AND entity.id = %(entity)s
"""
_LINK: Final = """
    WITH linked AS (
        UPDATE governance_correction SET candidate_id = %(candidate)s
        WHERE tenant_id = %(tenant)s AND id = ANY (%(ids)s::text[]) AND candidate_id IS NULL
        RETURNING id
    )
    UPDATE governance_entitycandidate candidate SET updated_at = %(now)s,
        evidence_count = candidate.evidence_count + (SELECT count(*) FROM linked)
    WHERE candidate.tenant_id = %(tenant)s AND candidate.id = %(candidate)s
    RETURNING (SELECT count(*) FROM linked)
"""
_DISTRUST: Final = """
    UPDATE governance_correction SET tier = 'untrusted'
    WHERE tenant_id = %(tenant)s AND id = ANY (%(ids)s::text[]) AND candidate_id IS NULL
"""
_RENAME: Final = """
    UPDATE governance_entitycandidate SET entity_type = %(entity_type)s, term = %(term)s,
        term_key = %(key)s, updated_at = %(now)s
    WHERE tenant_id = %(tenant)s AND id = %(id)s
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class NewCorrection:
    """What a person put right, as the gate let it through, and where.

    Attributes:
        term: The term as it should be.
        wrong: What was said instead; empty where that is not told.
        right: What should have been said.
        run_id: The run that the message is of.
    """

    end_user_id: str
    thread_id: str
    entity_type: str
    term: Cleared
    wrong: Cleared = NOTHING
    right: Cleared = NOTHING
    message_id: str | None = None
    run_id: str | None = None

    @property
    def parts(self) -> tuple[Cleared, Cleared, Cleared]:
        """Its three texts."""
        return self.term, self.wrong, self.right

    @property
    def tier(self) -> str:
        """Untrusted as soon as one of its texts is."""
        return "untrusted" if any(part.tier == "untrusted" for part in self.parts) else "stated"


def add_correction(*, scope: Scope, correction: NewCorrection, now: datetime) -> str:
    """Store a correction and return its id. Cost: one statement."""
    names = zip(("term", "wrong", "right"), correction.parts, strict=True)
    spans = [{"field": name, **span} for name, part in names for span in part.pii_json()]
    made = new_id("corr")
    _execute(
        _CORRECTION,
        id=made,
        tenant=scope.tenant_id,
        end_user=correction.end_user_id,
        thread=correction.thread_id,
        run=correction.run_id,
        message=correction.message_id,
        entity_type=correction.entity_type,
        term=correction.term.text,
        key=name_key(correction.term.text),
        wrong=correction.wrong.text,
        right=correction.right.text,
        pii=json.dumps(spans),
        tier=correction.tier,
        markers=json.dumps(sorted({name for part in correction.parts for name in part.markers})),
        by=scope.principal_id,
        now=now,
    )
    return made


def add_entity_candidate(
    *, scope: Scope, entity_type: str, term: Cleared, flags: Sequence[str], now: datetime
) -> tuple[str, bool]:
    """Return the id of the candidate of a term that waits or was rejected, and whether it is new.

    Cost: one statement, which waits for others that do the same.
    """
    (row,) = _execute(
        _CANDIDATE,
        id=new_id("ecand"),
        tenant=scope.tenant_id,
        entity_type=entity_type,
        term=term.text,
        key=name_key(term.text),
        flags=json.dumps(sorted(flags)),
        now=now,
    )
    return str(row[0]), bool(row[1])


def add_decided_candidate(*, scope: Scope, entity_id: str, now: datetime) -> str:
    """Return the id of a new approved candidate of an entity that lost its own. One statement."""
    made = new_id("ecand")
    _execute(_DECIDED, id=made, tenant=scope.tenant_id, entity=entity_id, now=now)
    return made


def link_corrections(
    *, scope: Scope, candidate_id: str, correction_ids: Sequence[str], now: datetime
) -> int:
    """Make corrections evidence of a candidate, each once; return how many were new to it."""
    rows = _execute(
        _LINK,
        candidate=candidate_id,
        tenant=scope.tenant_id,
        ids=list(correction_ids),
        now=now,
    )
    return int(rows[0][0]) if rows else 0


def distrust_corrections(*, scope: Scope, correction_ids: Sequence[str]) -> None:
    """Mark corrections that the gate would not let through any more as untrusted."""
    _execute(_DISTRUST, tenant=scope.tenant_id, ids=list(correction_ids))


def rename_candidate(
    *, scope: Scope, candidate_id: str, entity_type: str, term: Cleared, now: datetime
) -> None:
    """Give a candidate the term and type that its decider wrote. Cost: one statement.

    Raises:
        IntegrityError: It waits, and another one waits or was rejected under that name.
    """
    _execute(
        _RENAME,
        id=candidate_id,
        tenant=scope.tenant_id,
        entity_type=entity_type,
        term=term.text,
        key=name_key(term.text),
        now=now,
    )


def _execute(statement: str, **values: Any) -> list[tuple[Any, ...]]:
    with connection.cursor() as cursor:
        cursor.execute(statement, values)
        return list(cursor.fetchall()) if cursor.description else []
