"""Tenants: looked at, suspended and activated."""

from __future__ import annotations

from typing import Any

from django.contrib import admin
from django.db.models import QuerySet
from django.http import HttpRequest
from django.utils.translation import gettext_lazy as _

from governance.admin.base import ScopedModelAdmin
from governance.admin.site import site
from governance.admin.suspension import activate_tenant, suspend_tenant
from governance.admin.text import shown
from governance.permissions import Permission
from memory.models import Tenant


@admin.register(Tenant, site=site)
class TenantAdmin(ScopedModelAdmin[Tenant]):
    """Tenants: looked at, suspended and activated; made by the create_tenant command."""

    act_permission = Permission.MANAGE_POLICY
    list_display = ("id", "slug", shown("name"), "status", "created_at")
    list_filter = ("status",)
    search_fields = ("=id", "slug", "name")
    fields = ("id", "slug", shown("name"), "status", "created_at")
    actions = ("suspend", "activate")

    def get_readonly_fields(
        self, request: HttpRequest, obj: Tenant | None = None
    ) -> tuple[Any, ...]:
        """Everything: nothing is edited here."""
        return self.fields

    @admin.action(permissions=["act"], description=_("Suspend: stop serving its API keys"))
    def suspend(self, request: HttpRequest, rows: QuerySet[Tenant]) -> None:
        """Suspend the selected tenants."""
        self.act(request, rows, suspend_tenant)

    @admin.action(permissions=["act"], description=_("Activate: serve its API keys again"))
    def activate(self, request: HttpRequest, rows: QuerySet[Tenant]) -> None:
        """Activate the selected tenants."""
        self.act(request, rows, activate_tenant)
