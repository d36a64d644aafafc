"""The audit log, for those who may read it."""

from __future__ import annotations

from django.contrib import admin
from django.contrib.admin.utils import quote
from django.urls import reverse
from django.utils.html import format_html
from django.utils.translation import gettext_lazy as _

from governance.admin.base import ScopedModelAdmin
from governance.admin.filters import ScopedRelatedFilter
from governance.admin.site import site
from governance.admin.text import EMPTY, shown
from governance.models import AuditEntry, AuditLeaf
from governance.permissions import Permission
from memory.scope import Scope


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
        "sealed_in",
    )  # fmt: skip
    readonly_fields = fields

    @admin.display(description=_("sealed in"))
    def sealed_in(self, entry: AuditEntry) -> str:
        """Return the way to the link of the chain that seals the entry. Cost: one query."""
        scope = Scope(tenant_ids=(entry.tenant_id,), principal_id="admin")
        leaf = AuditLeaf.objects.in_scope(scope).filter(pk=entry.pk).first()
        if leaf is None:
            return EMPTY
        url = reverse("admin:governance_auditseal_change", args=(quote(leaf.seal_id),))
        return format_html('<a href="{}">{}</a>', url, leaf.seal_id)
