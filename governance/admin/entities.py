"""The vocabulary: entities with their weights, how these came to be, and the decay of idle ones."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime, timedelta
from typing import Any, Final

from django import forms
from django.contrib import admin, messages
from django.core.exceptions import PermissionDenied
from django.db.models import Q, QuerySet, Value
from django.db.models.functions import Coalesce
from django.db.models.lookups import LessThanOrEqual
from django.http import HttpRequest, HttpResponse, HttpResponseRedirect
from django.template.response import TemplateResponse
from django.urls import URLPattern, path, reverse
from django.utils import timezone
from django.utils.formats import number_format
from django.utils.translation import gettext as _now
from django.utils.translation import gettext_lazy as _

from governance.admin.columns import STATUS
from governance.admin.curves import curve_of
from governance.admin.deciding import Asked, Choice, DecidingAdmin
from governance.admin.filters import ScopedRelatedFilter, WordFilter
from governance.admin.forms_of_decisions import DecisionForm
from governance.admin.people import linked
from governance.admin.site import site
from governance.admin.staff import scope_for
from governance.admin.text import EMPTY, shown, visible
from governance.entities.editing import EntityChange, change_entity
from governance.entities.merges import unmerge
from governance.entities.weights import DecayReport, decay
from governance.models import EntityCandidate
from memory.models import Entity, EntityEvent, EntityStatus, Tenant
from memory.rls import scoped_transaction
from memory.sanitize import sanitize
from memory.scope import Scope

_ACTIVE = frozenset({"active"})
FIRST_ROWS: Final = 20
_MOST_EVENTS: Final = 100
_MOST_MERGED: Final = 50


class NamesForm(DecisionForm):
    """An entity's term and its other names, one a line."""

    term = forms.CharField(label=_("Term"), max_length=120)
    aliases = forms.CharField(
        label=_("Other names, one a line"),
        required=False,
        widget=forms.Textarea(attrs={"rows": 3, "cols": 40}),
    )

    def fill(self, row: Entity, evidence: Mapping[str, Any]) -> None:
        """Begin with its names, nothing unseen in them."""
        names = [sanitize(name).text for name in row.aliases]
        self.initial = {"term": sanitize(row.term).text, "aliases": "\n".join(names)}


def _edit(asked: Asked) -> object:
    names = [line.strip() for line in asked.values["aliases"].splitlines() if line.strip()]
    return _change(asked, EntityChange(term=asked.values["term"], aliases=names))


def _retire(asked: Asked) -> object:
    return _change(asked, EntityChange(status=EntityStatus.RETIRED))


def _activate(asked: Asked) -> object:
    return _change(asked, EntityChange(status=EntityStatus.ACTIVE))


def _unmerge(asked: Asked) -> object:
    return unmerge(scope=asked.scope, entity_id=asked.row_id, by=asked.by, now=asked.now)


def _change(asked: Asked, change: EntityChange) -> object:
    return change_entity(
        scope=asked.scope, entity_id=asked.row_id, change=change, by=asked.by, now=asked.now
    )


