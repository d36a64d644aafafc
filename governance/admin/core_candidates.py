"""The queue of core memory: what was learned about a person, read and decided by staff."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from django import forms
from django.contrib import admin
from django.db.models import QuerySet
from django.http import HttpRequest
from django.utils.translation import gettext_lazy as _

from governance.admin.columns import AGE, FLAGS, PII, STATUS
from governance.admin.deciding import Asked, Choice, DecidingAdmin
from governance.admin.filters import (
    OriginFilter,
    PersonalDataFilter,
    ScopedRelatedFilter,
    WordFilter,
)
from governance.admin.forms_of_decisions import DecisionForm, ReasonForm
from governance.admin.people import PERSON
from governance.admin.site import site
from governance.admin.text import shown, visible
from governance.core import candidates, capacity
from governance.core.clearing import MOST_FACT_CHARACTERS
from governance.core.problems import CoreFullError
from governance.decisions import DecidedBy
from governance.models import CoreCandidate
from governance.permissions import Permission
from governance.policy import policy_for
from memory.models import CoreFact
from memory.sanitize import sanitize
from memory.scope import Scope

_PENDING = frozenset({"pending"})


class ConfirmForm(DecisionForm):
    """Confirming, and whether another fact may make room for it."""

    may_evict = forms.BooleanField(
        required=False,
        label=_("Let the facts named above make room"),
    )

    def fill(self, row: CoreCandidate, evidence: Mapping[str, Any]) -> None:
        """Ask for room only where it takes some."""
        if not evidence["full"]["going"]:
            del self.fields["may_evict"]


class EditForm(ConfirmForm):
    """Confirming in other words."""

    fact = forms.CharField(
        label=_("Fact"),
        max_length=MOST_FACT_CHARACTERS,
        widget=forms.Textarea(attrs={"rows": 2, "cols": 60}),
    )
    field_order = ("fact", "may_evict")

    def fill(self, row: CoreCandidate, evidence: Mapping[str, Any]) -> None:
        """Begin with its words as a prompt would show them, nothing unseen among them."""
        super().fill(row, evidence)
        self.initial["fact"] = sanitize(row.fact).text


def _confirm(asked: Asked) -> object:
    return candidates.confirm_candidate(
        scope=asked.scope,
        candidate_id=asked.row_id,
        by=_staff(asked),
        now=asked.now,
        fact=asked.values.get("fact"),
        may_evict=asked.values["may_evict"],
    )


def _reject(asked: Asked) -> object:
    return candidates.reject_candidate(
        scope=asked.scope,
        candidate_id=asked.row_id,
        by=_staff(asked),
        reason=asked.values["reason"],
        now=asked.now,
    )


def _reopen(asked: Asked) -> object:
    return candidates.reopen_candidate(scope=asked.scope, candidate_id=asked.row_id, now=asked.now)


def _staff(asked: Asked) -> DecidedBy:
    return DecidedBy(kind="staff", id=asked.by)


@admin.register(CoreCandidate, site=site)
class CoreCandidateAdmin(DecidingAdmin[CoreCandidate]):
    """Facts that wait, the likeliest first; what is decided stays on record."""

    act_permission = Permission.CONFIRM
    bulk_kind = "core_candidate"
    queue_order = ("-confidence", "-id")
    seen_fields = ("fact", "subject")
    choices = (
        Choice(
            name="confirm", label=_("Confirm"), act=_confirm, statuses=_PENDING, form=ConfirmForm
        ),
        Choice(
            name="edit", label=_("Edit and confirm"), act=_confirm, statuses=_PENDING, form=EditForm
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
        shown("fact", label=_("fact")), STATUS, "confidence", FLAGS, AGE,
        shown("subject", label=_("subject")), "origin", "seen_count", PERSON, "tenant", "id",
    )  # fmt: skip
    list_filter = (
        ("tenant", ScopedRelatedFilter),
        ("status", WordFilter),
        OriginFilter,
        PersonalDataFilter,
        ("created_at", admin.DateFieldListFilter),
    )
    list_select_related = ("tenant",)
    list_defer = ("evidence",)
    search_fields = ("=id", "=end_user__id", "fact", "subject")
    fields = (
        "id", "tenant", "end_user", shown("fact", label=_("fact")),
        shown("subject", label=_("subject")), "confidence", STATUS, "origin", "run", "tier", FLAGS,
        PII, "seen_count", "last_seen_at", "first_approved_by", "decided_by_id", "decided_at",
        shown("reason", label=_("reason")), "decided_fact", "proposed_by", "created_at",
    )  # fmt: skip
    readonly_fields = fields
    actions = ("confirm", "reject")

    @admin.action(permissions=["act"], description=_("Confirm: they hold from now on"))
    def confirm(self, request: HttpRequest, rows: QuerySet[CoreCandidate]) -> None:
        """Confirm the selected candidates; where core memory is full, none makes room."""
        self.decide_many(request, rows, "confirm")

    @admin.action(permissions=["act"], description=_("Reject, for the reason given"))
    def reject(self, request: HttpRequest, rows: QuerySet[CoreCandidate]) -> None:
        """Reject the selected candidates."""
        self.decide_many(request, rows, "reject")

    def evidence(self, scope: Scope, row: CoreCandidate) -> dict[str, Any]:
        """Return the person's words, what confirming would change, and facts much like it.

        Cost: four queries.
        """
        facts = list(capacity.holding(scope=scope, end_user_id=row.end_user_id))
        ended = candidates.conflicts_of(candidate=row, facts=facts)
        near = [
            fact
            for fact in candidates.similar_facts(scope=scope, candidate=row)
            if fact not in ended and fact.pk != row.decided_fact
        ]
        return {
            "panel": "admin/governance/corecandidate/evidence.html",
            "headline": visible(row.fact),
            "about": visible(row.subject),
            "said": visible(row.evidence),
            "ended": [_told(fact) for fact in ended],
            "near": [_told(fact) for fact in near],
            "full": _fullness(scope, row, [fact for fact in facts if fact not in ended]),
        }


def _told(fact: CoreFact) -> dict[str, Any]:
    return {
        "row": fact,
        "fact": visible(fact.fact),
        "subject": visible(fact.subject),
        "used_at": capacity.used_at(fact),
    }


def _fullness(scope: Scope, row: CoreCandidate, facts: list[CoreFact]) -> dict[str, Any]:
    """Return how full core memory is, and which facts would make room for this one."""
    policy = policy_for(scope=scope, agent_overrides={})
    room = capacity.Room(
        facts=facts,
        most_facts=policy.count("core_facts"),
        most_characters=policy.count("core_chars"),
    )
    try:
        going = room.make(len(row.fact), may_evict=True)
    except CoreFullError:
        going = []
    return {"held": len(facts), "most": room.most_facts, "going": [_told(one) for one in going]}
