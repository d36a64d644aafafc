"""Bodies about persons: erasures and their receipts, holds, links to exports."""

from __future__ import annotations

from typing import Any

from drf_spectacular.utils import extend_schema_field
from rest_framework import serializers

from governance.export.links import DEFAULT_HOURS, MOST_HOURS
from governance.models import ErasureMode, ErasureOrigin, ErasureStatus, Verified
from threads.api.fields import JsonObject, StrictText, UtcTime, WholeNumber
from threads.api.serializers.base import Answer, Body
from threads.chat_links import DEFAULT_SECONDS, LEAST_SECONDS, MOST_SECONDS


@extend_schema_field({"oneOf": [{"type": "boolean"}, {"type": "string", "enum": ["pending"]}]})
class VerifiedField(serializers.Field[Any, Any, Any, Any]):
    """True or false once everything was searched, `pending` before; only ever written."""

    def to_representation(self, value: Any) -> bool | str:
        """Return the word or the truth value."""
        return {Verified.TRUE: True, Verified.FALSE: False}.get(value, "pending")


class CountsField(JsonObject):
    """How many of what, by name."""


class ErasureAcceptedAnswer(Answer):
    """An erasure that was asked for."""

    id = serializers.CharField()
    status = serializers.ChoiceField(choices=ErasureStatus.choices)
    mode = serializers.ChoiceField(choices=ErasureMode.choices)


class ErasureAnswer(ErasureAcceptedAnswer):
    """An erasure: where it stands, what went, what was searched; its receipt without names."""

    kinds = serializers.ListField(child=serializers.CharField())
    before = UtcTime(source="before_at", allow_null=True)
    origin = serializers.ChoiceField(choices=ErasureOrigin.choices)
    subject = serializers.CharField(source="subject_id", help_text="The `usr_` id the person had.")
    counts = CountsField()
    verified = VerifiedField()
    findings = serializers.ListField(
        child=JsonObject(), help_text="Where something was still found: table, column, number."
    )
    receipt = JsonObject()
    receipt_sha256 = serializers.CharField(allow_blank=True)
    requested_by = serializers.CharField()
    error_code = serializers.SerializerMethodField()
    created_at = UtcTime()
    erased_at = UtcTime(allow_null=True)
    verified_at = UtcTime(allow_null=True)
    finished_at = UtcTime(allow_null=True)

    def get_error_code(self, row: Any) -> str | None:
        """Return why it failed, if it did."""
        return row.error_code or None


class PreviewAnswer(Answer):
    """What an erasure would take away now."""

    mode = serializers.ChoiceField(choices=ErasureMode.choices)
    counts = CountsField()
    total = serializers.IntegerField()
    held = serializers.BooleanField(source="is_held")


class NewHoldBody(Body):
    """Why a person may not be erased for now."""

    reason = StrictText(required=False, allow_blank=True, max_length=500, default="")


class HoldAnswer(Answer):
    """A legal hold."""

    id = serializers.CharField()
    user = serializers.CharField(source="subject_id", help_text="The person's `usr_` id.")
    reason = serializers.CharField(allow_blank=True)
    placed_by = serializers.CharField()
    placed_at = UtcTime()
    released_at = UtcTime(allow_null=True)


class NewLinkBody(Body):
    """For how long a link leads to an export."""

    valid_hours = WholeNumber(
        required=False, default=DEFAULT_HOURS, min_value=1, max_value=MOST_HOURS
    )


class NewChatLinkBody(Body):
    """Which agent a person may talk to with a link, and for how long."""

    agent_id = StrictText(max_length=64)
    expires_in_seconds = WholeNumber(
        required=False, default=DEFAULT_SECONDS, min_value=LEAST_SECONDS, max_value=MOST_SECONDS
    )


class LinkAnswer(Answer):
    """A link; its address is shown this once."""

    id = serializers.CharField()
    url = serializers.CharField()
    expires_at = UtcTime()
