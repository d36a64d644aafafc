"""Decisions about many rows: how far the worker is, and the way to call one off."""

from __future__ import annotations

from datetime import datetime

from django.contrib import admin
from django.db.models import F, Func, IntegerField, QuerySet
from django.http import HttpRequest
from django.utils.html import format_html
from django.utils.safestring import SafeString
from django.utils.translation import gettext_lazy as _

from governance import bulk
from governance.admin.base import ScopedModelAdmin
from governance.admin.columns import STATUS, STYLES
from governance.admin.filters import ScopedRelatedFilter, WordFilter
from governance.admin.site import site
from governance.admin.text import shown
from governance.models import BulkDecision
from governance.permissions import Permission
from memory.scope import Scope


@admin.register(BulkDecision, site=site)
class BulkDecisionAdmin(ScopedModelAdmin[BulkDecision]):
    """What was asked of the worker, newest first."""

    act_permission = Permission.APPROVE

    class Media:
        css = {"all": (STYLES,)}

    list_display = (
        "id", "kind", "action", STATUS, "progress", "decided", "refused", "error_code", "actor",
        "created_at", "tenant",
    )  # fmt: skip
    list_filter = (("tenant", ScopedRelatedFilter), ("status", WordFilter))
    list_select_related = ("tenant",)
    search_fields = ("=id", "=actor")
    fields = (
        "id", "tenant", "kind", "action", shown("reason", label=_("reason")), STATUS, "progress",
        "decided", "refused", "error_code", "actor", "created_at", "updated_at",
    )  # fmt: skip
    readonly_fields = fields
    actions = ("cancel",)

    def get_queryset(self, request: HttpRequest) -> QuerySet[BulkDecision]:
        """Return the rows without their ids, but with their number."""
        counted = Func(F("ids"), function="jsonb_array_length", output_field=IntegerField())
        return super().get_queryset(request).defer("ids").annotate(rows=counted)

    @admin.display(description=_("progress"))
    def progress(self, decision: BulkDecision) -> SafeString:
        """Show how many of how many rows have been looked at."""
        total = getattr(decision, "rows", 0)
        return format_html(
            '<progress value="{}" max="{}"></progress> {} / {}',
            decision.done_upto,
            max(total, 1),
            decision.done_upto,
            total,
        )

    @admin.action(permissions=["act"], description=_("Cancel: decide about no further row"))
    def cancel(self, request: HttpRequest, rows: QuerySet[BulkDecision]) -> None:
        """Cancel the selected decisions; what is decided stays."""
        self.act(request, rows, _cancel)


def _cancel(scope: Scope, bulk_id: str, now: datetime) -> None:
    bulk.cancel(scope=scope, bulk_id=bulk_id, now=now)
