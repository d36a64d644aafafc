"""Old rows put right after a rule is new: other tags, masked text, or out so as to be learned anew."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from datetime import datetime

from memory.cleared import Cleared
from memory.models import (
    CoreFact,
    KnowledgeChunk,
    KnowledgeDocument,
    MemoryItem,
    MemoryItemVersion,
    RecallEntry,
)
from memory.scope import Scope
from memory.store.candidates import ClearedFact
from memory.store.entries import remove_entries
from memory.store.shelves import Owner, find_shelf


def set_fact_tags(*, scope: Scope, fact_id: str, fact: Cleared, now: datetime) -> None:
    """Say anew what is personal in a fact. Cost: one statement."""
    rows = CoreFact.objects.in_scope(scope).filter(pk=fact_id, fact=fact.text)
    rows.update(pii=fact.pii_json(), updated_at=now)


def change_past_fact(*, scope: Scope, fact_id: str, cleared: ClearedFact, now: datetime) -> None:
    """Let a fact that holds no more say less; it is in no index. Cost: one statement."""
    CoreFact.objects.in_scope(scope).filter(pk=fact_id, valid_to__isnull=False).update(
        fact=cleared.fact.text,
        subject=cleared.subject_text,
        fact_key=cleared.key,
        pii=cleared.fact.pii_json(),
        updated_at=now,
    )


def set_item_tags(
    *, scope: Scope, item_id: str, title: Cleared, content: Cleared, now: datetime
) -> None:
    """Say anew what is personal in an item whose words stay. Cost: one statement."""
    rows = MemoryItem.objects.in_scope(scope)
    rows.filter(pk=item_id, title=title.text, content=content.text).update(
        pii=item_tags(title=title, content=content), updated_at=now
    )


def item_tags(*, title: Cleared, content: Cleared) -> list[dict[str, str | int]]:
    """Return the tags of an item as its column keeps them: those of its title say so."""
    return [*content.pii_json(), *({**span, "field": "title"} for span in title.pii_json())]


def change_version(*, scope: Scope, version_id: str, title: Cleared, content: Cleared) -> None:
    """Let an earlier version of an item say less. Cost: one statement."""
    MemoryItemVersion.objects.in_scope(scope).filter(pk=version_id).update(
        title=title.text, content=content.text
    )


def forget_recall(*, scope: Scope, owner: Owner, recall_ids: Sequence[str]) -> None:
    """Take recall entries out, so that the job that indexes their threads learns them anew.

    Ask for that job before. Cost: four statements.
    """
    shelf_id = find_shelf(scope=scope, owner=owner)
    if shelf_id is not None:
        remove_entries(scope=scope, shelf_id=shelf_id, recall_ids=recall_ids)
    RecallEntry.objects.in_scope(scope).filter(pk__in=list(recall_ids)).delete()


def change_document(
    *, scope: Scope, document: KnowledgeDocument, title: Cleared, content: Cleared, tier: str
) -> None:
    """Let a document say less; its chunks go, so that the job that indexes it cuts it anew.

    Ask for that job before. Cost: six statements.
    """
    owner = Owner(end_user_id=document.end_user_id, team_id=document.team_id)
    shelf_id = find_shelf(scope=scope, owner=owner)
    if shelf_id is not None:
        remove_entries(scope=scope, shelf_id=shelf_id, document_id=document.pk)
    KnowledgeChunk.objects.in_scope(scope).filter(document_id=document.pk).delete()
    KnowledgeDocument.objects.in_scope(scope).filter(pk=document.pk).update(
        title=title.text,
        content=content.text,
        tier=tier,
        sha256=hashlib.sha256(content.text.encode()).hexdigest(),
    )
