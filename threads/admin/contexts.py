"""Traces of prompts that callers had assembled and sent to models of their own; read-only."""

from __future__ import annotations

from django.contrib import admin
from django.utils.translation import gettext_lazy as _

from governance.admin.base import ScopedModelAdmin
from governance.admin.filters import ScopedRelatedFilter
from governance.admin.site import site
from governance.admin.text import shown
from threads.admin.accounts import AccountPage
from threads.admin.runs import TRACE_CHARACTERS
from threads.models import ContextTrace


@admin.register(ContextTrace, site=site)
class ContextTraceAdmin(AccountPage, ScopedModelAdmin[ContextTrace]):
    """Answers of the context endpoint."""

    list_display = (
        "id", "tenant", shown("agent__name", label=_("agent")), "thread_id", "key_id", "created_at",
    )  # fmt: skip
    list_filter = (
        ("tenant", ScopedRelatedFilter),
        ("agent", ScopedRelatedFilter),
        ("created_at", admin.DateFieldListFilter),
    )
    list_select_related = ("tenant", "agent")
    list_defer = ("context", "messages", "items", "steps", "agent__system_prompt")
    search_fields = ("=id", "=thread__id")
    fields = (
        "id", "tenant", "agent", "end_user", "thread", "key_id", "created_at", "decision", "levels",
        "shown_items", shown("messages", label=_("prompt as assembled"), limit=TRACE_CHARACTERS),
        shown("steps", limit=TRACE_CHARACTERS),
    )  # fmt: skip
    readonly_fields = fields
