"""Bodies of behaviour samples."""

from __future__ import annotations

from rest_framework import serializers

from governance.behaviour.proposals import MOST_CHARACTERS, MOST_NAME_CHARACTERS
from governance.decisions import MOST_REASON_CHARACTERS
from memory.models import SampleKind, SampleStatus
from threads.api.fields import Flag, StrictText, UtcTime
from threads.api.serializers.base import Answer, Body


def _part(most: int) -> StrictText:
    return StrictText(max_length=most, required=False, allow_blank=True, default="")


class NewSampleBody(Body):
    """A rule (content), an example (input, output) or an intent (name, content)."""

    kind = serializers.ChoiceField(choices=SampleKind.choices)
    agent_id = StrictText(
        max_length=64,
        required=False,
        allow_null=True,
        default=None,
        help_text="The agent it is for; without one it is for all agents of the tenant.",
    )
    name = _part(MOST_NAME_CHARACTERS)
    content = _part(MOST_CHARACTERS)
    input = _part(MOST_CHARACTERS)
    output = _part(MOST_CHARACTERS)


class ApprovalBody(Body):
    """Whether a text is approved that reads like an order to the model itself."""

    anyway = Flag(required=False, default=False)


class SampleReasonBody(Body):
    """Why a sample is rejected or retired."""

    reason = StrictText(
        max_length=MOST_REASON_CHARACTERS, required=False, allow_blank=True, default=""
    )


class SampleAnswer(Answer):
    """A behaviour sample."""

    id = serializers.CharField()
    agent_id = serializers.CharField(allow_null=True)
    kind = serializers.ChoiceField(choices=SampleKind.choices)
    name = serializers.CharField()
    content = serializers.CharField()
    input = serializers.CharField()
    output = serializers.CharField()
    status = serializers.ChoiceField(choices=SampleStatus.choices)
    tier = serializers.CharField(help_text="untrusted while it waits and carries marks or orders.")
    flags = serializers.ListField(
        child=serializers.CharField(),
        help_text="instruction_like: carries marks of roles or orders to forget; such marks lose"
        " their shape in every prompt. personal: names something personal.",
    )
    origin = serializers.CharField()
    proposed_by = serializers.CharField(help_text="An internal id.")
    first_approved_by = serializers.CharField(help_text="Set while a second approval is awaited.")
    decided_by = serializers.CharField()
    decided_at = UtcTime(allow_null=True)
    reason = serializers.CharField()
    created_at = UtcTime()
    updated_at = UtcTime()
