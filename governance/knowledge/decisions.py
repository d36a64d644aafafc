"""Deciding about documents: admitted or refused once, deleted at any time; each act audited.

Nothing here asks who may: the caller's scope says which documents there are.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from typing import Final

from governance import audit
from governance.decisions import MOST_REASON_CHARACTERS, AlreadyDecidedError
from governance.secrets import strip_secrets
from memory import jobs, store
from memory.errors import NotFoundError
from memory.models import DocumentStatus, JobKind, KnowledgeDocument
from memory.rls import scoped_transaction
from memory.scope import Scope

JOB_KEY: Final = f"{JobKind.INDEX_KNOWLEDGE}:"


@dataclass(frozen=True, slots=True, kw_only=True)
class _Verdict:
    status: DocumentStatus
    action: str
    reason: str = ""


def admit_document(*, scope: Scope, document_id: str, now: datetime) -> KnowledgeDocument:
    """Admit a document that waits, and ask for its index; admitting again changes nothing.

    Cost: two statements, four more for a document that waits.

    Raises:
        NotFoundError: There is none in scope.
        AlreadyDecidedError: It was refused.
    """
    verdict = _Verdict(status=DocumentStatus.ADMITTED, action="document_admitted")
    with scoped_transaction(scope):
        document, is_changed = _decide(scope, document_id, verdict, now)
        if is_changed:
            jobs.enqueue(scope=scope, job=index_job(document), now=now)
    return document


def refuse_document(
    *, scope: Scope, document_id: str, now: datetime, reason: str = ""
) -> KnowledgeDocument:
    """Refuse a document that waits; refusing again changes nothing, the reason neither.

    Cost: two statements, one more for a document that waits.

    Raises:
        NotFoundError: There is none in scope.
        AlreadyDecidedError: It was admitted; it can be deleted.
    """
    verdict = _Verdict(
        status=DocumentStatus.REFUSED,
        action="document_refused",
        reason=strip_secrets(reason).text[:MOST_REASON_CHARACTERS],
    )
    with scoped_transaction(scope):
        return _decide(scope, document_id, verdict, now)[0]


def delete_document(*, scope: Scope, document_id: str, now: datetime) -> None:
    """Delete a document, its chunks and whatever led to them. Cost: about a dozen statements.

    Raises:
        NotFoundError: There is none in scope.
    """
    with scoped_transaction(scope):
        rows = KnowledgeDocument.objects.in_scope(scope).filter(pk=document_id)
        document = rows.select_for_update(of=("self",)).defer("content").first()
        if document is None:
            raise NotFoundError
        shelf_id = store.find_shelf(scope=scope, owner=owner_of(document))
        if shelf_id is not None and document.status == DocumentStatus.ADMITTED:
            store.remove_entries(scope=scope, shelf_id=shelf_id, document_id=document_id)
        _audit(scope, "document_deleted", document, now)
        rows.delete()


def index_job(document: KnowledgeDocument) -> jobs.NewJob:
    """Return the job that indexes an admitted document; one unfinished one a document."""
    return jobs.NewJob(
        kind=JobKind.INDEX_KNOWLEDGE,
        thread_id=None,
        run_id=None,
        end_user_id=document.end_user_id,
        dedupe_key=f"{JOB_KEY}{document.pk}",
    )


def owner_of(document: KnowledgeDocument) -> store.Owner:
    """Return whose shelf a document is found on."""
    return store.Owner(end_user_id=document.end_user_id, team_id=document.team_id)


def _decide(
    scope: Scope, document_id: str, verdict: _Verdict, now: datetime
) -> tuple[KnowledgeDocument, bool]:
    """Move a document that waits; return it, and whether it was this that moved it."""
    rows = KnowledgeDocument.objects.in_scope(scope).filter(pk=document_id)
    is_changed = bool(
        rows.filter(status=DocumentStatus.PENDING).update(
            status=verdict.status,
            reason=verdict.reason,
            decided_by=scope.principal_id,
            decided_at=now,
        )
    )
    document = rows.select_related("end_user").first()
    if document is None:
        raise NotFoundError
    if document.status != verdict.status:
        raise AlreadyDecidedError
    if is_changed:
        _audit(scope, verdict.action, document, now)
    return document, is_changed


def _audit(scope: Scope, action: str, document: KnowledgeDocument, now: datetime) -> None:
    audit.record(
        scope=scope,
        action=action,
        target_kind="document",
        target_id=document.pk,
        now=now,
        detail={"kind": document.kind, "tier": document.tier, "bytes": document.bytes},
    )
