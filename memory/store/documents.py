"""Documents of the knowledge base, as the gate let them through."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from datetime import datetime
from typing import Final

from memory.cleared import Cleared
from memory.models import DocumentStatus, EndUser, KnowledgeDocument, Team
from memory.scope import Scope

_UNTRUSTED: Final = "untrusted"


@dataclass(frozen=True, slots=True, kw_only=True)
class NewDocument:
    """A document to be stored.

    Attributes:
        title: At most 300 characters.
        end_user: Whose it is, or team; with neither it is the whole tenant's.
        size_bytes: Of the file that was handed in.
        origin: `api`, `staff`, `import`, or `run`, which run_id names then.
        decided_by: Who admitted it, where its status says that somebody has.
    """

    title: Cleared
    content: Cleared
    kind: str
    media_type: str
    size_bytes: int
    origin: str
    end_user: EndUser | None = None
    team: Team | None = None
    run_id: str | None = None
    as_of: datetime | None = None
    status: DocumentStatus = DocumentStatus.PENDING
    decided_by: str = ""

    @property
    def sha256(self) -> str:
        """The digest of its text, by which the same text is known again."""
        return hashlib.sha256(self.content.text.encode()).hexdigest()

    @property
    def end_user_id(self) -> str | None:
        """The internal id of whose it is."""
        return self.end_user.pk if self.end_user else None

    @property
    def team_id(self) -> str | None:
        """The id of the team whose it is."""
        return self.team.pk if self.team else None

    @property
    def tier(self) -> str:
        """How far it may be trusted: no further than the lesser of its texts."""
        is_untrusted = _UNTRUSTED in (self.title.tier, self.content.tier)
        return _UNTRUSTED if is_untrusted else self.content.tier


def add_document(*, scope: Scope, document: NewDocument, now: datetime) -> KnowledgeDocument:
    """Store a document and return it. Cost: one INSERT.

    Raises:
        IntegrityError: Its owner is gone, or not of the scope's tenant.
    """
    row = KnowledgeDocument(
        tenant_id=scope.tenant_id,
        end_user=document.end_user,
        team=document.team,
        title=document.title.text,
        kind=document.kind,
        status=document.status,
        media_type=document.media_type,
        content=document.content.text,
        sha256=document.sha256,
        bytes=document.size_bytes,
        tier=document.tier,
        origin=document.origin,
        run_id=document.run_id,
        as_of=document.as_of,
        decided_by=document.decided_by,
        decided_at=now if document.status != DocumentStatus.PENDING else None,
        created_at=now,
    )
    row.save(force_insert=True)
    return row
