"""The queue of the vocabulary: terms that corrections proposed, with the corrections."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from django import forms
from django.contrib import admin
from django.db.models import QuerySet
from django.http import HttpRequest
from django.utils.translation import gettext_lazy as _

from governance.admin.columns import AGE, FLAGS, STATUS
from governance.admin.deciding import Asked, Choice, DecidingAdmin
from governance.admin.filters import ScopedRelatedFilter, WordFilter
from governance.admin.forms_of_decisions import DecisionForm, ReasonForm
from governance.admin.site import site
from governance.admin.text import shown, visible
from governance.entities import decisions
from governance.entities.likeness import LEAST_LIKENESS, likeness
from governance.entities.terms import MOST_TERM_CHARACTERS
from governance.models import Correction, EntityCandidate
from memory.models import Entity
from memory.sanitize import sanitize
from memory.scope import Scope

_PENDING = frozenset({"pending"})
EXCERPT_CHARACTERS: Final = 240
_MOST_EVIDENCE: Final = 50
_MOST_COMPARED: Final = 2_000
_MOST_SIMILAR: Final = 10


class TermForm(DecisionForm):
    """Approving under another name or type."""

    term = forms.CharField(label=_("Term"), max_length=MOST_TERM_CHARACTERS)
    entity_type = forms.CharField(label=_("Type"), max_length=40)

    def fill(self, row: EntityCandidate, evidence: Mapping[str, Any]) -> None:
        """Begin with what was proposed, nothing unseen in it."""
        self.initial = {"term": sanitize(row.term).text, "entity_type": row.entity_type}


def _approve(asked: Asked) -> object:
    return decisions.approve_candidate(
        scope=asked.scope,
        candidate_id=asked.row_id,
        by=asked.by,
        now=asked.now,
        term=asked.values.get("term"),
        entity_type=asked.values.get("entity_type"),
    )


def _reject(asked: Asked) -> object:
    return decisions.reject_candidate(
        scope=asked.scope,
        candidate_id=asked.row_id,
        by=asked.by,
        reason=asked.values["reason"],
        now=asked.now,
    )


def _reopen(asked: Asked) -> object:
    return decisions.reopen_candidate(scope=asked.scope, candidate_id=asked.row_id, now=asked.now)


@admin.register(EntityCandidate, site=site)
class EntityCandidateAdmin(DecidingAdmin[EntityCandidate]):
    """Terms that wait, the best supported first."""

    bulk_kind = "entity_candidate"
    queue_order = ("-evidence_count", "-updated_at", "-id")
    seen_fields = ("term", "entity_type")
    choices = (
        Choice(name="approve", label=_("Approve"), act=_approve, statuses=_PENDING),
        Choice(
            name="edit", label=_("Edit and approve"), act=_approve, statuses=_PENDING, form=TermForm
        ),
        Choice(
            name="reject", label=_("Reject"), act=_reject, statuses=_PENDING, form=ReasonForm,
            is_final=True,
        ),
        Choice(
            name="reopen", label=_("Reopen"), act=_reopen, statuses=frozenset({"rejected"})
        ),
    )  # fmt: skip
    list_display = (
        shown("term", label=_("term")), STATUS, "evidence_count", FLAGS, AGE,
        shown("entity_type", label=_("type")), "updated_at", "tenant", "id",
    )  # fmt: skip
    list_filter = (
        ("tenant", ScopedRelatedFilter),
        ("status", WordFilter),
        ("created_at", admin.DateFieldListFilter),
    )
    list_select_related = ("tenant",)
    search_fields = ("=id", "term", "=entity_type")
    fields = (
        "id", "tenant", shown("term", label=_("term")), shown("entity_type", label=_("type")),
        STATUS, FLAGS, "evidence_count", "entity", "first_approved_by", "decided_by", "decided_at",
        shown("reason", label=_("reason")), "created_at", "updated_at",
    )  # fmt: skip
    readonly_fields = fields
    actions = ("approve", "reject")

    @admin.action(permissions=["act"], description=_("Approve: they join the vocabulary"))
    def approve(self, request: HttpRequest, rows: QuerySet[EntityCandidate]) -> None:
        """Approve the selected candidates."""
        self.decide_many(request, rows, "approve")

    @admin.action(permissions=["act"], description=_("Reject, for the reason given"))
    def reject(self, request: HttpRequest, rows: QuerySet[EntityCandidate]) -> None:
        """Reject the selected candidates."""
        self.decide_many(request, rows, "reject")

    def evidence(self, scope: Scope, row: EntityCandidate) -> dict[str, Any]:
        """Return the corrections that name it, and entities much like it. Cost: two queries."""
        rows = Correction.objects.in_scope(scope).filter(candidate_id=row.pk)
        found = rows.select_related("message").order_by("-created_at", "-id")[:_MOST_EVIDENCE]
        return {
            "panel": "admin/governance/entitycandidate/evidence.html",
            "headline": visible(row.term),
            "about": visible(row.entity_type),
            "corrections": [_told(one) for one in found],
            "similar": [one for one in _similar(scope, row) if one["row"].pk != row.entity_id],
        }


def _told(one: Correction) -> dict[str, Any]:
    content = one.message.content if one.message else ""
    return {
        "row": one,
        "wrong": visible(one.wrong),
        "right": visible(one.right),
        "excerpt": visible(excerpt(content, (one.wrong, one.term, one.right))),
        "by": visible(one.created_by),
    }


def excerpt(text: str, words: tuple[str, ...]) -> str:
    """Return the part of a text around the first of these words that is in it."""
    found = [place for word in words if word and (place := text.find(word)) >= 0]
    begin = max(0, (found[0] if found else 0) - EXCERPT_CHARACTERS // 3)
    end = begin + EXCERPT_CHARACTERS
    return f"{'… ' if begin else ''}{text[begin:end]}{' …' if end < len(text) else ''}"


def _similar(scope: Scope, row: EntityCandidate) -> list[dict[str, Any]]:
    """Return entities whose names are much like the candidate's, the likest first."""
    rows = Entity.objects.in_scope(scope).order_by("-updated_at")[:_MOST_COMPARED]
    scored = [
        (max(likeness(row.term, name) for name in (one.term, *one.aliases)), one) for one in rows
    ]
    near = [(score, one) for score, one in scored if score >= LEAST_LIKENESS]
    near.sort(key=lambda one: one[0], reverse=True)
    return [
        {
            "row": one,
            "term": visible(one.term),
            "aliases": visible(", ".join(one.aliases)),
            "score": score,
        }
        for score, one in near[:_MOST_SIMILAR]
    ]
