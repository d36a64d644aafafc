"""What a person's runs left in the memory of a team or of the whole tenant.

Documents go. An item that others had written before is theirs again, as it was; where there is
nothing of others in it, it goes.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from functools import partial
from typing import Final

from django.db import connection
from django.utils import timezone

from governance.erasure.subjects import Subject
from governance.items.similarity import key_and_title
from governance.knowledge.decisions import delete_document
from governance.pii import pii_tags
from memory import jobs
from memory.models import MemoryItem, MemoryItemVersion
from memory.scope import Scope
from memory.store.items import lock_items, owner_of, remove_items, set_back

_BATCH: Final = 20
_RUNS: Final = """
    (SELECT id FROM threads_run WHERE tenant_id = %(tenant)s AND end_user_id = %(person)s)
"""
_OTHERS: Final = f"tenant_id = %(tenant)s AND end_user_id IS NULL AND run_id IN {_RUNS}"
_DOCUMENTS: Final = f"""
    SELECT id FROM memory_knowledgedocument WHERE {_OTHERS} ORDER BY id LIMIT %(most)s
"""  # noqa: S608 - a constant
_ITEMS: Final = f"""
    SELECT id FROM memory_memoryitem WHERE {_OTHERS}
    UNION SELECT item_id FROM memory_memoryitemversion WHERE {_OTHERS}
    ORDER BY id LIMIT %(most)s
"""  # noqa: S608 - a constant
_VERSIONS: Final = f"""
    SELECT id FROM memory_memoryitemversion WHERE {_OTHERS} AND item_id = ANY (%(items)s::text[])
"""  # noqa: S608 - a constant


def erase(subject: Subject) -> Mapping[str, int]:
    """Take a batch of documents and items out of what others share. Cost: about ten statements each."""
    scope = subject.wide
    documents = _ids(_DOCUMENTS, subject, most=_BATCH)
    for document_id in documents:
        delete_document(scope=scope, document_id=document_id, now=timezone.now())
    items = _ids(_ITEMS, subject, most=_BATCH)
    for item_id in items:
        _erase_item(scope, subject, item_id)
    return Counter(shared_documents=len(documents), shared_items=len(items))


def count(subject: Subject) -> Mapping[str, int]:
    """Count documents and items of others that this person's runs wrote or changed."""
    return Counter(
        shared_documents=len(_ids(_DOCUMENTS, subject, most=None)),
        shared_items=len(_ids(_ITEMS, subject, most=None)),
    )


def _erase_item(scope: Scope, subject: Subject, item_id: str) -> None:
    rows = MemoryItem.objects.in_scope(scope).filter(pk=item_id)
    found = rows.first()
    if found is None:
        return
    lock_items(scope=scope, owner=owner_of(found))
    item = rows.get()
    theirs = set(_ids(_VERSIONS, subject, items=[item_id]))
    versions = MemoryItemVersion.objects.in_scope(scope).filter(item_id=item_id)
    before = versions.exclude(pk__in=theirs).order_by("-version").first()
    current = versions.filter(pk__in=theirs, version=item.version)
    if before is None:
        remove_items(scope=scope, items=[item])
        return
    if current.exists():
        set_back(
            scope=scope,
            item=item,
            to=before,
            key_folded=key_and_title(key=item.key, title=before.title),
            pii=_pii_of(before),
            now=timezone.now(),
            ask=partial(_ask_for_vectors, scope),
        )
    versions.filter(pk__in=theirs).delete()


def _pii_of(version: MemoryItemVersion) -> list[dict[str, str | int]]:
    in_title: list[dict[str, str | int]] = [
        {**tag, "field": "title"} for tag in pii_tags(version.title)
    ]
    return [*pii_tags(version.content), *in_title]


def _ask_for_vectors(scope: Scope, shelf_id: str) -> None:
    job = jobs.embed_job(shelf_id=shelf_id, end_user_id=None)
    jobs.enqueue(scope=scope, job=job, now=timezone.now())


def _ids(statement: str, subject: Subject, **values: int | list[str] | None) -> list[str]:
    with connection.cursor() as cursor:
        cursor.execute(statement, {**subject.values, **values})
        return [row[0] for row in cursor.fetchall()]
