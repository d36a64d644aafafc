"""Old rows under new rules: what was stored before a rule existed is tagged, masked or learned anew.

Every text goes through today's gate; what comes out as it went in is left. Recall entries can not be
changed, so they go and their thread is indexed again from its runs. Done twice, the second time
finds nothing.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field, fields
from datetime import datetime
from functools import partial
from typing import Any, Final

from django.utils import translation

from governance import audit, gate
from governance.core.clearing import StatedFact, clear_fact
from governance.items.similarity import key_and_title
from governance.knowledge.decisions import index_job as document_job
from governance.pii import pii_tags
from governance.policy import policy_for
from governance.policy_rules import Policy
from memory import jobs
from memory.cleared import Cleared
from memory.models import (
    CoreFact,
    DocumentStatus,
    ItemStatus,
    KnowledgeDocument,
    MemoryItem,
    MemoryItemVersion,
    RecallEntry,
)
from memory.querysets import ScopedQuerySet
from memory.rls import scoped_transaction
from memory.scope import Scope
from memory.store import Owner, core_facts, items, rescanned
from memory.store.candidates import ClearedFact
from threads.models import Agent, Message
from threads.recall.indexing import index_job

_BATCH: Final = 200


@dataclass(frozen=True, slots=True, kw_only=True)
class RescanReport:
    """What was found by table, and the kinds of it.

    Attributes:
        looked_at: Rows read.
        tagged: Rows whose tags of what is personal are others now.
        masked: Rows whose text says less now.
        relearned: Recall entries that the worker makes anew from their runs.
        left: Rows that today's gate would refuse, for staff to decide about.
        kinds: How often each kind was newly tagged, masked or refused.
    """

    looked_at: Counter[str] = field(default_factory=Counter)
    tagged: Counter[str] = field(default_factory=Counter)
    masked: Counter[str] = field(default_factory=Counter)
    relearned: Counter[str] = field(default_factory=Counter)
    left: Counter[str] = field(default_factory=Counter)
    kinds: Counter[str] = field(default_factory=Counter)

    def shown(self) -> dict[str, dict[str, int]]:
        """Return it as plain numbers by name."""
        return {one.name: dict(getattr(self, one.name)) for one in fields(self)}


@dataclass(frozen=True, slots=True)
class _Rescan:
    """One pass over a tenant: its policies, and what was found so far."""

    scope: Scope
    now: datetime
    report: RescanReport
    policy: Policy
    by_agent: dict[str, Policy]

    def agents_policy(self, agent_id: str) -> Policy:
        """Return an agent's policy; the tenant's for one that is gone."""
        return self.by_agent.get(agent_id, self.policy)

    def pairs(self, policy: Policy, **texts: str) -> dict[str, Cleared] | None:
        """Return texts through the gate by name, None where one is refused or nothing is left."""
        passed: dict[str, Cleared] = {}
        for name, text in texts.items():
            result = gate.admit(text=text, tier="stated", policy=policy)
            if isinstance(result, gate.Blocked):
                self.report.kinds.update(result.kinds)
                return None
            passed[name] = result
        return passed


def rescan(*, scope: Scope, now: datetime) -> RescanReport:
    """Bring a tenant's remembered texts and tags up to today's rules; audited, safe to repeat.

    One transaction a row that changes. Cost: reads all of the tenant's texts, about 0.3 ms each.
    """
    with scoped_transaction(scope):
        overrides = dict(Agent.objects.in_scope(scope).values_list("pk", "policy"))
        by_agent = {
            pk: policy_for(scope=scope, agent_overrides=changes)
            for pk, changes in overrides.items()
        }
        policy = policy_for(scope=scope, agent_overrides={})
    run = _Rescan(scope, now, RescanReport(), policy, by_agent)
    for rows, look in (
        (Message.objects.in_scope(scope).only("id", "content", "pii"), _message),
        (RecallEntry.objects.in_scope(scope), _recall),
        (KnowledgeDocument.objects.in_scope(scope), _document),
        (MemoryItem.objects.in_scope(scope), _item),
        (CoreFact.objects.in_scope(scope), _fact),
    ):
        with translation.override("en"):  # a command's output is read by programs
            name = str(rows.model._meta.verbose_name_plural)
        for row in _each(scope, rows):
            run.report.looked_at[name] += 1
            look(run, name, row)
    with scoped_transaction(scope):
        _audit(run)
    return run.report


def _each(scope: Scope, rows: ScopedQuerySet[Any]) -> Iterator[Any]:
    """Yield rows by id, a batch a transaction."""
    after = ""
    while True:
        with scoped_transaction(scope):
            batch = list(rows.filter(pk__gt=after).order_by("pk")[:_BATCH])
        yield from batch
        if len(batch) < _BATCH:
            return
        after = batch[-1].pk


def _note_tags(
    run: _Rescan, name: str, old: list[dict[str, Any]], new: list[dict[str, Any]]
) -> None:
    run.report.tagged[name] += 1
    run.report.kinds.update(str(tag["kind"]) for tag in new if tag not in old)


def _note_masked(run: _Rescan, name: str, *texts: Cleared) -> None:
    run.report.masked[name] += 1
    run.report.kinds.update(kind for text in texts for kind in text.removed)


def _message(run: _Rescan, name: str, message: Message) -> None:
    """Tag a message anew; its text is the person's and stays."""
    tags = pii_tags(message.content)
    if tags == message.pii:
        return
    _note_tags(run, name, message.pii, tags)
    with scoped_transaction(run.scope):
        Message.objects.in_scope(run.scope).filter(pk=message.pk).update(pii=tags)


