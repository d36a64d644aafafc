"""Background work: the book of jobs, and what its model calls cost."""

from __future__ import annotations

from datetime import datetime

from django.contrib import admin
from django.db.models import QuerySet
from django.http import HttpRequest
from django.utils.translation import gettext_lazy as _

from governance.admin.base import ScopedModelAdmin
from governance.admin.filters import ScopedRelatedFilter
from governance.admin.site import site
from governance.admin.text import shown
from governance.permissions import Permission
from governance.registers import retry_job
from memory.models import Job, MemoryOp
from memory.scope import Scope


@admin.register(Job, site=site)
class JobAdmin(ScopedModelAdmin[Job]):
    """Jobs, read-only but for the retry of dead ones."""

    act_permission = Permission.MANAGE_POLICY
    list_display = (
        "id", "tenant", "kind", "status", "attempts", "error_code", "thread_id", "created_at",
        "not_before", "finished_at",
    )  # fmt: skip
    list_filter = (("tenant", ScopedRelatedFilter), "status", "kind")
    list_select_related = ("tenant",)
    search_fields = ("=id", "=thread__id", "=error_code")
    fields = (
        "id", "tenant", "end_user", "thread", "run", "kind", shown("dedupe_key"), "status",
        "attempts", "error_code", "not_before", "lease_until", "epoch", "cursor_from", "cursor_to",
        "created_at", "finished_at",
    )  # fmt: skip
    readonly_fields = fields
    actions = ("retry",)

    @admin.action(permissions=["act"], description=_("Retry: run dead jobs again"))
    def retry(self, request: HttpRequest, rows: QuerySet[Job]) -> None:
        """Retry the selected jobs; those that are not dead are counted and left alone."""
        self.act(request, rows, _retry)


def _retry(scope: Scope, job_id: str, now: datetime) -> None:
    retry_job(scope=scope, job_id=job_id, now=now)


@admin.register(MemoryOp, site=site)
class MemoryOpAdmin(ScopedModelAdmin[MemoryOp]):
    """Model calls made for memory, read-only."""

    list_display = (
        "id", "tenant", "at", "kind", shown("model"), "outcome", "input_tokens", "output_tokens",
        "cost_usd", "thread_id",
    )  # fmt: skip
    list_filter = (("tenant", ScopedRelatedFilter), ("at", admin.DateFieldListFilter))
    list_select_related = ("tenant",)
    search_fields = ("=id", "=thread__id", "=outcome")
    fields = (
        "id", "tenant", "at", "kind", shown("model"), "outcome", "input_tokens", "output_tokens",
        "cost_usd", "end_user", "thread", "agent", "job",
    )  # fmt: skip
    readonly_fields = fields
