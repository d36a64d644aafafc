"""Behaviour samples: proposed by keys or by staff, approved, rejected, retired."""

from __future__ import annotations

from typing import Any

from django import forms
from django.contrib import admin
from django.db.models import QuerySet
from django.http import HttpRequest
from django.utils import timezone
from django.utils.safestring import SafeString
from django.utils.translation import gettext_lazy as _

from governance.admin.columns import AGE, FLAGS, STATUS
from governance.admin.deciding import Asked, Choice, DecidingAdmin
from governance.admin.filters import ScopedRelatedFilter, WordFilter
from governance.admin.forms import ScopedModelForm
from governance.admin.forms_of_decisions import DecisionForm, ReasonForm
from governance.admin.people import linked
from governance.admin.site import site
from governance.admin.text import shown, visible
from governance.behaviour.decisions import approve_sample, reject_sample, retire_sample
from governance.behaviour.proposals import Proposal, propose_sample
from governance.permissions import Permission
from memory.models import BehaviourSample
from memory.scope import Scope

_PENDING = frozenset({"pending"})
WRITTEN = ("tenant", "agent", "kind", "name", "content", "input", "output")


class AnywayForm(DecisionForm):
    """Approving, also what looks like an order to forget."""

    anyway = forms.BooleanField(
        required=False, label=_("I have read it; approve it though it is flagged as an order")
    )


class SampleForm(ScopedModelForm):
    """A sample that staff proposes; which parts it needs follows from its kind."""

    def clean(self) -> dict[str, Any]:
        """Leave the parts to the domain, which says which ones are missing."""
        cleaned = super().clean()
        for name in ("name", "content", "input", "output"):
            cleaned[name] = cleaned.get(name) or ""
        return cleaned


def _approve(asked: Asked) -> object:
    return approve_sample(
        scope=asked.scope,
        sample_id=asked.row_id,
        by=asked.by,
        now=asked.now,
        anyway=asked.values["anyway"],
    )


def _reject(asked: Asked) -> object:
    return reject_sample(
        scope=asked.scope,
        sample_id=asked.row_id,
        by=asked.by,
        reason=asked.values["reason"],
        now=asked.now,
    )


def _retire(asked: Asked) -> object:
    return retire_sample(
        scope=asked.scope,
        sample_id=asked.row_id,
        by=asked.by,
        now=asked.now,
        reason=asked.values["reason"],
    )


@admin.register(BehaviourSample, site=site)
class BehaviourSampleAdmin(DecidingAdmin[BehaviourSample]):
    """Samples that wait first; an approved one is in every prompt until it is retired."""

    add_permission = Permission.APPROVE
    form = SampleForm
    bulk_kind = "behaviour_sample"
    seen_fields = ("name", "content", "input", "output")
    choices = (
        Choice(
            name="approve", label=_("Approve"), act=_approve, statuses=_PENDING, form=AnywayForm
        ),
        Choice(
            name="reject", label=_("Reject"), act=_reject, statuses=_PENDING, form=ReasonForm,
            is_final=True,
        ),
        Choice(
            name="retire", label=_("Retire"), act=_retire, statuses=frozenset({"approved"}),
            form=ReasonForm, is_final=True,
        ),
    )  # fmt: skip
    list_display = (
        "said", "kind", FLAGS, STATUS, AGE, "origin",
        linked("agent_id", "threads_agent", label=_("agent")), "tenant", "id",
    )  # fmt: skip
    list_filter = (("tenant", ScopedRelatedFilter), ("status", WordFilter), ("kind", WordFilter))
    list_select_related = ("tenant",)
    list_defer = ("output",)
    search_fields = ("=id", "name", "content", "=agent__id")
    autocomplete_fields = ("agent",)
    read = (
        "id", "tenant", "agent", "kind", shown("name", label=_("name")),
        shown("content", label=_("text")), shown("input", label=_("input")),
        shown("output", label=_("output")), STATUS, "tier", "origin", FLAGS, "proposed_by",
        "first_approved_by", "decided_by", "decided_at", shown("reason", label=_("reason")),
        "created_at", "updated_at",
    )  # fmt: skip
    actions = ("approve", "reject", "retire")

    def get_fields(self, request: HttpRequest, obj: BehaviourSample | None = None) -> Any:
        """Return what is asked of a new sample, or what is known of an old one."""
        return WRITTEN if obj is None else self.read

    def get_readonly_fields(
        self, request: HttpRequest, obj: BehaviourSample | None = None
    ) -> tuple[Any, ...]:
        """Return nothing for a new sample, everything for an old one."""
        return () if obj is None else self.read

    def store(self, scope: Scope, obj: BehaviourSample, form: Any, *, change: bool) -> None:
        """Propose the sample as the API does; it waits like any other."""
        values = form.cleaned_data
        agent = values.get("agent")
        proposal = Proposal(
            kind=values["kind"],
            origin="staff",
            agent_id=agent.pk if agent else None,
            **{name: values[name] for name in ("name", "content", "input", "output")},
        )
        stored, _is_new = propose_sample(scope=scope, proposal=proposal, now=timezone.now())
        obj.__dict__.update(stored.__dict__)

    @admin.display(description=_("text"))
    def said(self, sample: BehaviourSample) -> SafeString:
        """Return how a sample begins: its name and text, or its input."""
        parts = (sample.name, sample.content or sample.input)
        return visible(": ".join(part for part in parts if part), limit=160)

    @admin.action(permissions=["act"], description=_("Approve: prompts say them from now on"))
    def approve(self, request: HttpRequest, rows: QuerySet[BehaviourSample]) -> None:
        """Approve the selected samples; flagged ones are approved on their own pages only."""
        self.decide_many(request, rows, "approve")

    @admin.action(permissions=["act"], description=_("Reject, for the reason given"))
    def reject(self, request: HttpRequest, rows: QuerySet[BehaviourSample]) -> None:
        """Reject the selected samples."""
        self.decide_many(request, rows, "reject")

    @admin.action(permissions=["act"], description=_("Retire, for the reason given"))
    def retire(self, request: HttpRequest, rows: QuerySet[BehaviourSample]) -> None:
        """Retire the selected samples."""
        self.decide_many(request, rows, "retire")

    def evidence(self, scope: Scope, row: BehaviourSample) -> dict[str, Any]:
        """Return the sample's parts as a prompt's reader would not see them. Cost: no query."""
        parts = (("name", _("name")), ("content", _("text")), ("input", _("input")),
                 ("output", _("output")))  # fmt: skip
        return {
            "panel": "admin/governance/behavioursample/evidence.html",
            "headline": visible(row.name or row.content or row.input, limit=120),
            "about": str(row.get_kind_display()),
            "parts": [
                {"label": label, "text": visible(getattr(row, name))}
                for name, label in parts
                if getattr(row, name)
            ],
        }
