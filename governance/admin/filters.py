"""Filters of the sidebar that offer nothing from outside the scope."""

from __future__ import annotations

from typing import Any

from django.contrib import admin
from django.db import models
from django.http import HttpRequest

from governance.admin.staff import scope_for
from governance.admin.text import label_of
from governance.permissions import Permission

MAX_CHOICES = 100


class ScopedRelatedFilter(admin.RelatedFieldListFilter):
    """Filters by a related walled row; offers the newest 100 rows in scope. Cost: one query."""

    def field_choices(
        self, field: Any, request: HttpRequest, model_admin: admin.ModelAdmin[Any]
    ) -> list[tuple[str, Any]]:
        """Return (id, label) of the related rows in scope."""
        scope = scope_for(request, Permission.VIEW)
        if scope is None:
            return []
        related = field.remote_field.model._default_manager
        rows = related.in_scope(scope).order_by("-pk")[:MAX_CHOICES]
        return [(row.pk, label_of(row)) for row in rows]


FilterEntry = str | tuple[str, type[admin.FieldListFilter]]


def filter_parameters(
    model: type[models.Model], entries: tuple[FilterEntry, ...]
) -> frozenset[str]:
    """Return the query parameters that these filters use: no list takes any other look-up.

    Django lets every own column be filtered with every look-up, which is an oracle on columns that
    are not shown (a digest, a sealed key).
    """
    found: set[str] = set()
    for entry in entries:
        name = entry if isinstance(entry, str) else entry[0]
        field = model._meta.get_field(name)
        if isinstance(field, models.ForeignKey):
            found.add(f"{name}__{field.target_field.name}__exact")
        elif isinstance(field, models.DateTimeField):
            found.update({f"{name}__gte", f"{name}__lt"})
        else:
            found.add(f"{name}__exact")
        found.add(f"{name}__isnull")
    return frozenset(found)
