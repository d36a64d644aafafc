"""Links under which somebody without a key can fetch a person's export, for a while.

What is stored is the hash of the link's secret; the export is made when it is fetched.
"""

from __future__ import annotations

import hashlib
import hmac
import secrets
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Final

from django.db.models import F

from governance import audit
from governance.export.lines import Export, export_person
from governance.models import ExportLink
from memory.errors import InvalidInputError, NotFoundError
from memory.ids import is_id
from memory.models import EndUser
from memory.rls import scoped_transaction
from memory.scope import Scope

DEFAULT_HOURS: Final = 24
MOST_HOURS: Final = 24 * 7
_SECRET_BYTES: Final = 32


class LinkNotFoundError(NotFoundError):
    """There is no such link, or it has ended; which of the two is not told."""

    code = "not_found"


@dataclass(frozen=True, slots=True, kw_only=True)
class NewLink:
    """A link just made, with the only copy of its token: `<id>.<tenant's id>.<secret>`."""

    link: ExportLink
    token: str

    @property
    def path(self) -> str:
        """Where the export is fetched, from the root of the server."""
        return f"/exports/{self.token}"


def make_link(
    *, scope: Scope, person: EndUser, now: datetime, valid_hours: int = DEFAULT_HOURS
) -> NewLink:
    """Make a link to a person's export, in a transaction of its own; audited.

    Raises:
        InvalidInputError: It would last for no time, or for more than a week.
    """
    if not 1 <= valid_hours <= MOST_HOURS:
        raise InvalidInputError(f"A link lasts 1 to {MOST_HOURS} hours.", field="valid_hours")
    secret = secrets.token_urlsafe(_SECRET_BYTES)
    scope = scope.for_tenant(tenant_id=person.tenant_id)
    link = ExportLink(
        tenant_id=person.tenant_id,
        end_user_id=person.pk,
        token_sha256=_digest(secret),
        created_by=scope.principal_id,
        created_at=now,
        expires_at=now + timedelta(hours=valid_hours),
    )
    with scoped_transaction(scope):
        link.save(force_insert=True)
        audit.record(
            scope=scope,
            action="export_link_made",
            target_kind="export_link",
            target_id=link.pk,
            now=now,
            detail={"end_user": person.pk, "valid_hours": valid_hours},
        )
    return NewLink(link=link, token=f"{link.pk}.{link.tenant_id}.{secret}")


def revoke_link(*, scope: Scope, link_id: str, now: datetime) -> ExportLink:
    """End a link, in a transaction of its own; again changes nothing.

    Raises:
        NotFoundError: There is none in scope.
    """
    with scoped_transaction(scope):
        rows = ExportLink.objects.in_scope(scope).filter(pk=link_id)
        link = rows.select_for_update().first()
        if link is None:
            raise NotFoundError
        if link.revoked_at is None:
            link.revoked_at = now
            link.save(update_fields=["revoked_at"])
            audit.record(
                scope=scope.for_tenant(tenant_id=link.tenant_id),
                action="export_link_revoked",
                target_kind="export_link",
                target_id=link.pk,
                now=now,
            )
        return link


def open_link(*, token: str, now: datetime) -> Export:
    """Return the export a link leads to; counted and audited.

    The token names its tenant, so that the row is looked for in that scope alone. Cost: three
    queries, and those of the export.

    Raises:
        LinkNotFoundError: Unknown, expired, revoked, or its person is gone: all the same.
    """
    link_id, _, rest = token.partition(".")
    tenant_id, _, secret = rest.partition(".")
    if not (is_id(link_id, prefix="exp") and is_id(tenant_id, prefix="tn")):
        raise LinkNotFoundError
    scope = Scope(tenant_ids=(tenant_id,), principal_id=link_id)
    with scoped_transaction(scope):
        link = ExportLink.objects.in_scope(scope).filter(pk=link_id).first()
    # Compared also where there is no link, so that both take the same time.
    stored = link.token_sha256 if link else _digest("")
    is_right = hmac.compare_digest(stored, _digest(secret))
    if link is None or not is_right or link.revoked_at or link.expires_at <= now:
        raise LinkNotFoundError
    with scoped_transaction(scope):
        rows = EndUser.objects.in_scope(scope)
        person = rows.filter(pk=link.end_user_id, erasing_at__isnull=True).first()
        if person is None:
            raise LinkNotFoundError
        links = ExportLink.objects.in_scope(scope).filter(pk=link.pk)
        links.update(downloads=F("downloads") + 1, last_downloaded_at=now)
    return export_person(scope=scope, person=person, user_id=person.user_id, now=now, via="link")


def _digest(secret: str) -> str:
    return hashlib.sha256(secret.encode()).hexdigest()