def _recall(run: _Rescan, name: str, entry: RecallEntry) -> None:
    """Have an entry learned anew if the gate would not store it as it stands."""
    policy = run.agents_policy(entry.agent_id)
    said = [text for text in (entry.said, entry.answered, entry.speaker) if text]
    admitted = [
        (text, gate.admit(text=text, tier="observed", policy=policy, can_wait=False))
        for text in said
    ]
    kinds: list[str] = []
    for text, result in admitted:
        if isinstance(result, gate.Blocked):
            kinds += result.kinds
        elif result.text != text:
            kinds += result.removed
    is_ordering = any(
        result.tier == gate.UNTRUSTED for _, result in admitted if isinstance(result, Cleared)
    )
    if is_ordering and entry.tier != gate.UNTRUSTED:
        kinds.append("markers")
    if not kinds:
        return
    run.report.kinds.update(kinds)
    if not policy.is_on("writeback"):
        run.report.left[name] += 1
        return
    run.report.relearned[name] += 1
    again = index_job(thread_id=entry.thread_id, end_user_id=entry.end_user_id, run_id=None)
    owner = Owner(end_user_id=entry.end_user_id)
    with scoped_transaction(run.scope):
        jobs.enqueue(scope=run.scope, job=again, now=run.now)
        rescanned.forget_recall(scope=run.scope, owner=owner, recall_ids=[entry.pk])


def _document(run: _Rescan, name: str, document: KnowledgeDocument) -> None:
    passed = run.pairs(run.policy, title=document.title, content=document.content)
    if passed is None:
        run.report.left[name] += 1
        return
    title, content = passed["title"].part(start=0, end=300), passed["content"]
    if (title.text, content.text) == (document.title, document.content):
        return
    _note_masked(run, name, title, content)
    is_untrusted = gate.UNTRUSTED in (document.tier, title.tier, content.tier)
    with scoped_transaction(run.scope):
        if document.status == DocumentStatus.ADMITTED:
            jobs.enqueue(scope=run.scope, job=document_job(document), now=run.now)
        rescanned.change_document(
            scope=run.scope,
            document=document,
            title=title,
            content=content,
            tier=gate.UNTRUSTED if is_untrusted else document.tier,
        )