@admin.register(Entity, site=site)
class EntityAdmin(DecidingAdmin[Entity]):
    """Entities, the weightiest first."""

    waiting = ("active",)
    has_queue = False
    queue_order = ("-weight", "-id")
    seen_fields = ("term", "aliases")
    change_list_template = "admin/governance/entity/change_list.html"
    choices = (
        Choice(name="edit", label=_("Change names"), act=_edit, statuses=_ACTIVE, form=NamesForm),
        Choice(name="retire", label=_("Retire"), act=_retire, statuses=_ACTIVE, is_final=True),
        Choice(
            name="activate", label=_("Activate again"), act=_activate,
            statuses=frozenset({"retired"}),
        ),
        Choice(
            name="unmerge", label=_("Undo the merge"), act=_unmerge,
            statuses=frozenset({"merged"}),
        ),
    )  # fmt: skip
    list_display = (
        shown("term", label=_("term")), "weighs", STATUS, "idle_days", "last_hit_at",
        shown("entity_type", label=_("type")), "aka", "approved_at", "tenant", "id",
    )  # fmt: skip
    list_filter = (
        ("tenant", ScopedRelatedFilter),
        ("status", WordFilter),
        ("last_hit_at", admin.DateFieldListFilter),
    )
    list_select_related = ("tenant",)
    search_fields = ("=id", "term", "=entity_type")
    fields = (
        "id", "tenant", shown("term", label=_("term")), shown("entity_type", label=_("type")),
        "aka", "weighs", STATUS, linked("merged_into_id", "memory_entity", label=_("merged into")),
        linked("candidate_id", "governance_entitycandidate", label=_("candidate")), "last_hit_at",
        "idle_days", "last_decayed_at", "approved_at", "approved_by", "created_at", "updated_at",
    )  # fmt: skip
    readonly_fields = fields

    @admin.display(description=_("aliases"))
    def aka(self, entity: Entity) -> str:
        """Return the other names."""
        return visible(", ".join(entity.aliases), limit=200) if entity.aliases else EMPTY

    @admin.display(description=_("weight"))
    def weighs(self, entity: Entity) -> str:
        """Return the weight in the reader's figures."""
        return number_format(entity.weight, 3)

    @admin.display(description=_("idle days"))
    def idle_days(self, entity: Entity) -> int:
        """Return for how many days no run has named it."""
        return max(0, (timezone.now() - (entity.last_hit_at or entity.approved_at)).days)

    def evidence(self, scope: Scope, row: Entity) -> dict[str, Any]:
        """Return how its weight came to be, its evidence and what lives on in it. Cost: 3 queries."""
        events = EntityEvent.objects.in_scope(scope).filter(entity_id=row.pk)
        newest = list(events.order_by("-at", "-id")[:_MOST_EVENTS])
        merged = Entity.objects.in_scope(scope).filter(merged_into_id=row.pk)[:_MOST_MERGED]
        candidates = EntityCandidate.objects.in_scope(scope).filter(entity_id=row.pk)
        return {
            "panel": "admin/governance/entity/evidence.html",
            "headline": visible(row.term),
            "about": visible(row.entity_type),
            "events": [{"row": one, "kind": _now(one.kind)} for one in newest],
            "curve": curve_of(newest[::-1]),
            "merged": [{"row": one, "term": visible(one.term)} for one in merged],
            "candidates": list(candidates.order_by("-updated_at")[:_MOST_MERGED]),
        }

    # -- decay -------------------------------------------------------------------------------

    def get_urls(self) -> list[URLPattern]:
        """Return the room's URLs and the page of the decay."""
        view = self.admin_site.admin_view(self.decay_view)
        return [path("decay/", view, name="memory_entity_decay"), *super().get_urls()]

    def changelist_view(
        self, request: HttpRequest, extra_context: dict[str, Any] | None = None
    ) -> HttpResponse:
        """Show the list, with the way to the decay for those who may."""
        own = {"may_decay": self.has_act_permission(request)}
        return super().changelist_view(request, own | (extra_context or {}))

    def decay_view(self, request: HttpRequest) -> HttpResponse:
        """Show what a decay would change, and do it only when that is posted.

        Raises:
            PermissionDenied: It is granted nowhere, or not on the posted tenant.
        """
        scope = scope_for(request, self.act_permission)
        if scope is None:
            raise PermissionDenied
        if request.method == "POST":
            return self._decay(request, scope)
        now = timezone.now()
        previews = [
            preview(scope=scope.for_tenant(tenant_id=tenant_id), now=now)
            for tenant_id in scope.tenant_ids
        ]
        context = self.admin_site.each_context(request) | {
            "title": _("Decay idle weights"),
            "opts": self.opts,
            "previews": previews,
            "media": self.media,
        }
        return TemplateResponse(request, "admin/governance/entity/decay.html", context)

    def _decay(self, request: HttpRequest, scope: Scope) -> HttpResponse:
        tenant_id = request.POST.get("tenant", "")
        if tenant_id not in scope.tenant_ids:
            raise PermissionDenied
        report = decay(scope=scope.for_tenant(tenant_id=tenant_id), now=timezone.now())
        text = _("%(count)d weights were lowered.") % {"count": report.decayed}
        messages.success(request, text)
        return HttpResponseRedirect(reverse("admin:memory_entity_changelist"))


def preview(*, scope: Scope, now: datetime) -> dict[str, Any]:
    """Return what a decay of one tenant would change: how many, and the first rows.

    Cost: four queries.
    """
    report = decay(scope=scope, now=now, is_dry_run=True)
    with scoped_transaction(scope):
        tenant = Tenant.objects.in_scope(scope).get()
        rows = [
            {
                "row": one,
                "term": visible(one.term),
                "after": max(one.weight * report.factor, report.floor),
            }
            for one in idle_entities(scope=scope, report=report, now=now)[:FIRST_ROWS]
        ]
    return {"tenant": tenant, "report": report, "rows": rows, "more": report.decayed - len(rows)}


def idle_entities(*, scope: Scope, report: DecayReport, now: datetime) -> QuerySet[Entity]:
    """Return the query of the entities that a decay would lower, the weightiest first."""
    before = now - timedelta(days=report.idle_days)
    rested = Q(last_decayed_at__isnull=True) | Q(last_decayed_at__lte=before)
    rows = Entity.objects.in_scope(scope).filter(rested, status=EntityStatus.ACTIVE)
    idle = LessThanOrEqual(Coalesce("last_hit_at", "approved_at"), Value(before))
    return rows.filter(idle, weight__gt=report.floor).order_by("-weight", "id")
