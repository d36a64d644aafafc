"""Artefacts: the files that runs wrote, read-only and shown as they are."""

from __future__ import annotations

from django.contrib import admin

from governance.admin.base import ScopedModelAdmin
from governance.admin.filters import ScopedRelatedFilter
from governance.admin.site import site
from governance.admin.text import shown
from threads.models import Artifact

CONTENT_CHARACTERS = 100_000


@admin.register(Artifact, site=site)
class ArtifactAdmin(ScopedModelAdmin[Artifact]):
    """Files of all runs in scope."""

    list_display = ("id", "tenant", "run_id", shown("name"), "bytes", "created_at")
    list_filter = (("tenant", ScopedRelatedFilter), ("created_at", admin.DateFieldListFilter))
    list_select_related = ("tenant",)
    list_defer = ("content",)
    search_fields = ("=id", "=run__id", "=thread__id", "name")
    fields = (
        "id", "tenant", "thread", "run", "end_user", shown("name"), "bytes",
        shown("content", limit=CONTENT_CHARACTERS), "created_at",
    )  # fmt: skip
    readonly_fields = fields
