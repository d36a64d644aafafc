"""Core memory itself: what holds about whom, since when, decided by whom; and what held before."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from typing import Any

from django import forms
from django.contrib import admin
from django.contrib.admin.helpers import ActionForm
from django.db.models import Case, Q, QuerySet, Value, When
from django.http import HttpRequest
from django.utils.translation import gettext as _now
from django.utils.translation import gettext_lazy as _

from governance.admin.columns import PII
from governance.admin.deciding import Asked, Choice, DecidingAdmin
from governance.admin.filters import (
    PersonalDataFilter,
    ScopedRelatedFilter,
    WordFilter,
)
from governance.admin.forms_of_decisions import DecisionForm
from governance.admin.people import PERSON
from governance.admin.site import site
from governance.admin.text import shown, visible
from governance.core.clearing import MOST_FACT_CHARACTERS, MOST_SUBJECT_CHARACTERS
from governance.core.facts import change_fact, delete_fact
from governance.decisions import DecidedBy
from governance.permissions import Permission
from memory.models import CoreFact
from memory.sanitize import sanitize
from memory.scope import Scope

_HOLDS = frozenset({""})


class FactForm(DecisionForm):
    """A fact in other words."""

    fact = forms.CharField(
        label=_("Fact"),
        max_length=MOST_FACT_CHARACTERS,
        widget=forms.Textarea(attrs={"rows": 2, "cols": 60}),
    )
    subject = forms.CharField(
        label=_("Subject"), max_length=MOST_SUBJECT_CHARACTERS, required=False
    )

    def fill(self, row: CoreFact, evidence: Mapping[str, Any]) -> None:
        """Begin with its words as a prompt would show them."""
        self.initial = {"fact": sanitize(row.fact).text, "subject": sanitize(row.subject).text}


def _change(asked: Asked) -> object:
    return change_fact(
        scope=asked.scope,
        fact_id=asked.row_id,
        by=DecidedBy(kind="staff", id=asked.by),
        now=asked.now,
        fact=asked.values["fact"],
        subject=asked.values["subject"],
    )


def _restore(asked: Asked) -> object:
    return change_fact(
        scope=asked.scope,
        fact_id=asked.row_id,
        by=DecidedBy(kind="staff", id=asked.by),
        now=asked.now,
        is_restored=True,
    )


def _delete(asked: Asked) -> None:
    delete_fact(scope=asked.scope, fact_id=asked.row_id, now=asked.now)


@admin.register(CoreFact, site=site)
class CoreFactAdmin(DecidingAdmin[CoreFact]):
    """Facts that hold, then those that ended, with what took their place."""

    act_permission = Permission.CONFIRM
    action_form = ActionForm
    status_field = "end_reason"
    waiting = ("",)
    seen_fields = ("fact", "subject")
    choices = (
        Choice(name="change", label=_("Change"), act=_change, statuses=_HOLDS, form=FactForm),
        Choice(
            name="restore", label=_("Restore"), act=_restore, statuses=frozenset({"evicted"})
        ),
        Choice(
            name="delete", label=_("Delete for good"), act=_delete,
            statuses=_HOLDS | {"superseded", "evicted"}, is_final=True,
        ),
    )  # fmt: skip
    has_queue = False
    list_display = (
        shown("fact", label=_("fact")), "standing", "valid_from", "valid_to", "last_used_at",
        shown("subject", label=_("subject")), "decided_by_kind", PII,
        PERSON, "tenant", "id",
    )  # fmt: skip
    list_filter = (
        ("tenant", ScopedRelatedFilter),
        ("end_reason", WordFilter),
        PersonalDataFilter,
        ("valid_from", admin.DateFieldListFilter),
    )
    list_select_related = ("tenant",)
    search_fields = ("=id", "=end_user__id", "fact", "subject")
    fields = (
        "id", "tenant", "end_user", shown("fact", label=_("fact")),
        shown("subject", label=_("subject")), "confidence", "tier", "origin", "run", "candidate",
        "valid_from", "valid_to", "standing", "superseded_by", "last_used_at", "decided_by_kind",
        "decided_by_id", PII, "created_at", "updated_at",
    )  # fmt: skip
    readonly_fields = fields
    actions = ("remove",)

    def get_ordering(self, request: HttpRequest) -> Any:
        """Return what holds first, the newest first."""
        holds = Case(When(valid_to__isnull=True, then=Value(0)), default=Value(1))
        return (holds.asc(), "-valid_from", "-id")

    @admin.display(description=_("standing"))
    def standing(self, fact: CoreFact) -> str:
        """Say whether a fact holds, or why it does not."""
        return _now(fact.get_end_reason_display()) if fact.end_reason else _now("Holds")

    @admin.action(permissions=["act"], description=_("Delete for good"))
    def remove(self, request: HttpRequest, rows: QuerySet[CoreFact]) -> None:
        """Delete the selected facts, and what led to them."""
        self.act(request, rows, _remove)

    def evidence(self, scope: Scope, row: CoreFact) -> dict[str, Any]:
        """Return the facts of the same subject that held before and after it. Cost: one query."""
        rows = CoreFact.objects.in_scope(scope).filter(end_user_id=row.end_user_id)
        about = Q(superseded_by_id=row.pk) | Q(pk=row.superseded_by_id or "")
        if row.subject:
            about |= Q(subject=row.subject)
        others = rows.filter(about).exclude(pk=row.pk).order_by("-valid_from", "-id")[:50]
        return {
            "panel": "admin/governance/corefact/evidence.html",
            "headline": visible(row.fact),
            "about": visible(row.subject),
            "history": [{"row": one, "fact": visible(one.fact)} for one in others],
        }


def _remove(scope: Scope, fact_id: str, now: datetime) -> None:
    delete_fact(scope=scope, fact_id=fact_id, now=now)
