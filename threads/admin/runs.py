"""Runs: a question, its answer, and how the prompt came to be; read-only."""

from __future__ import annotations

from django.contrib import admin
from django.utils.translation import gettext_lazy as _

from governance.admin.columns import STYLES
from governance.admin.filters import ScopedRelatedFilter
from governance.admin.site import site
from governance.admin.text import shown
from threads.admin.accounts import AccountPage
from threads.admin.uses import UsesPage
from threads.models import Run

TRACE_CHARACTERS = 100_000


@admin.register(Run, site=site)
class RunAdmin(AccountPage, UsesPage):
    """Runs of all threads in scope."""

    class Media:
        css = {"all": (STYLES,)}

    list_display = (
        "id", "tenant", "thread_id", "seq", shown("agent__name", label=_("agent")), "status",
        "origin", "error_code", "input_tokens", "output_tokens", "cost_usd", "created_at",
    )  # fmt: skip
    list_filter = (
        ("tenant", ScopedRelatedFilter),
        ("agent", ScopedRelatedFilter),
        "status",
        "origin",
        ("created_at", admin.DateFieldListFilter),
    )
    list_select_related = ("tenant", "agent")
    list_defer = ("input", "output", "context", "metadata", "agent__system_prompt")
    search_fields = ("=id", "=thread__id", "=external_id")
    fields = (
        "id", "tenant", "thread", "agent", "end_user", "seq", "status", "origin", shown("input"),
        shown("output"), "error_code", shown("error_detail"), shown("external_id"), "bootstrap",
        shown("model"), "input_tokens", "output_tokens", "cost_usd", "is_cost_known", "key_id",
        "decision", "levels", "shown_items", shown("metadata"), "is_time_assumed", "created_at",
        "finished_at", "lease_until", "continues", shown("tool_steps", limit=TRACE_CHARACTERS),
        shown("trace__messages", label=_("prompt as sent"), limit=TRACE_CHARACTERS),
        shown("context", label=_("account as stored")),
        shown("trace__items", label=_("items as stored"), limit=TRACE_CHARACTERS),
        shown("trace__steps", label=_("steps"), limit=TRACE_CHARACTERS),
    )  # fmt: skip
    readonly_fields = fields
