"""What every document passes on its way into the knowledge base: its kind, the gate, once each."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Final

from django.db import connection

from governance import audit, gate
from governance.knowledge import decisions
from governance.knowledge.problems import NotAdmittedError
from governance.knowledge.reading import read_document as read_upload
from governance.policy_rules import PROCESS_KINDS, Policy
from memory import jobs, store
from memory.cleared import Cleared
from memory.models import DocumentStatus, KnowledgeDocument
from memory.scope import Scope

MOST_TITLE_CHARACTERS: Final = 300
FROM_RUN: Final = "run"
_BY_POLICY: Final = "policy"
_LOCK: Final = "SELECT pg_advisory_xact_lock(%s)"


@dataclass(frozen=True, slots=True, kw_only=True)
class ClearedText:
    """What the gate let through of a document."""

    title: Cleared
    content: Cleared

    @property
    def is_held(self) -> bool:
        """Whether policy wants a person to look at it first."""
        return self.title.is_held or self.content.is_held


def check_kind(*, policy: Policy, kind: str) -> None:
    """Let pass a kind of the tenant's list.

    Raises:
        NotAdmittedError: It is process data, or not on the list.
    """
    if kind in PROCESS_KINDS:
        detail = "What people said while working (comments, chats) never enters the knowledge base."
        raise NotAdmittedError(detail)
    if kind not in policy.names("knowledge_kinds"):
        raise NotAdmittedError("This kind is not on the tenant's list (policy knowledge_kinds).")


def clear_text(
    *, raw: bytes, title: str, media_type: str, policy: Policy, run_status: str | None = None
) -> ClearedText:
    """Read a file and return what of it may be remembered; outside of any transaction.

    Raises:
        NotAdmittedError: The gate let nothing through.
        UnreadableDocumentError: The file can not be read, or as governance.knowledge.reading has it.
    """
    read = read_upload(raw=raw, media_type=media_type)
    name = " ".join(title.split())
    content = gate.admit(text=read, tier="material", policy=policy, run_status=run_status)
    cleared = gate.admit(text=name, tier="material", policy=policy, run_status=run_status)
    if isinstance(content, gate.Blocked) or isinstance(cleared, gate.Blocked):
        raise NotAdmittedError("Nothing is left of this document that may be remembered.")
    return ClearedText(title=cleared.part(start=0, end=MOST_TITLE_CHARACTERS), content=content)


def store_once(
    *, scope: Scope, mine: store.NewDocument, policy: Policy, now: datetime
) -> tuple[KnowledgeDocument, bool]:
    """Store a document unless it is there already; return it, and whether it is new.

    Inside the caller's transaction. It waits unless policy admits at once; what is to be held waits
    in any case. What a run left and somebody refused is not offered again. Cost: up to seven
    statements.
    """
    _one_at_a_time(scope, mine)
    same = _same_as(scope, mine)
    if same is not None:
        return same, False
    is_held = mine.title.is_held or mine.content.is_held
    if policy.is_on("knowledge_admit") and not is_held:
        mine = replace(mine, status=DocumentStatus.ADMITTED, decided_by=_BY_POLICY)
    document = store.add_document(scope=scope, document=mine, now=now)
    if document.status == DocumentStatus.ADMITTED:
        jobs.enqueue(scope=scope, job=decisions.index_job(document), now=now)
    _audit(scope, document, mine, now)
    return document, True


def _one_at_a_time(scope: Scope, mine: store.NewDocument) -> None:
    """Let the same text of the same owner wait for the one before it, until that has committed."""
    name = f"{scope.tenant_id} {mine.end_user_id} {mine.team_id} {mine.sha256}"
    digest = hashlib.sha256(name.encode()).digest()
    with connection.cursor() as cursor:
        cursor.execute(_LOCK, (int.from_bytes(digest[:8], "big", signed=True),))


def _same_as(scope: Scope, mine: store.NewDocument) -> KnowledgeDocument | None:
    rows = KnowledgeDocument.objects.in_scope(scope).filter(kind=mine.kind, sha256=mine.sha256)
    rows = rows.filter(end_user_id=mine.end_user_id, team_id=mine.team_id)
    if mine.origin != FROM_RUN:
        rows = rows.exclude(status=DocumentStatus.REFUSED).filter(as_of=mine.as_of)
    return rows.select_related("end_user").order_by("id").first()


def _audit(
    scope: Scope, document: KnowledgeDocument, mine: store.NewDocument, now: datetime
) -> None:
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
        cleared=(mine.title, mine.content),
        now=now,
        run_id=mine.run_id,
        origin=document.origin,
    )
