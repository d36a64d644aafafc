"""Erasures with their receipts, legal holds, and links to exports."""

from __future__ import annotations

import json
from datetime import datetime

from django.contrib import admin
from django.contrib.admin.utils import quote, unquote
from django.db.models import QuerySet
from django.http import Http404, HttpRequest, HttpResponse
from django.urls import URLPattern, path, reverse
from django.utils.html import format_html
from django.utils.safestring import SafeString
from django.utils.translation import gettext_lazy as _

from governance.admin.base import ScopedModelAdmin
from governance.admin.columns import STATUS
from governance.admin.filters import ScopedRelatedFilter, WordFilter
from governance.admin.site import site
from governance.admin.text import EMPTY, shown
from governance.erasure.holds import release_hold
from governance.erasure.requests import retry_erasure
from governance.export import revoke_link
from governance.models import Erasure, ExportLink, LegalHold
from governance.permissions import Permission
from memory.errors import ConflictError
from memory.models import EndUser
from memory.scope import Scope


@admin.register(Erasure, site=site)
class ErasureAdmin(ScopedModelAdmin[Erasure]):
    """Erasures, read-only but for the retry of failed ones; each with its receipt."""

    view_permission = Permission.ERASE
    act_permission = Permission.ERASE
    list_display = (
        "id", "tenant", "subject_id", "mode", STATUS, "verified", "total", "requested_by",
        "created_at", "finished_at",
    )  # fmt: skip
    list_filter = (
        ("tenant", ScopedRelatedFilter),
        ("status", WordFilter),
        ("verified", WordFilter),
        ("mode", WordFilter),
    )
    list_select_related = ("tenant",)
    list_defer = ("sealed_needles", "receipt", "findings")
    search_fields = ("=id", "=subject_id", "=requested_by")
    fields = (
        "id", "tenant", "subject_id", "subject_epoch", "mode", "kinds", "before_at", "origin",
        "status", "step", "error_code", "attempts", shown("counts"), "verified",
        shown("findings"), "download", "receipt_sha256", shown("receipt"), "requested_by",
        "created_at", "started_at", "erased_at", "ledgered_at", "verified_at", "finished_at",
    )  # fmt: skip
    readonly_fields = fields
    actions = ("retry",)

    @admin.display(description=_("rows"))
    def total(self, erasure: Erasure) -> int:
        """Return how many rows or places went."""
        return sum(number for number in erasure.counts.values() if isinstance(number, int))

    @admin.display(description=_("receipt as a file"))
    def download(self, erasure: Erasure) -> SafeString:
        """Return the way to the receipt."""
        if not erasure.receipt:
            return EMPTY
        url = reverse("admin:governance_erasure_receipt", args=(quote(erasure.pk),))
        return format_html('<a href="{}">{}</a>', url, f"receipt-{erasure.pk}.json")

    def get_urls(self) -> list[URLPattern]:
        """Return the room's URLs and that of the receipt."""
        view = self.admin_site.admin_view(self.receipt_view)
        name = "governance_erasure_receipt"
        return [path("<path:object_id>/receipt/", view, name=name), *super().get_urls()]

    def receipt_view(self, request: HttpRequest, object_id: str) -> HttpResponse:
        """Return the receipt as a file, with the hash that the erasure's page shows.

        Raises:
            Http404: There is none in scope.
        """
        erasure = self.get_object(request, unquote(object_id))
        if erasure is None or not erasure.receipt:
            raise Http404
        body = {"receipt": erasure.receipt, "sha256": erasure.receipt_sha256}
        response = HttpResponse(
            json.dumps(body, ensure_ascii=False, indent=2), content_type="application/json"
        )
        name = f"receipt-{erasure.pk}.json"
        response["Content-Disposition"] = f'attachment; filename="{name}"'
        return response

    @admin.action(permissions=["act"], description=_("Try again: go on where it failed"))
    def retry(self, request: HttpRequest, rows: QuerySet[Erasure]) -> None:
        """Retry the selected erasures; those that have not failed are counted and left alone."""
        self.act(request, rows, _retry)


def _retry(scope: Scope, erasure_id: str, now: datetime) -> None:
    retry_erasure(scope=scope, erasure_id=erasure_id, now=now)


@admin.register(LegalHold, site=site)
class LegalHoldAdmin(ScopedModelAdmin[LegalHold]):
    """Legal holds: released here, placed on the person's page."""

    view_permission = Permission.ERASE
    act_permission = Permission.ERASE
    list_display = (
        "id", "tenant", "subject_id", "placed_by", "placed_at", "released_by", "released_at",
    )  # fmt: skip
    list_filter = (("tenant", ScopedRelatedFilter), ("placed_at", admin.DateFieldListFilter))
    list_select_related = ("tenant",)
    search_fields = ("=id", "=subject_id")
    fields = (
        "id", "tenant", "subject_id", shown("reason"), "placed_by", "placed_at", "released_by",
        "released_at",
    )  # fmt: skip
    readonly_fields = fields
    actions = ("release",)

    @admin.action(permissions=["act"], description=_("Release: let the person be erased again"))
    def release(self, request: HttpRequest, rows: QuerySet[LegalHold]) -> None:
        """Release the selected holds."""
        self.act(request, rows, _release)


def _release(scope: Scope, hold_id: str, now: datetime) -> None:
    hold = LegalHold.objects.in_scope(scope).filter(pk=hold_id, released_at__isnull=True).first()
    person = EndUser.objects.in_scope(scope).filter(pk=hold.subject_id if hold else "").first()
    if person is None or release_hold(scope=scope, person=person, now=now) is None:
        raise ConflictError


@admin.register(ExportLink, site=site)
class ExportLinkAdmin(ScopedModelAdmin[ExportLink]):
    """Links to exports: ended here, made on the person's page."""

    view_permission = Permission.EXPORT
    act_permission = Permission.EXPORT
    list_display = (
        "id", "tenant", "end_user_id", "created_by", "created_at", "expires_at", "revoked_at",
        "downloads", "last_downloaded_at",
    )  # fmt: skip
    list_filter = (("tenant", ScopedRelatedFilter),)
    list_select_related = ("tenant",)
    list_defer = ("token_sha256",)
    search_fields = ("=id", "=end_user__id")
    fields = (
        "id", "tenant", "end_user", "created_by", "created_at", "expires_at", "revoked_at",
        "downloads", "last_downloaded_at",
    )  # fmt: skip
    readonly_fields = fields
    actions = ("revoke",)

    @admin.action(permissions=["act"], description=_("End these links at once"))
    def revoke(self, request: HttpRequest, rows: QuerySet[ExportLink]) -> None:
        """Revoke the selected links."""
        self.act(request, rows, _revoke)


def _revoke(scope: Scope, link_id: str, now: datetime) -> None:
    revoke_link(scope=scope, link_id=link_id, now=now)
