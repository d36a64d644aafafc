"""Masking what is remembered: items and their versions, facts, candidates, corrections, documents.

Every text goes back through the store, which finds it anew by its new words. What stood in memory
had passed the gate, and a masked text says less.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from functools import partial
from typing import Any

from governance import gate
from governance.core.clearing import fact_key
from governance.items.similarity import key_and_title
from governance.knowledge.decisions import index_job as document_job
from governance.pii import find_pii
from memory import jobs
from memory.cleared import Cleared, PiiSpan
from memory.models import CoreFact, DocumentStatus, ItemStatus, MemoryItem
from memory.store import Owner, core_facts, items, masked, rescanned
from memory.store.candidates import ClearedFact
from threads.forgetting import texts
from threads.forgetting.masking import fitted
from threads.forgetting.texts import Pass


def mask_remembered(going: Pass) -> Counter[str]:
    """Mask a person's long-term memory; return how many rows of what changed.

    Inside the caller's scoped transaction. Cost: up to a dozen statements a changed row.
    """
    counts: Counter[str] = Counter()
    for row in list(going.rows(texts.VERSIONS)):
        counts["item_versions"] += _version(going, row)
    for row in list(going.rows(texts.ITEMS)):
        counts["items"] += _item(going, row)
    for row in list(going.rows(texts.FACTS)):
        counts["core_facts"] += _fact(going, row)
    for row in list(going.rows(texts.CANDIDATES)):
        counts["core_candidates"] += _candidate(going, row)
    for row in list(going.rows(texts.CORRECTIONS)):
        counts["corrections"] += _correction(going, row)
    for row in list(going.rows(texts.DOCUMENTS)):
        counts["documents"] += _document(going, row)
    return counts


def _cleared(text: str, tier: str) -> Cleared:
    """Return a stored text that was masked, with the tags of what is left in it."""
    spans = tuple(PiiSpan(kind=one.kind, start=one.start, end=one.end) for one in find_pii(text))
    return replace(gate.stored(text=text, tier=tier), pii=spans)


def _version(going: Pass, row: Any) -> bool:
    changes = going.changes(texts.VERSIONS, row)
    if changes:
        rescanned.change_version(
            scope=going.scope,
            version_id=row.pk,
            title=_cleared(fitted(changes.get("title", row.title), 200), row.tier),
            content=_cleared(fitted(changes.get("content", row.content), 500), row.tier),
        )
    return bool(changes)


def _item(going: Pass, item: MemoryItem) -> bool:
    changes = going.changes(texts.ITEMS, item)
    if not changes:
        return False
    title = _cleared(fitted(changes.get("title", item.title), 200), item.tier)
    new = items.NewItem(
        place=items.place_of(item),
        key_folded=key_and_title(key=item.key, title=title.text),
        title=title,
        content=_cleared(fitted(changes.get("content", item.content), 500), item.tier),
        tier=item.tier,
        origin=item.origin,
        written_by=item.written_by,
        is_held=item.status == ItemStatus.HELD,
        run_id=item.run_id,
        confidence=item.confidence,
        expires_at=item.expires_at,
    )
    ask = partial(_ask, going, items.owner_of(item))
    items.put_item(scope=going.scope, new=new, now=going.now, ask=ask)
    return True


def _ask(going: Pass, owner: Owner, shelf_id: str) -> None:
    job = jobs.embed_job(shelf_id=shelf_id, end_user_id=owner.end_user_id)
    jobs.enqueue(scope=going.scope, job=job, now=going.now)


def _fact(going: Pass, row: CoreFact) -> bool:
    changes = going.changes(texts.FACTS, row)
    if not changes:
        return False
    cleared = _cleared_fact(row, changes)
    if row.valid_to is not None:
        rescanned.change_past_fact(
            scope=going.scope, fact_id=row.pk, cleared=cleared, now=going.now
        )
        return True
    same = CoreFact.objects.in_scope(going.scope).filter(
        end_user_id=row.end_user_id, fact_key=cleared.key, valid_to__isnull=True
    )
    if same.exclude(pk=row.pk).exists():  # both say the same now: one is enough
        core_facts.remove_fact(scope=going.scope, fact=row)
    else:
        core_facts.rewrite_fact(
            scope=going.scope, fact=row, cleared=cleared, tier=row.tier, now=going.now
        )
    return True


def _cleared_fact(row: Any, changes: dict[str, Any]) -> ClearedFact:
    fact = _cleared(fitted(changes.get("fact", row.fact), 120), row.tier)
    subject = fitted(changes.get("subject", row.subject), 80)
    evidence = changes.get("evidence", getattr(row, "evidence", ""))
    return ClearedFact(
        fact=fact,
        key=fact_key(fact.text),
        tier=row.tier,
        subject=_cleared(subject, row.tier) if subject else None,
        evidence=_cleared(evidence, row.tier) if evidence else None,
    )


def _candidate(going: Pass, row: Any) -> bool:
    changes = going.changes(texts.CANDIDATES, row)
    if changes:
        masked.change_candidate(
            scope=going.scope,
            candidate_id=row.pk,
            cleared=_cleared_fact(row, changes),
            reason=fitted(changes.get("reason", row.reason), 500),
        )
    return bool(changes)


def _correction(going: Pass, row: Any) -> bool:
    changes = going.changes(texts.CORRECTIONS, row)
    if changes:
        said = {name: changes.get(name, getattr(row, name)) for name in ("term", "wrong", "right")}
        masked.change_correction(
            scope=going.scope,
            correction_id=row.pk,
            term=_cleared(fitted(said["term"], 120), row.tier),
            wrong=_cleared(fitted(said["wrong"], 500), row.tier),
            right=_cleared(fitted(said["right"], 500), row.tier),
        )
    return bool(changes)


def _document(going: Pass, row: Any) -> bool:
    changes = going.changes(texts.DOCUMENTS, row)
    if not changes:
        return False
    if row.status == DocumentStatus.ADMITTED:
        jobs.enqueue(scope=going.scope, job=document_job(row), now=going.now)
    rescanned.change_document(
        scope=going.scope,
        document=row,
        title=_cleared(fitted(changes.get("title", row.title), 300), row.tier),
        content=_cleared(changes.get("content", row.content), row.tier),
        tier=row.tier,
    )
    return True
