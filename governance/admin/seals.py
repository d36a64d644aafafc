"""The links of the audit chain, and checking it."""

from __future__ import annotations

from typing import Any

from django.contrib import admin
from django.contrib.admin.utils import unquote
from django.core.exceptions import PermissionDenied
from django.http import HttpRequest, HttpResponse
from django.template.response import TemplateResponse
from django.urls import URLPattern, path
from django.utils.translation import gettext as _now

from governance.admin.base import ScopedModelAdmin
from governance.admin.columns import STYLES
from governance.admin.filters import ScopedRelatedFilter
from governance.admin.sealed_rows import page_of_rows, rows_behind
from governance.admin.site import site
from governance.admin.staff import scope_for
from governance.models import AuditSeal
from governance.permissions import Permission
from governance.sealing import Head, read_heads, verify
from memory.models import Tenant


@admin.register(AuditSeal, site=site)
class AuditSealAdmin(ScopedModelAdmin[AuditSeal]):
    """Links of the chain with what they cover, where view_audit is granted; and its check."""

    view_permission = Permission.VIEW_AUDIT
    list_display = ("id", "tenant", "seq", "entries", "hash", "sealed_at")
    list_filter = (("tenant", ScopedRelatedFilter), ("sealed_at", admin.DateFieldListFilter))
    list_select_related = ("tenant",)
    search_fields = ("=id", "=hash")
    fields = (
        "id", "tenant", "seq", "entries", "root", "previous_hash", "hash", "sealed_at",
    )  # fmt: skip
    readonly_fields = fields
    change_form_template = "admin/governance/auditseal/change_form.html"
    change_list_template = "admin/governance/auditseal/change_list.html"

    class Media:
        css = {"all": (STYLES,)}

    def get_urls(self) -> list[URLPattern]:
        """Return the room's URLs and that of the check."""
        view = self.admin_site.admin_view(self.verify_view)
        return [path("verify/", view, name="governance_auditseal_verify"), *super().get_urls()]

    def change_view(
        self,
        request: HttpRequest,
        object_id: str,
        form_url: str = "",
        extra_context: dict[str, Any] | None = None,
    ) -> HttpResponse:
        """Show the link with a page (`?p=`) of the rows that it seals. Cost: five queries more."""
        seal = self.get_object(request, unquote(object_id))
        scope = scope_for(request, self.view_permission)
        context = dict(extra_context or {})
        if seal is not None and scope is not None:
            own = scope.for_tenant(tenant_id=seal.tenant_id)
            page = page_of_rows(scope=own, seal=seal, number=request.GET.get("p"))
            context |= {
                "seal": seal,
                "leaves": page,
                "rows": rows_behind(scope=own, leaves=list(page)),
            }
        return super().change_view(request, object_id, form_url, context)

    def verify_view(self, request: HttpRequest) -> HttpResponse:
        """Check the chain of each tenant that is granted, when asked by a post; else offer that.

        It reads every sealed row, so no link or image elsewhere may start it. Where the file of
        heads can not be read, the page says so and checks the chain alone.

        Raises:
            PermissionDenied: view_audit is granted on no tenant.
        """
        scope = scope_for(request, Permission.VIEW_AUDIT)
        if scope is None:
            raise PermissionDenied
        tenants = Tenant.objects.in_scope(scope).order_by("slug", "id")
        context = self.admin_site.each_context(request) | {
            "title": _now("Check of the audit chain"),
            "opts": self.opts,
            "tenants": tenants,
            "media": self.media,
        }
        if request.method == "POST":
            heads = _exported_heads()
            context["are_heads_unreadable"] = heads is None
            context["reports"] = [
                {
                    "tenant": tenant,
                    "report": verify(scope=scope.for_tenant(tenant_id=tenant.pk), heads=heads),
                }
                for tenant in tenants
            ]
        return TemplateResponse(request, "admin/governance/auditseal/verify.html", context)


def _exported_heads() -> list[Head] | None:
    """Return the exported heads, or None where the file is broken or closed to us."""
    try:
        return read_heads()
    except (OSError, ValueError):
        return None
