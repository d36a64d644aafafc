"""Candidates and corrections that say less from now on; their tables belong to governance.

Each function writes inside the caller's scoped transaction, by one conditional statement.
"""

from __future__ import annotations

import json
from typing import Any, Final

from django.db import connection

from memory.cleared import Cleared
from memory.retrieval.names import name_key
from memory.scope import Scope
from memory.store.candidates import ClearedFact

# Of two that say the same now, the older stays: a second one that waits could not stand beside it.
_TWIN: Final = """
    DELETE FROM governance_corecandidate candidate
    WHERE tenant_id = %(tenant)s AND id = %(id)s AND status IN ('pending', 'rejected')
        AND EXISTS (SELECT 1 FROM governance_corecandidate other
            WHERE other.tenant_id = %(tenant)s AND other.end_user_id = candidate.end_user_id
                AND other.fact_key = %(key)s AND other.status IN ('pending', 'rejected')
                AND other.id <> candidate.id)
"""
_CANDIDATE: Final = """
    UPDATE governance_corecandidate SET fact = %(fact)s, subject = %(subject)s, fact_key = %(key)s,
        evidence = %(evidence)s, pii = %(pii)s::jsonb, reason = %(reason)s
    WHERE tenant_id = %(tenant)s AND id = %(id)s
"""
_CORRECTION: Final = """
    UPDATE governance_correction SET term = %(term)s, term_key = %(key)s, wrong = %(wrong)s,
        "right" = %(right)s, pii = %(pii)s::jsonb
    WHERE tenant_id = %(tenant)s AND id = %(id)s
"""


def change_candidate(*, scope: Scope, candidate_id: str, cleared: ClearedFact, reason: str) -> None:
    """Let a candidate say less, or go where another one says that already. Cost: two statements."""
    values: dict[str, Any] = {
        "tenant": scope.tenant_id,
        "id": candidate_id,
        "fact": cleared.fact.text,
        "subject": cleared.subject_text,
        "key": cleared.key,
        "evidence": cleared.evidence.text if cleared.evidence else "",
        "pii": json.dumps(cleared.fact.pii_json()),
        "reason": reason,
    }
    with connection.cursor() as cursor:
        cursor.execute(_TWIN, values)
        if not cursor.rowcount:
            cursor.execute(_CANDIDATE, values)


def change_correction(
    *, scope: Scope, correction_id: str, term: Cleared, wrong: Cleared, right: Cleared
) -> None:
    """Let a correction say less. Cost: one statement."""
    named = (("term", term), ("wrong", wrong), ("right", right))
    spans = [{"field": name, **span} for name, part in named for span in part.pii_json()]
    values: dict[str, Any] = {
        "tenant": scope.tenant_id,
        "id": correction_id,
        "term": term.text,
        "key": name_key(term.text)[:240],
        "wrong": wrong.text,
        "right": right.text,
        "pii": json.dumps(spans),
    }
    with connection.cursor() as cursor:
        cursor.execute(_CORRECTION, values)
