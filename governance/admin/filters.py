"""Filters of the sidebar that offer nothing from outside the scope."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, ClassVar

from django.contrib import admin
from django.db import models
from django.http import HttpRequest
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy

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


class WordFilter(admin.ChoicesFieldListFilter):
    """Filters by a column of few words, told in the reader's language."""

    def choices(self, changelist: Any) -> Iterator[Any]:
        """Yield the choices as Django does, in words."""
        for choice in super().choices(changelist):
            yield {**choice, "display": _(str(choice["display"]))}


class FixedWordFilter(admin.SimpleListFilter):
    """Filters by a column of known words, without asking the table which of them it has."""

    words: ClassVar[tuple[str, ...]] = ()

    def lookups(self, request: HttpRequest, model_admin: Any) -> list[tuple[str, Any]]:
        """Return the words."""
        return [(word, gettext_lazy(word)) for word in self.words]

    def queryset(
        self, request: HttpRequest, queryset: models.QuerySet[Any]
    ) -> models.QuerySet[Any]:
        """Return the rows with the chosen word."""
        value = self.value()
        return queryset.filter(**{str(self.parameter_name): value}) if value else queryset


class OriginFilter(FixedWordFilter):
    """Filters by where a row came from."""

    title = gettext_lazy("origin")
    parameter_name = "origin"
    words = ("run", "api", "staff", "import")


class TierFilter(FixedWordFilter):
    """Filters corrections by whether anything speaks against believing them."""

    title = gettext_lazy("tier")
    parameter_name = "tier"
    words = ("stated", "untrusted")


class PersonalDataFilter(admin.SimpleListFilter):
    """Filters by whether a text has spans of personal data."""

    title = gettext_lazy("personal data")
    parameter_name = "personal"

    def lookups(self, request: HttpRequest, model_admin: Any) -> list[tuple[str, Any]]:
        """Return the two answers."""
        return [("yes", gettext_lazy("tagged")), ("no", gettext_lazy("none"))]

    def queryset(
        self, request: HttpRequest, queryset: models.QuerySet[Any]
    ) -> models.QuerySet[Any]:
        """Return the rows with or without spans."""
        if self.value() == "yes":
            return queryset.exclude(pii=[])
        return queryset.filter(pii=[]) if self.value() == "no" else queryset


FilterEntry = str | tuple[str, type[admin.FieldListFilter]] | type[admin.SimpleListFilter]


def filter_parameters(
    model: type[models.Model], entries: tuple[FilterEntry, ...]
) -> frozenset[str]:
    """Return the query parameters that these filters use: no list takes any other look-up.

    Django lets every own column be filtered with every look-up, which is an oracle on columns that
    are not shown (a digest, a sealed key).
    """
    found: set[str] = set()
    for entry in entries:
        if not isinstance(entry, str | tuple):
            found.add(str(entry.parameter_name))
            continue
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
