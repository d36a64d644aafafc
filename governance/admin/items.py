"""Memory items: what agents keep by key, and those held until a person has looked at them."""

from __future__ import annotations

from typing import Any, Final

from django.contrib import admin
from django.db.models import QuerySet
from django.http import HttpRequest, HttpResponse
from django.template.response import TemplateResponse
from django.urls import URLPattern, path
from django.utils.translation import gettext_lazy as _

from governance.admin.columns import PII, STATUS, TEAM, kinds_of
from governance.admin.deciding import Asked, Choice, DecidingAdmin
from governance.admin.filters import PersonalDataFilter, ScopedRelatedFilter, WordFilter
from governance.admin.forms_of_decisions import ReasonForm
from governance.admin.people import PERSON
from governance.admin.site import site
from governance.admin.staff import scope_for
from governance.admin.tagged import tagged_rows
from governance.admin.text import shown, visible
from governance.items.items import refuse_item, release_item
from memory.models import MemoryItem, MemoryItemVersion
from memory.scope import Scope

_HELD = frozenset({"held"})
_MOST_VERSIONS: Final = 50


def _release(asked: Asked) -> object:
    return release_item(scope=asked.scope, item_id=asked.row_id, by=asked.by, now=asked.now)


def _refuse(asked: Asked) -> None:
    refuse_item(
        scope=asked.scope,
        item_id=asked.row_id,
        by=asked.by,
        reason=asked.values["reason"],
        now=asked.now,
    )


@admin.register(MemoryItem, site=site)
class MemoryItemAdmin(DecidingAdmin[MemoryItem]):
    """Items, the held ones first. The list names no content: it is read on the page of one."""

    waiting = ("held",)
    bulk_kind = "memory_item"
    queue_order = ("-updated_at", "-id")
    seen_fields = ("title", "content", "version")
    change_list_template = "admin/governance/memoryitem/change_list.html"
    choices = (
        Choice(name="release", label=_("Release: let it take effect"), act=_release, statuses=_HELD),
        Choice(
            name="refuse", label=_("Refuse and delete"), act=_refuse, statuses=_HELD,
            form=ReasonForm, is_final=True,
        ),
    )  # fmt: skip
    list_display = (
        shown("title", label=_("title")), STATUS, PII, "key", "category", "role", TEAM, "tier",
        "version", "updated_at", PERSON, "tenant", "id",
    )  # fmt: skip
    list_filter = (
        ("tenant", ScopedRelatedFilter),
        ("status", WordFilter),
        ("category", WordFilter),
        PersonalDataFilter,
        ("updated_at", admin.DateFieldListFilter),
    )
    list_select_related = ("tenant",)
    list_defer = ("content", "key_folded")
    search_fields = ("=id", "=key", "=end_user__id", "title")
    fields = (
        "id", "tenant", "end_user", "team", "role", "category", "key",
        shown("title", label=_("title")), shown("content", label=_("content")), STATUS, PII,
        "tier", "origin", "run", "confidence", "expires_at", "version", "written_by", "created_at",
        "updated_at",
    )  # fmt: skip
    readonly_fields = fields
    actions = ("release", "refuse")

    @admin.action(permissions=["act"], description=_("Release: let held ones take effect"))
    def release(self, request: HttpRequest, rows: QuerySet[MemoryItem]) -> None:
        """Release the selected items."""
        self.decide_many(request, rows, "release")

    @admin.action(permissions=["act"], description=_("Refuse and delete held ones, for the reason"))
    def refuse(self, request: HttpRequest, rows: QuerySet[MemoryItem]) -> None:
        """Refuse the selected items."""
        self.decide_many(request, rows, "refuse")

    def evidence(self, scope: Scope, row: MemoryItem) -> dict[str, Any]:
        """Return the item's text, the active one it would replace, and versions. Cost: 2 queries."""
        same = MemoryItem.objects.in_scope(scope).filter(
            end_user_id=row.end_user_id,
            team_id=row.team_id,
            role=row.role,
            category=row.category,
            key=row.key,
        )
        others = same.exclude(pk=row.pk)
        ids = [row.pk, *(one.pk for one in others)]
        versions = MemoryItemVersion.objects.in_scope(scope).filter(item_id__in=ids)
        return {
            "panel": "admin/governance/memoryitem/evidence.html",
            "headline": visible(row.title),
            "about": visible(row.key),
            "said": visible(row.content),
            "kinds": kinds_of(row.pii),
            "others": [_told(one) for one in others],
            "versions": [
                _told(one) for one in versions.order_by("-at", "-version")[:_MOST_VERSIONS]
            ],
        }

    # -- what is tagged as personal ----------------------------------------------------------

    def get_urls(self) -> list[URLPattern]:
        """Return the room's URLs and the page of all that is tagged."""
        view = self.admin_site.admin_view(self.tagged_view)
        return [path("tagged/", view, name="memory_memoryitem_tagged"), *super().get_urls()]

    def tagged_view(self, request: HttpRequest) -> HttpResponse:
        """List rows of all tables whose texts have spans of personal data: kinds and counts only."""
        scope = scope_for(request, self.view_permission)
        context = self.admin_site.each_context(request) | {
            "title": _("Personal data in memory"),
            "opts": self.opts,
            "tables": tagged_rows(scope=scope) if scope else [],
            "media": self.media,
        }
        return TemplateResponse(request, "admin/governance/memoryitem/tagged.html", context)


def _told(row: MemoryItem | MemoryItemVersion) -> dict[str, Any]:
    return {"row": row, "title": visible(row.title), "content": visible(row.content)}
