"""The only writer of core facts, and of the index entries that lead to them.

Whoever writes holds the lock of the person's core memory from before its first look until its
transaction ends: thirty facts stay thirty, and the same fact holds once. The order of locks is: the
person's core memory, jobs, the shelf.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Final

from django.db import connection
from django.db.models import F, Value
from django.db.models.functions import Coalesce, Greatest

from memory import jobs
from memory.ids import new_id
from memory.models import CoreFact, JobKind
from memory.querysets import ScopedQuerySet
from memory.retrieval.learned_records import fact_record
from memory.scope import Scope
from memory.store.candidates import ClearedFact
from memory.store.entries import NewEntry, add_entries, remove_entries
from memory.store.shelves import Owner, ensure_shelf, find_shelf

_LOCK: Final = "SELECT pg_advisory_xact_lock(%s)"


@dataclass(frozen=True, slots=True, kw_only=True)
class NewFact:
    """A fact that somebody confirmed, from a candidate that is confirmed already.

    Attributes:
        id: Its id, known before.
        tier: `approved`, or `untrusted` for words that carry markers.
        run_id: The succeeded run it comes from, if one does.
        decided_by_kind: `end_user` or `staff`, with its id.
    """

    id: str
    end_user_id: str
    candidate_id: str
    cleared: ClearedFact
    tier: str
    origin: str
    confidence: float
    decided_by_kind: str
    decided_by_id: str
    run_id: str | None = None


def new_fact_id() -> str:
    """Return the id of a fact to be."""
    return new_id("fact")


def lock_core(*, scope: Scope, end_user_id: str) -> None:
    """Let whoever writes this person's core memory wait until the transaction ends. One statement."""
    digest = hashlib.sha256(f"core {scope.tenant_id} {end_user_id}".encode()).digest()
    with connection.cursor() as cursor:
        cursor.execute(_LOCK, (int.from_bytes(digest[:8], "big", signed=True),))


def add_fact(*, scope: Scope, new: NewFact, now: datetime) -> CoreFact:
    """Store a fact that holds from now on, and let it be found. Cost: about eight statements.

    Raises:
        IntegrityError: Its candidate is not confirmed, or the same fact holds already.
    """
    cleared = new.cleared
    fact = CoreFact(
        id=new.id,
        tenant_id=scope.tenant_id,
        end_user_id=new.end_user_id,
        fact=cleared.fact.text,
        subject=cleared.subject_text,
        fact_key=cleared.key,
        pii=cleared.fact.pii_json(),
        confidence=new.confidence,
        tier=new.tier,
        origin=new.origin,
        run_id=new.run_id,
        candidate_id=new.candidate_id,
        valid_from=now,
        decided_by_kind=new.decided_by_kind,
        decided_by_id=new.decided_by_id,
        created_at=now,
        updated_at=now,
    )
    _ask_for_vector(scope, fact.end_user_id, now)
    fact.save(force_insert=True)
    _index(scope, fact, now)
    return fact


def end_facts(
    *,
    scope: Scope,
    facts: Sequence[CoreFact],
    reason: str,
    now: datetime,
    superseded_by: str | None = None,
) -> None:
    """Let facts hold no more; they can be read as of an earlier time. Cost: one statement."""
    if facts:
        _rows(scope, [fact.pk for fact in facts]).filter(valid_to__isnull=True).update(
            valid_to=Greatest(F("valid_from"), Value(now)),
            end_reason=reason,
            superseded_by_id=superseded_by,
            updated_at=now,
        )


def restore_fact(*, scope: Scope, fact: CoreFact, now: datetime) -> None:
    """Let a fact that ended hold again, as if it had never ended. Cost: one statement."""
    _rows(scope, [fact.pk]).update(
        valid_to=None, end_reason="", superseded_by=None, last_used_at=now, updated_at=now
    )


def rewrite_fact(
    *, scope: Scope, fact: CoreFact, cleared: ClearedFact, tier: str, now: datetime
) -> None:
    """Give a fact other words, and let it be found by those. Cost: about ten statements.

    Raises:
        IntegrityError: Another fact that holds says the same.
    """
    fact.fact, fact.subject = cleared.fact.text, cleared.subject_text
    fact.fact_key, fact.pii = cleared.key, cleared.fact.pii_json()
    fact.tier, fact.updated_at = tier, now
    _ask_for_vector(scope, fact.end_user_id, now)
    # The shelf is locked before the fact, as by whoever counts what was used.
    _remove_index(scope, fact)
    fact.save(update_fields=["fact", "subject", "fact_key", "pii", "tier", "updated_at"])
    _index(scope, fact, now)


def remove_fact(*, scope: Scope, fact: CoreFact) -> None:
    """Delete a fact, its index entry and its vectors. Cost: about six statements."""
    _remove_index(scope, fact)
    CoreFact.objects.in_scope(scope).filter(superseded_by=fact.pk).update(superseded_by=None)
    _rows(scope, [fact.pk]).delete()


def touch_facts(*, scope: Scope, end_user_id: str, fact_ids: Sequence[str], now: datetime) -> int:
    """Note when facts were used last; an earlier time changes nothing. Cost: one statement."""
    rows = _rows(scope, fact_ids).filter(end_user_id=end_user_id)
    # Locked in one order, so that two workers wait for each other instead of failing.
    named = list(rows.order_by("pk").select_for_update(no_key=True).values_list("pk", flat=True))
    last = Coalesce(F("last_used_at"), F("valid_from"))
    return _rows(scope, named).update(last_used_at=Greatest(last, Value(now)))


def _rows(scope: Scope, fact_ids: Sequence[str]) -> ScopedQuerySet[CoreFact]:
    return CoreFact.objects.in_scope(scope).filter(pk__in=list(fact_ids))


def _ask_for_vector(scope: Scope, end_user_id: str, now: datetime) -> None:
    """Ask for the vectors of a person's shelf, before that is locked."""
    shelf_id = ensure_shelf(scope=scope, owner=Owner(end_user_id=end_user_id))
    job = jobs.NewJob(
        kind=JobKind.EMBED,
        thread_id=None,
        run_id=None,
        end_user_id=end_user_id,
        dedupe_key=f"{JobKind.EMBED}:{shelf_id}",
    )
    jobs.enqueue(scope=scope, job=job, now=now)


def _index(scope: Scope, fact: CoreFact, now: datetime) -> None:
    owner = Owner(end_user_id=fact.end_user_id)
    record = fact_record(
        fact_id=fact.pk, fact=fact.fact, subject=fact.subject, said_at=fact.valid_from
    )
    entry = NewEntry(
        kind="core",
        packed=record,
        tier=fact.tier,
        as_of=fact.valid_from,
        fact_id=fact.pk,
        confidence=fact.confidence,
    )
    add_entries(scope=scope, owner=owner, entries=[entry], now=now)


def _remove_index(scope: Scope, fact: CoreFact) -> None:
    shelf_id = find_shelf(scope=scope, owner=Owner(end_user_id=fact.end_user_id))
    if shelf_id is not None:
        remove_entries(scope=scope, shelf_id=shelf_id, fact_ids=[fact.pk])
