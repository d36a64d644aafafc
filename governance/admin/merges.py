"""Entities that may be one: merged, refused, and merges undone."""

from __future__ import annotations

from typing import Any

from django.contrib import admin
from django.utils.safestring import SafeString
from django.utils.translation import gettext_lazy as _

from governance.admin.columns import AGE, STATUS
from governance.admin.deciding import Asked, Choice, DecidingAdmin
from governance.admin.filters import ScopedRelatedFilter, WordFilter
from governance.admin.people import linked
from governance.admin.site import site
from governance.admin.text import shown, visible
from governance.entities.merges import merge, refuse_merge, unmerge
from memory.errors import NotFoundError
from memory.models import EntityMerge
from memory.scope import Scope


def _merge(asked: Asked) -> object:
    row = _row(asked)
    return merge(
        scope=asked.scope,
        source_id=row.source_id,
        target_id=row.target_id,
        by=asked.by,
        now=asked.now,
    )


def _refuse(asked: Asked) -> object:
    return refuse_merge(scope=asked.scope, merge_id=asked.row_id, by=asked.by, now=asked.now)


def _undo(asked: Asked) -> object:
    return unmerge(scope=asked.scope, entity_id=_row(asked).source_id, by=asked.by, now=asked.now)


def _row(asked: Asked) -> EntityMerge:
    found = EntityMerge.objects.in_scope(asked.scope).filter(pk=asked.row_id).first()
    if found is None:
        raise NotFoundError
    return found


@admin.register(EntityMerge, site=site)
class EntityMergeAdmin(DecidingAdmin[EntityMerge]):
    """Proposals first, the likest first."""

    waiting = ("proposed",)
    queue_order = ("-score", "-id")
    seen_fields = ("source_id", "target_id")
    choices = (
        Choice(
            name="merge", label=_("Merge"), act=_merge, statuses=frozenset({"proposed", "refused"})
        ),
        Choice(
            name="refuse", label=_("Refuse"), act=_refuse, statuses=frozenset({"proposed"}),
            is_final=True,
        ),
        Choice(
            name="undo", label=_("Undo the merge"), act=_undo, statuses=frozenset({"merged"})
        ),
    )  # fmt: skip
    list_display = (
        shown("source__term", label=_("this one")),
        shown("target__term", label=_("lives on in")), STATUS, "score", AGE, "decided_by",
        "decided_at", "tenant", "id",
    )  # fmt: skip
    list_filter = (("tenant", ScopedRelatedFilter), ("status", WordFilter))
    list_select_related = ("tenant", "source", "target")
    search_fields = ("=id", "=source__id", "=target__id")
    fields = (
        "id", "tenant", linked("source_id", "memory_entity", label=_("this one")),
        linked("target_id", "memory_entity", label=_("lives on in")), "score", STATUS,
        "decided_by", "decided_at", "created_at",
    )  # fmt: skip
    readonly_fields = fields

    def evidence(self, scope: Scope, row: EntityMerge) -> dict[str, Any]:
        """Return both entities side by side. Cost: two queries."""
        sides = [{"row": one, **_told(one)} for one in (row.source, row.target)]
        return {
            "panel": "admin/governance/entitymerge/evidence.html",
            "headline": _pair(row),
            "about": visible(row.source.entity_type),
            "sides": sides,
        }


def _told(entity: Any) -> dict[str, SafeString]:
    return {"term": visible(entity.term), "aliases": visible(", ".join(entity.aliases))}


def _pair(row: EntityMerge) -> SafeString:
    return visible(f"{row.source.term} → {row.target.term}")
