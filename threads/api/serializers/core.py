"""Bodies of core memory."""

from __future__ import annotations

from typing import Any

from drf_spectacular.utils import extend_schema_field
from rest_framework import serializers

from governance.decisions import MOST_REASON_CHARACTERS
from governance.models import CandidateStatus
from threads.api.fields import Flag, StrictText, UtcTime
from threads.api.serializers.base import Answer, Body
from threads.api.serializers.memories import SourceAnswer

MOST_CHARACTERS = 20_000


class NewFactBody(Body):
    """A fact about a person, in at most 120 characters, to be confirmed by somebody."""

    fact = StrictText(max_length=MOST_CHARACTERS)
    subject = StrictText(
        max_length=MOST_CHARACTERS,
        required=False,
        allow_blank=True,
        default="",
        help_text="What it is about, at most 80 characters; facts of one subject exclude each other.",
    )


class DeciderBody(Body):
    """Who decides, where that is not the staff that the key stands for."""

    kind = serializers.ChoiceField(choices=("end_user", "staff"))
    id = StrictText(max_length=255, help_text="The person's user_id or `usr_` id.")


class ConfirmationBody(Body):
    """In which words a candidate is confirmed, and by whom."""

    fact = StrictText(
        max_length=MOST_CHARACTERS,
        required=False,
        allow_null=True,
        default=None,
        help_text="The fact in other words.",
    )
    decided_by = DeciderBody(required=False, allow_null=True, default=None)
    evict = Flag(
        required=False,
        default=False,
        help_text="Let the least recently used facts end where core memory is full.",
    )


class RejectionBody(Body):
    """Why a candidate is rejected, and by whom."""

    reason = StrictText(
        max_length=MOST_REASON_CHARACTERS, required=False, allow_blank=True, default=""
    )
    decided_by = DeciderBody(required=False, allow_null=True, default=None)


class FactChangeBody(Body):
    """What is to change of a fact; what is not given stays."""

    fact = StrictText(max_length=MOST_CHARACTERS, required=False)
    subject = StrictText(max_length=MOST_CHARACTERS, required=False, allow_blank=True)
    restore = Flag(
        required=False, default=False, help_text="Let a fact that was evicted hold again."
    )


class DecidedByAnswer(Answer):
    """Who decided."""

    kind = serializers.ChoiceField(choices=("end_user", "staff"))
    id = serializers.CharField()


class CoreFactAnswer(Answer):
    """A fact that somebody confirmed."""

    id = serializers.CharField()
    fact = serializers.CharField()
    subject = serializers.CharField()
    confidence = serializers.FloatField()
    tier = serializers.CharField()
    valid_from = UtcTime()
    valid_to = UtcTime(allow_null=True, help_text="Null while it holds.")
    end_reason = serializers.CharField(help_text="superseded or evicted; empty while it holds.")
    superseded_by = serializers.CharField(source="superseded_by_id", allow_null=True)
    last_used_at = UtcTime(
        allow_null=True, help_text="When a request or an answer last referred to it."
    )
    decided_by = serializers.SerializerMethodField()
    source = serializers.SerializerMethodField()  # type: ignore[assignment]

    def get_decided_by(self, fact: Any) -> dict[str, str]:
        """Return who confirmed it."""
        return {"kind": fact.decided_by_kind, "id": fact.decided_by_id}

    @extend_schema_field(SourceAnswer)
    def get_source(self, fact: Any) -> dict[str, str | None]:
        """Return where it comes from."""
        return source_of(fact)


class CoreCandidateAnswer(Answer):
    """A fact that waits, or waited, for a decision."""

    id = serializers.CharField()
    fact = serializers.CharField()
    subject = serializers.CharField()
    confidence = serializers.FloatField(help_text="It orders what waits, and decides nothing.")
    status = serializers.ChoiceField(choices=CandidateStatus.choices)
    tier = serializers.CharField()
    flags = serializers.ListField(child=serializers.CharField())
    evidence = serializers.CharField(help_text="The person's own words it was found in.")
    seen_count = serializers.IntegerField()
    last_seen_at = UtcTime()
    source = serializers.SerializerMethodField()  # type: ignore[assignment]
    decided_by = serializers.SerializerMethodField()
    first_approved_by = serializers.CharField(help_text="Where policy wants two approvals.")
    reason = serializers.CharField()
    created_at = UtcTime()
    decided_at = UtcTime(allow_null=True)

    @extend_schema_field(SourceAnswer)
    def get_source(self, candidate: Any) -> dict[str, str | None]:
        """Return where it comes from."""
        return source_of(candidate)

    def get_decided_by(self, candidate: Any) -> dict[str, str] | None:
        """Return who decided it, if anybody has."""
        if not candidate.decided_by_kind:
            return None
        return {"kind": candidate.decided_by_kind, "id": candidate.decided_by_id}


class WaitingCandidateAnswer(CoreCandidateAnswer):
    """A candidate beside the facts that its confirmation would end."""

    conflicts_with = serializers.SerializerMethodField()

    def get_conflicts_with(self, candidate: Any) -> list[str]:
        """Return the ids of those facts."""
        return list(self.context["conflicts"].get(candidate.pk, ()))


class CoreAnswer(Answer):
    """A person's core memory: what holds beside what waits."""

    facts = CoreFactAnswer(many=True)
    candidates = WaitingCandidateAnswer(many=True)


class ConfirmedAnswer(Answer):
    """A candidate and its fact; no fact yet where a second approval is needed."""

    candidate = CoreCandidateAnswer()
    fact = CoreFactAnswer(allow_null=True)
    evicted = serializers.ListField(
        child=serializers.CharField(), help_text="Facts that made room; each can be restored."
    )


def source_of(row: Any) -> dict[str, str | None]:
    """Return the source of a fact or a candidate: its run, or how it was handed in."""
    kind = "run" if row.run_id else row.origin
    source = {"kind": kind, "id": row.run_id, "external_id": None}
    return dict(SourceAnswer(source).data)
