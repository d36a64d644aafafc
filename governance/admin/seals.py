"""The links of the audit chain, and checking it."""

from __future__ import annotations

from django.contrib import admin
from django.core.exceptions import PermissionDenied
from django.http import HttpRequest, HttpResponse
from django.template.response import TemplateResponse
from django.urls import URLPattern, path
from django.utils.translation import gettext as _now

from governance.admin.base import ScopedModelAdmin
from governance.admin.columns import STYLES
from governance.admin.filters import ScopedRelatedFilter
from governance.admin.site import site
from governance.admin.staff import scope_for
from governance.models import AuditSeal
from governance.permissions import Permission
from governance.sealing import Head, read_heads, verify
from memory.models import Tenant


@admin.register(AuditSeal, site=site)
class AuditSealAdmin(ScopedModelAdmin[AuditSeal]):
    """Links of the chain, read-only, where view_audit is granted; and the page that checks it."""

    view_permission = Permission.VIEW_AUDIT
    list_display = ("id", "tenant", "seq", "entries", "hash", "sealed_at")
    list_filter = (("tenant", ScopedRelatedFilter), ("sealed_at", admin.DateFieldListFilter))
    list_select_related = ("tenant",)
    search_fields = ("=id", "=hash")
    fields = (
        "id", "tenant", "seq", "entries", "root", "previous_hash", "hash", "sealed_at",
    )  # fmt: skip
    readonly_fields = fields
    change_list_template = "admin/governance/auditseal/change_list.html"

    class Media:
        css = {"all": (STYLES,)}

    def get_urls(self) -> list[URLPattern]:
        """Return the room's URLs and that of the check."""
        view = self.admin_site.admin_view(self.verify_view)
        return [path("verify/", view, name="governance_auditseal_verify"), *super().get_urls()]

    def verify_view(self, request: HttpRequest) -> HttpResponse:
        """Check the chain of each tenant that is granted, against the exported heads too.

        Where the file of heads can not be read, the page says so and checks the chain alone.

        Raises:
            PermissionDenied: view_audit is granted on no tenant.
        """
        scope = scope_for(request, Permission.VIEW_AUDIT)
        if scope is None:
            raise PermissionDenied
        heads = _exported_heads()
        tenants = Tenant.objects.in_scope(scope).order_by("slug", "id")
        reports = [
            {
                "tenant": tenant,
                "report": verify(scope=scope.for_tenant(tenant_id=tenant.pk), heads=heads),
            }
            for tenant in tenants
        ]
        context = self.admin_site.each_context(request) | {
            "title": _now("Check of the audit chain"),
            "opts": self.opts,
            "are_heads_readable": heads is not None,
            "reports": reports,
            "media": self.media,
        }
        return TemplateResponse(request, "admin/governance/auditseal/verify.html", context)


def _exported_heads() -> list[Head] | None:
    """Return the exported heads, or None where the file is broken or closed to us."""
    try:
        return read_heads()
    except (OSError, ValueError):
        return None
