"""Messages: the lossless originals, read-only and shown as they are."""

from __future__ import annotations

from django.contrib import admin
from django.db.models import QuerySet
from django.db.models.functions import Left
from django.http import HttpRequest
from django.utils.translation import gettext_lazy as _

from governance.admin.base import ScopedModelAdmin
from governance.admin.filters import ScopedRelatedFilter
from governance.admin.site import site
from governance.admin.text import shown
from threads.models import Message

PREVIEW_CHARACTERS = 120


@admin.register(Message, site=site)
class MessageAdmin(ScopedModelAdmin[Message]):
    """Stored utterances."""

    list_display = (
        "id", "tenant", "thread_id", "run_id", "position", "role",
        shown("preview", label=_("content")), "created_at",
    )  # fmt: skip
    list_filter = (("tenant", ScopedRelatedFilter), "role")
    list_select_related = ("tenant",)
    list_defer = ("content", "tool_calls", "pii")
    search_fields = ("=id", "=thread__id", "=run__id", "=external_id")
    fields = (
        "id", "tenant", "thread", "run", "end_user", "position", "role", shown("content"),
        shown("name"), shown("tool_call_id"), shown("tool_calls"), shown("speaker"),
        shown("external_id"), shown("pii"), "token_count", "created_at",
    )  # fmt: skip
    readonly_fields = fields

    def get_queryset(self, request: HttpRequest) -> QuerySet[Message]:
        """Return the rows in scope with the beginning of their content."""
        return super().get_queryset(request).annotate(preview=Left("content", PREVIEW_CHARACTERS))
