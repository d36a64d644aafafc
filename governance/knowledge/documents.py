"""Documents of the knowledge base: handing them in, listing and reading them, as far as a key reaches.

A document is a person's, a team's, or the whole tenant's. The same text handed in twice by the same
owner as the same kind and of the same date is one document; across owners nothing is compared, so
that nobody learns what others have.
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Final

from django.db import connection
from django.db.models import Q

from governance import access, audit, gate
from governance.access import ForbiddenError, Principal
from governance.knowledge import decisions
from governance.knowledge.problems import NotAdmittedError, UnknownTeamError
from governance.knowledge.reading import read_document as read_upload
from governance.permissions import Permission
from governance.policy import policy_for
from governance.policy_rules import PROCESS_KINDS, Policy
from governance.tenants import ensure_end_user, find_end_user
from memory import jobs, store
from memory.cleared import Cleared
from memory.errors import NotFoundError
from memory.ids import is_id
from memory.models import DocumentStatus, EndUser, KnowledgeDocument, Team
from memory.querysets import ScopedQuerySet
from memory.rls import scoped_transaction
from memory.scope import Scope

MOST_TITLE_CHARACTERS: Final = 300
_BY_POLICY: Final = "policy"
_LOCK: Final = "SELECT pg_advisory_xact_lock(%s)"


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


@dataclass(frozen=True, slots=True, kw_only=True)
class _Text:
    """What the gate let through of an upload."""

    title: Cleared
    content: Cleared

    @property
    def is_held(self) -> bool:
        """Whether policy wants a person to look at it first."""
        return self.title.is_held or self.content.is_held


def reach_of(principal: Principal) -> Scope:
    """Return a principal's widest scope; a key of one person sees that person's teams too.

    Cost: no query, one for a key of one person.
    """
    scope = access.tenant_scope(principal)
    if scope.user_id is None:
        return scope
    with scoped_transaction(scope):
        return access.with_teams(scope)


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
    _check_kind(policy, upload.kind)
    text = _through_the_gate(upload, policy)
    with scoped_transaction(scope):
        mine = _new(principal, scope, upload, text, now)
        _one_at_a_time(scope, mine)
        same = _same_as(scope, mine)
        if same is not None:
            return same, False
        if policy.is_on("knowledge_admit") and not text.is_held:
            mine = replace(mine, status=DocumentStatus.ADMITTED, decided_by=_BY_POLICY)
        document = store.add_document(scope=scope, document=mine, now=now)
        if document.status == DocumentStatus.ADMITTED:
            jobs.enqueue(scope=scope, job=decisions.index_job(document), now=now)
        _audit(scope, document, text, now)
    return document, True


def documents_of(*, principal: Principal, filters: Filters) -> ScopedQuerySet[KnowledgeDocument]:
    """Return the query of the documents in reach, without their text. Cost: up to two queries here.

    Of an unknown person or team there are none.
    """
    scope = reach_of(principal)
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
    scope = reach_of(principal)
    with scoped_transaction(scope):
        return _document(principal, scope, document_id)


def admit(*, principal: Principal, document_id: str, now: datetime) -> KnowledgeDocument:
    """Admit a document that waits.

    Raises:
        NotFoundError: As `read_document`.
        ForbiddenError: It is seen by this key, but belongs to others as well.
        AlreadyDecidedError: It was refused.
    """
    scope = reach_of(principal)
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
    scope = reach_of(principal)
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
    scope = reach_of(principal)
    with scoped_transaction(scope):
        _require_to_change(principal, _document(principal, scope, document_id))
        decisions.delete_document(scope=scope, document_id=document_id, now=now)


def _check_kind(policy: Policy, kind: str) -> None:
    if kind in PROCESS_KINDS:
        detail = "What people said while working (comments, chats) never enters the knowledge base."
        raise NotAdmittedError(detail)
    if kind not in policy.names("knowledge_kinds"):
        raise NotAdmittedError("This kind is not on the tenant's list (policy knowledge_kinds).")


def _through_the_gate(upload: Upload, policy: Policy) -> _Text:
    read = read_upload(raw=upload.raw, media_type=upload.media_type)
    content = gate.admit(text=read, tier="material", policy=policy)
    title = gate.admit(text=" ".join(upload.title.split()), tier="material", policy=policy)
    if isinstance(content, gate.Blocked) or isinstance(title, gate.Blocked):
        raise NotAdmittedError("Nothing is left of this document that may be remembered.")
    return _Text(title=title.part(start=0, end=MOST_TITLE_CHARACTERS), content=content)


def _new(
    principal: Principal, scope: Scope, upload: Upload, text: _Text, now: datetime
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


def _one_at_a_time(scope: Scope, mine: store.NewDocument) -> None:
    """Let the same text of the same owner wait for the one before it, until that has committed."""
    name = f"{scope.tenant_id} {mine.end_user_id} {mine.team_id} {mine.sha256}"
    digest = hashlib.sha256(name.encode()).digest()
    with connection.cursor() as cursor:
        cursor.execute(_LOCK, (int.from_bytes(digest[:8], "big", signed=True),))


def _same_as(scope: Scope, mine: store.NewDocument) -> KnowledgeDocument | None:
    rows = KnowledgeDocument.objects.in_scope(scope).exclude(status=DocumentStatus.REFUSED)
    rows = rows.filter(end_user_id=mine.end_user_id, team_id=mine.team_id, as_of=mine.as_of)
    rows = rows.filter(kind=mine.kind, sha256=mine.sha256)
    return rows.select_related("end_user").order_by("id").first()


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


def _audit(scope: Scope, document: KnowledgeDocument, text: _Text, now: datetime) -> None:
    audit.record(
        scope=scope,
        action="document_submitted",
        target_kind="document",
        target_id=document.pk,
        now=now,
        detail={"kind": document.kind, "tier": document.tier, "status": str(document.status)},
    )
    gate.record_written(
        scope=scope,
        kind="document",
        target_id=document.pk,
        cleared=(text.title, text.content),
        now=now,
        origin=document.origin,
    )
