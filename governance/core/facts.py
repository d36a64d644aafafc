"""Core facts: reading them now or as of a time, changing, restoring and deleting them, their use.

Nothing here asks who may: the caller's scope says which facts there are.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime

from django.db.models import Q
from django.db.models.functions import Coalesce

from governance import audit, gate
from governance.core import capacity
from governance.core.clearing import StatedFact, require_clear
from governance.core.problems import FactEndedError, SameFactError
from governance.decisions import DecidedBy
from governance.policy import policy_for
from governance.policy_rules import Policy
from memory.errors import NotFoundError
from memory.models import CoreFact, FactEnd
from memory.rls import scoped_transaction
from memory.scope import Scope
from memory.store import candidates as candidate_store
from memory.store import core_facts
from memory.store.candidates import ClearedFact


def facts_of(*, scope: Scope, end_user_id: str, as_of: datetime | None = None) -> list[CoreFact]:
    """Return the facts of a person that hold, or held at a time, the most recently used first.

    Inside the caller's transaction. Cost: one query.
    """
    rows = capacity.holding(scope=scope, end_user_id=end_user_id)
    if as_of is not None:
        rows = CoreFact.objects.in_scope(scope).filter(end_user_id=end_user_id)
        ended_later = Q(valid_to__isnull=True) | Q(valid_to__gt=as_of)
        rows = rows.filter(ended_later, valid_from__lte=as_of)
    return list(rows.order_by(Coalesce("last_used_at", "valid_from").desc(), "-id"))


def change_fact(
    *,
    scope: Scope,
    fact_id: str,
    by: DecidedBy,
    now: datetime,
    fact: str | None = None,
    subject: str | None = None,
    is_restored: bool = False,
) -> CoreFact:
    """Give a fact other words, another subject, or let an evicted one hold again.

    The gate is asked again; the same words again change nothing. Cost: about fifteen statements.

    Raises:
        NotFoundError: There is none in scope.
        FactEndedError: It holds no more, and is not restored, or was not evicted.
        SameFactError: Another fact that holds says the same.
        CoreFullError: It does not fit beside the others.
        FactTooLongError: It has more than 120 characters.
        FactRefusedError: It names what must not be remembered.
    """
    with scoped_transaction(scope):
        row = _locked(scope, fact_id)
        policy = policy_for(scope=scope, agent_overrides={})
        if row.valid_to is not None:
            _restore(scope, row, policy, now, is_restored=is_restored)
            _audit(scope, "core_fact_restored", row, now, by)
        if fact is not None or subject is not None:
            _rewrite(scope, row, policy, now, fact, subject, by)
        return _read(scope, fact_id)


def delete_fact(*, scope: Scope, fact_id: str, now: datetime) -> None:
    """Delete a fact, the candidate that repeats its words, and whatever led to it.

    Cost: about ten statements.

    Raises:
        NotFoundError: There is none in scope.
    """
    with scoped_transaction(scope):
        row = _locked(scope, fact_id)
        core_facts.remove_fact(scope=scope, fact=row)
        candidate_store.forget_candidates(
            scope=scope, candidate_id=row.candidate_id, fact_id=fact_id
        )
        _audit(scope, "core_fact_deleted", row, now)


def touch(*, scope: Scope, end_user_id: str, fact_ids: Sequence[str], now: datetime) -> int:
    """Note that facts were used; those that are gone are passed over. Returns how many there were.

    Cost: two statements.
    """
    if not fact_ids:
        return 0
    with scoped_transaction(scope):
        return core_facts.touch_facts(
            scope=scope, end_user_id=end_user_id, fact_ids=fact_ids, now=now
        )


def _locked(scope: Scope, fact_id: str) -> CoreFact:
    """Return a fact, its person's core memory locked until the transaction ends."""
    rows = CoreFact.objects.in_scope(scope).filter(pk=fact_id)
    end_user_id = rows.values_list("end_user_id", flat=True).first()
    if end_user_id is None:
        raise NotFoundError
    core_facts.lock_core(scope=scope, end_user_id=end_user_id)
    row = rows.first()
    if row is None:
        raise NotFoundError
    return row


def _read(scope: Scope, fact_id: str) -> CoreFact:
    return CoreFact.objects.in_scope(scope).get(pk=fact_id)


def _others(scope: Scope, row: CoreFact) -> list[CoreFact]:
    held = capacity.holding(scope=scope, end_user_id=row.end_user_id)
    return list(held.exclude(pk=row.pk))


def _require_place(others: Sequence[CoreFact], key: str, characters: int, policy: Policy) -> None:
    """Let pass what nobody else says and what fits beside the others."""
    if any(one.fact_key == key for one in others):
        raise SameFactError
    room = capacity.Room(
        facts=others,
        most_facts=policy.count("core_facts"),
        most_characters=policy.count("core_chars"),
    )
    room.make(characters, may_evict=False)


def _restore(
    scope: Scope, row: CoreFact, policy: Policy, now: datetime, *, is_restored: bool
) -> None:
    if not is_restored or row.end_reason != FactEnd.EVICTED:
        raise FactEndedError
    _require_place(_others(scope, row), row.fact_key, len(row.fact), policy)
    core_facts.restore_fact(scope=scope, fact=row, now=now)
    row.refresh_from_db()


def _rewrite(
    scope: Scope,
    row: CoreFact,
    policy: Policy,
    now: datetime,
    fact: str | None,
    subject: str | None,
    by: DecidedBy,
) -> None:
    stated = StatedFact(
        fact=row.fact if fact is None else fact,
        subject=row.subject if subject is None else subject,
        origin=row.origin,
        by=by.id,
    )
    cleared = require_clear(stated=stated, policy=policy)
    if (cleared.fact.text, cleared.subject_text) == (row.fact, row.subject):
        return
    _require_place(_others(scope, row), cleared.key, len(cleared.fact.text), policy)
    core_facts.rewrite_fact(scope=scope, fact=row, cleared=cleared, tier=_tier(cleared), now=now)
    _audit(scope, "core_fact_changed", row, now, by)
    gate.record_written(
        scope=scope,
        kind="core_fact",
        target_id=row.pk,
        cleared=cleared.texts,
        now=now,
        run_id=row.run_id,
        origin=row.origin,
    )


def _tier(cleared: ClearedFact) -> str:
    return gate.UNTRUSTED if cleared.tier == gate.UNTRUSTED else "approved"


def _audit(
    scope: Scope, action: str, row: CoreFact, now: datetime, by: DecidedBy | None = None
) -> None:
    detail: dict[str, int | str | bool | list[str]] = {"end_reason": row.end_reason}
    if by is not None:
        detail["decided_by"] = by.kind
    audit.record(
        scope=scope,
        action=action,
        target_kind="core_fact",
        target_id=row.pk,
        now=now,
        detail=detail,
    )
