"""Corrections: what people put right, the evidence behind the vocabulary; read-only."""

from __future__ import annotations

from django.contrib import admin
from django.utils.translation import gettext_lazy as _

from governance.admin.base import ScopedModelAdmin
from governance.admin.columns import PII, STYLES
from governance.admin.filters import PersonalDataFilter, ScopedRelatedFilter, TierFilter
from governance.admin.people import PERSON, linked
from governance.admin.site import site
from governance.admin.text import shown
from governance.models import Correction


@admin.register(Correction, site=site)
class CorrectionAdmin(ScopedModelAdmin[Correction]):
    """Corrections of all people in scope."""

    class Media:
        css = {"all": (STYLES,)}

    list_display = (
        shown("term", label=_("term")), shown("wrong", label=_("wrong"), limit=80),
        shown("right", label=_("right"), limit=80), "tier",
        linked("candidate_id", "governance_entitycandidate", label=_("candidate")), "created_at",
        PERSON, "tenant", "id",
    )  # fmt: skip
    list_filter = (
        ("tenant", ScopedRelatedFilter),
        TierFilter,
        PersonalDataFilter,
        ("created_at", admin.DateFieldListFilter),
    )
    list_select_related = ("tenant",)
    search_fields = ("=id", "=thread__id", "=end_user__id", "term")
    fields = (
        "id", "tenant", "end_user", "thread", "run", "message",
        shown("entity_type", label=_("type")), shown("term", label=_("term")),
        shown("wrong", label=_("wrong")), shown("right", label=_("right")), "tier",
        shown("markers", label=_("markers")), PII, "candidate", "created_by", "created_at",
    )  # fmt: skip
    readonly_fields = fields
