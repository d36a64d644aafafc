"""Knowledge documents: read, then admitted or refused with a reason."""

from __future__ import annotations

from datetime import datetime
from functools import partial

from django import forms
from django.contrib import admin
from django.contrib.admin.helpers import ActionForm
from django.db.models import QuerySet
from django.http import HttpRequest
from django.utils.translation import gettext_lazy as _

from governance.admin.base import ScopedModelAdmin
from governance.admin.filters import ScopedRelatedFilter
from governance.admin.site import site
from governance.admin.text import shown
from governance.decisions import MOST_REASON_CHARACTERS
from governance.knowledge.decisions import admit_document, refuse_document
from governance.permissions import Permission
from memory.models import KnowledgeDocument
from memory.scope import Scope

CONTENT_CHARACTERS = 100_000


class RefusalForm(ActionForm):
    """The bar of actions, with room for why documents are refused."""

    reason = forms.CharField(
        required=False, max_length=MOST_REASON_CHARACTERS, label=_("Reason for refusing")
    )


@admin.register(KnowledgeDocument, site=site)
class KnowledgeDocumentAdmin(ScopedModelAdmin[KnowledgeDocument]):
    """Documents of all owners in scope; the text is shown as it was read."""

    act_permission = Permission.APPROVE
    action_form = RefusalForm
    list_display = (
        "id", "tenant", shown("title"), shown("kind"), "status", "tier", "end_user_id", "team_id",
        "bytes", "chunk_count", "created_at",
    )  # fmt: skip
    list_filter = (
        ("tenant", ScopedRelatedFilter),
        "status",
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
        self.act(request, rows, _admit)

    @admin.action(permissions=["act"], description=_("Refuse, for the reason given"))
    def refuse(self, request: HttpRequest, rows: QuerySet[KnowledgeDocument]) -> None:
        """Refuse the selected documents."""
        reason = request.POST.get("reason", "")[:MOST_REASON_CHARACTERS]
        self.act(request, rows, partial(_refuse, reason=reason))


def _admit(scope: Scope, document_id: str, now: datetime) -> None:
    admit_document(scope=scope, document_id=document_id, now=now)


def _refuse(scope: Scope, document_id: str, now: datetime, *, reason: str) -> None:
    refuse_document(scope=scope, document_id=document_id, now=now, reason=reason)
