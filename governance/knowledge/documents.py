"""Documents of the knowledge base: handing them in, listing and reading them, as far as a key reaches.

A document is a person's, a team's, or the whole tenant's. The same text handed in twice by the same
owner as the same kind and of the same date is one document; across owners nothing is compared, so
that nobody learns what others have.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime

from django.db.models import Q

from governance import access
from governance.access import ForbiddenError, Principal
from governance.knowledge import decisions
from governance.knowledge.admission import (
    ClearedText,
    check_kind,
    clear_text,
    store_once,
)
from governance.knowledge.problems import UnknownTeamError
from governance.permissions import Permission
from governance.policy import policy_for
from governance.tenants import ensure_end_user, find_end_user
from memory import store
from memory.errors import NotFoundError
from memory.ids import is_id
from memory.models import DocumentStatus, EndUser, KnowledgeDocument, Team
from memory.querysets import ScopedQuerySet
from memory.rls import scoped_transaction
from memory.scope import Scope


@dataclass(frozen=True, slots=True, kw_only=True)
class Upload:
    """What was handed in.

    Attributes:
        title: As its reader knows it.
        raw: The file.
        kind: What it is, a word of the tenant's list.
        media_type: One of governance.knowledge.reading.MEDIA_TYPES.
        user_id: The person it belongs to, by the tenant's own id.
        team: The team it belongs to, by id or name; with neither it is the whole tenant's.
        as_of: When what it says was so.
    """

    title: str
    raw: bytes
    kind: str
    media_type: str
    user_id: str | None = None
    team: str | None = None
    as_of: datetime | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Filters:
    """Which documents to list."""

    user_id: str | None = None
    team: str | None = None
    status: str | None = None
    kind: str | None = None


def submit(
    *, principal: Principal, upload: Upload, now: datetime
) -> tuple[KnowledgeDocument, bool]:
    """Hand in a document; return it, and whether it is new. Its person is made on first write.

    It waits for a decision unless policy admits at once; text that carries orders is untrusted.
    Cost: reading the file, outside of transactions, and about a dozen statements.

    Raises:
        NotAdmittedError: Its kind is process data or not on the tenant's list, or the gate let
            nothing through.
        UnreadableDocumentError: The file can not be read, or as governance.knowledge.reading has it.
        UnknownTeamError: There is no such team.
        ForbiddenError: The key may not write for that owner.
    """
    scope = access.tenant_scope(principal)
    with scoped_transaction(scope):
        policy = policy_for(scope=scope, agent_overrides={})
    check_kind(policy=policy, kind=upload.kind)
    text = clear_text(
        raw=upload.raw, title=upload.title, media_type=upload.media_type, policy=policy
    )
    with scoped_transaction(scope):
        mine = _new(principal, scope, upload, text, now)
        return store_once(scope=scope, mine=mine, policy=policy, now=now)


def documents_of(*, principal: Principal, filters: Filters) -> ScopedQuerySet[KnowledgeDocument]:
    """Return the query of the documents in reach, without their text. Cost: up to two queries here.

    Of an unknown person or team there are none.
    """
    scope = access.widest_scope(principal)
    rows = _shown_to(principal, scope).defer("content")
    if not _acts_for_anybody(principal):
        rows = rows.filter(end_user__isnull=True, team__isnull=True)
    if filters.status:
        rows = rows.filter(status=filters.status)
    if filters.kind:
        rows = rows.filter(kind=filters.kind)
    with scoped_transaction(scope):
        if filters.user_id:
            person = find_end_user(scope=scope, user_id=filters.user_id)
            rows = rows.filter(end_user=person) if person else rows.none()
        if filters.team:
            team = _find_team(scope, filters.team)
            rows = rows.filter(team=team) if team else rows.none()
    return rows


def read_document(*, principal: Principal, document_id: str) -> KnowledgeDocument:
    """Return a document with its text. Cost: one query.

    Raises:
        NotFoundError: It is unknown, or out of this principal's reach.
    """
    scope = access.widest_scope(principal)
    with scoped_transaction(scope):
        return _document(principal, scope, document_id)


def admit(*, principal: Principal, document_id: str, now: datetime) -> KnowledgeDocument:
    """Admit a document that waits.

    Raises:
        NotFoundError: As `read_document`.
        ForbiddenError: It is seen by this key, but belongs to others as well.
        AlreadyDecidedError: It was refused.
    """
    scope = access.widest_scope(principal)
    with scoped_transaction(scope):
        _require_to_change(principal, _document(principal, scope, document_id))
        return decisions.admit_document(scope=scope, document_id=document_id, now=now)


def refuse(
    *, principal: Principal, document_id: str, reason: str, now: datetime
) -> KnowledgeDocument:
    """Refuse a document that waits.

    Raises:
        NotFoundError: As `read_document`.
        ForbiddenError: It is seen by this key, but belongs to others as well.
        AlreadyDecidedError: It was admitted.
    """
    scope = access.widest_scope(principal)
    with scoped_transaction(scope):
        _require_to_change(principal, _document(principal, scope, document_id))
        return decisions.refuse_document(
            scope=scope, document_id=document_id, reason=reason, now=now
        )


def delete(*, principal: Principal, document_id: str, now: datetime) -> None:
    """Delete a document and all that is found of it.

    Raises:
        NotFoundError: As `read_document`.
        ForbiddenError: It is seen by this key, but belongs to others as well.
    """
    scope = access.widest_scope(principal)
    with scoped_transaction(scope):
        _require_to_change(principal, _document(principal, scope, document_id))
        decisions.delete_document(scope=scope, document_id=document_id, now=now)


def _new(
    principal: Principal, scope: Scope, upload: Upload, text: ClearedText, now: datetime
) -> store.NewDocument:
    """Return the document of an upload, not stored, with its owner."""
    person, team = _owner(principal, scope, upload, now)
    return store.NewDocument(
        end_user=person,
        team=team,
        title=text.title,
        kind=upload.kind,
        media_type=upload.media_type,
        content=text.content,
        size_bytes=len(upload.raw),
        origin="api",
        as_of=upload.as_of,
    )


def _owner(
    principal: Principal, scope: Scope, upload: Upload, now: datetime
) -> tuple[EndUser | None, Team | None]:
    if upload.user_id is not None:
        person = ensure_end_user(scope=scope, user_id=upload.user_id, now=now)
        access.scope_for_user(principal=principal, end_user=person)
        return person, None
    access.require_act_for_anybody(principal=principal)
    if upload.team is None:
        return None, None
    team = _find_team(scope, upload.team)
    if team is None:
        raise UnknownTeamError(field="team")
    return None, team


def _find_team(scope: Scope, team: str) -> Team | None:
    rows = Team.objects.in_scope(scope)
    return rows.filter(**{"pk" if is_id(team, prefix="team") else "name": team}).first()


def _shown_to(principal: Principal, scope: Scope) -> ScopedQuerySet[KnowledgeDocument]:
    """Return what a key may look at: of what others share with a person, what was admitted."""
    rows = KnowledgeDocument.objects.in_scope(scope).select_related("end_user")
    if principal.end_user_id is None and Permission.ACT_FOR in principal.permissions:
        return rows
    return rows.filter(Q(end_user__isnull=False) | Q(status=DocumentStatus.ADMITTED))


def _document(principal: Principal, scope: Scope, document_id: str) -> KnowledgeDocument:
    document = _shown_to(principal, scope).filter(pk=document_id).first()
    if document is None:
        raise NotFoundError
    try:
        if document.end_user is not None:
            access.scope_for_user(principal=principal, end_user=document.end_user)
        elif document.team_id is not None and not _acts_for_anybody(principal):
            raise NotFoundError
    except ForbiddenError as error:
        raise NotFoundError from error
    return document


def _require_to_change(principal: Principal, document: KnowledgeDocument) -> None:
    """Let pass who may write for the document's owner: a person's key not for everybody."""
    if document.end_user_id is None:
        access.require_act_for_anybody(principal=principal)


def _acts_for_anybody(principal: Principal) -> bool:
    return principal.end_user_id is not None or Permission.ACT_FOR in principal.permissions
