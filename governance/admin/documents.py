"""Knowledge documents: read, then admitted or refused with a reason."""

from __future__ import annotations

from django.contrib import admin
from django.db.models import QuerySet
from django.http import HttpRequest
from django.utils.translation import gettext_lazy as _

from governance.admin.base import ScopedModelAdmin
from governance.admin.bulk_actions import decide_many
from governance.admin.columns import STATUS, TEAM
from governance.admin.filters import ScopedRelatedFilter, WordFilter
from governance.admin.forms_of_decisions import ReasonBar
from governance.admin.people import PERSON
from governance.admin.site import site
from governance.admin.text import shown
from governance.permissions import Permission
from memory.models import KnowledgeDocument

CONTENT_CHARACTERS = 100_000


@admin.register(KnowledgeDocument, site=site)
class KnowledgeDocumentAdmin(ScopedModelAdmin[KnowledgeDocument]):
    """Documents of all owners in scope; the text is shown as it was read."""

    act_permission = Permission.APPROVE
    action_form = ReasonBar
    list_display = (
        "id", "tenant", shown("title"), shown("kind"), STATUS, "tier", PERSON, TEAM,
        "bytes", "chunk_count", "created_at",
    )  # fmt: skip
    list_filter = (
        ("tenant", ScopedRelatedFilter),
        ("status", WordFilter),
        "kind",
        ("created_at", admin.DateFieldListFilter),
    )
    list_select_related = ("tenant",)
    list_defer = ("content",)
    search_fields = ("=id", "title")
    fields = (
        "id", "tenant", "end_user", "team", shown("title"), shown("kind"), "status",
        shown("media_type"), "bytes", "tier", "origin", "as_of", shown("reason"), "decided_by",
        "decided_at", "chunk_count", shown("content", limit=CONTENT_CHARACTERS), "created_at",
    )  # fmt: skip
    readonly_fields = fields
    actions = ("admit", "refuse")

    @admin.action(permissions=["act"], description=_("Admit: let searches find them"))
    def admit(self, request: HttpRequest, rows: QuerySet[KnowledgeDocument]) -> None:
        """Admit the selected documents."""
        decide_many(request=request, rows=rows, kind="document", action="admit")

    @admin.action(permissions=["act"], description=_("Refuse, for the reason given"))
    def refuse(self, request: HttpRequest, rows: QuerySet[KnowledgeDocument]) -> None:
        """Refuse the selected documents."""
        decide_many(request=request, rows=rows, kind="document", action="refuse")
