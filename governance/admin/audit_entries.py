"""The audit log, for those who may read it."""

from __future__ import annotations

from django.contrib import admin

from governance.admin.base import ScopedModelAdmin
from governance.admin.filters import ScopedRelatedFilter
from governance.admin.site import site
from governance.admin.text import shown
from governance.models import AuditEntry
from governance.permissions import Permission


@admin.register(AuditEntry, site=site)
class AuditEntryAdmin(ScopedModelAdmin[AuditEntry]):
    """Audit entries, read-only, of the tenants where view_audit is granted."""

    view_permission = Permission.VIEW_AUDIT
    list_display = ("id", "at", "tenant", "actor", "action", "target_kind", "target_id")
    list_filter = (("tenant", ScopedRelatedFilter), ("at", admin.DateFieldListFilter))
    list_select_related = ("tenant",)
    list_defer = ("detail",)
    search_fields = ("=id", "=actor", "=action", "=target_id")
    fields = (
        "id", "at", "tenant", "actor", "action", "target_kind", "target_id", shown("detail"),
    )  # fmt: skip
    readonly_fields = fields