def _item(run: _Rescan, name: str, item: MemoryItem) -> None:
    passed = run.pairs(run.policy, title=item.title, content=item.content)
    if passed is None:
        run.report.left[name] += 1
        return
    title, content = passed["title"].part(start=0, end=200), passed["content"]
    with scoped_transaction(run.scope):
        _versions(run, item)
        if (title.text, content.text) != (item.title, item.content):
            _note_masked(run, name, title, content)
            _rewrite_item(run, item, title, content)
            return
        tags = rescanned.item_tags(title=title, content=content)
        if tags != item.pii:
            _note_tags(run, name, item.pii, tags)
            rescanned.set_item_tags(
                scope=run.scope, item_id=item.pk, title=title, content=content, now=run.now
            )


def _versions(run: _Rescan, item: MemoryItem) -> None:
    """Let what an item said before say no more than it may today."""
    for version in MemoryItemVersion.objects.in_scope(run.scope).filter(item_id=item.pk):
        passed = run.pairs(run.policy, title=version.title, content=version.content)
        if passed is None:
            continue
        title, content = passed["title"].part(start=0, end=200), passed["content"]
        if (title.text, content.text) != (version.title, version.content):
            rescanned.change_version(
                scope=run.scope, version_id=version.pk, title=title, content=content
            )


def _rewrite_item(run: _Rescan, item: MemoryItem, title: Cleared, content: Cleared) -> None:
    tiers = (item.tier, title.tier, content.tier)
    new = items.NewItem(
        place=items.place_of(item),
        key_folded=key_and_title(key=item.key, title=title.text),
        title=title,
        content=content,
        tier=gate.UNTRUSTED if gate.UNTRUSTED in tiers else item.tier,
        origin=item.origin,
        written_by=run.scope.principal_id,
        is_held=item.status == ItemStatus.HELD,
        run_id=item.run_id,
        confidence=item.confidence,
        expires_at=item.expires_at,
    )
    items.put_item(
        scope=run.scope, new=new, now=run.now, ask=partial(_ask, run, items.owner_of(item))
    )


def _ask(run: _Rescan, owner: Owner, shelf_id: str) -> None:
    job = jobs.embed_job(shelf_id=shelf_id, end_user_id=owner.end_user_id)
    jobs.enqueue(scope=run.scope, job=job, now=run.now)


def _fact(run: _Rescan, name: str, fact: CoreFact) -> None:
    """Tag a fact anew; one that the gate would refuse today is for staff to end."""
    stated = StatedFact(
        fact=fact.fact, subject=fact.subject, origin=fact.origin, by=run.scope.principal_id
    )
    cleared = clear_fact(stated=stated, policy=run.policy)
    if not isinstance(cleared, ClearedFact):
        run.report.left[name] += 1
        run.report.kinds.update(cleared.kinds)
        return
    with scoped_transaction(run.scope):
        if (cleared.fact.text, cleared.subject_text) != (fact.fact, fact.subject):
            _note_masked(run, name, cleared.fact)
            _rewrite_fact(run, fact, cleared)
        elif cleared.fact.pii_json() != fact.pii:
            _note_tags(run, name, fact.pii, cleared.fact.pii_json())
            rescanned.set_fact_tags(
                scope=run.scope, fact_id=fact.pk, fact=cleared.fact, now=run.now
            )


def _rewrite_fact(run: _Rescan, fact: CoreFact, cleared: ClearedFact) -> None:
    if fact.valid_to is not None:
        rescanned.change_past_fact(scope=run.scope, fact_id=fact.pk, cleared=cleared, now=run.now)
        return
    tier = gate.UNTRUSTED if cleared.tier == gate.UNTRUSTED else fact.tier
    core_facts.rewrite_fact(scope=run.scope, fact=fact, cleared=cleared, tier=tier, now=run.now)


def _audit(run: _Rescan) -> None:
    report = run.report
    audit.record(
        scope=run.scope,
        action="memory_rescanned",
        target_kind="tenant",
        target_id=run.scope.tenant_id,
        now=run.now,
        detail={
            "tagged": report.tagged.total(),
            "masked": report.masked.total(),
            "relearned": report.relearned.total(),
            "left": report.left.total(),
            "kinds": sorted(report.kinds),
        },
    )
