"""Bodies of threads and messages."""

from __future__ import annotations

from typing import Any

from rest_framework import serializers

from threads.api.fields import StrictText, UserId, UtcTime
from threads.api.serializers.base import Answer, Body
from threads.models import MessageRole, ThreadStatus


class NewThreadBody(Body):
    """A thread to open."""

    user_id = UserId()
    title = StrictText(max_length=200, required=False, allow_blank=True, default="")


class RenameBody(Body):
    """A thread's new title."""

    title = StrictText(max_length=200)


class ThreadAnswer(Answer):
    """A conversation of one person with one agent."""

    id = serializers.CharField()
    agent_id = serializers.CharField()
    user_id = serializers.CharField(source="end_user.user_id")
    title = serializers.CharField()
    status = serializers.ChoiceField(choices=ThreadStatus.choices)
    run_count = serializers.IntegerField()
    created_at = UtcTime()
    updated_at = UtcTime()


class PiiSpanAnswer(Answer):
    """Where a message holds something personal."""

    kind = serializers.CharField()
    start = serializers.IntegerField()
    end = serializers.IntegerField()


class MessageAnswer(Answer):
    """One stored utterance."""

    id = serializers.CharField()
    run_id = serializers.CharField()
    role = serializers.ChoiceField(choices=MessageRole.choices)
    content = serializers.CharField()
    name = serializers.CharField(allow_null=True)
    tool_call_id = serializers.CharField(allow_null=True)
    speaker = serializers.CharField(allow_null=True)
    created_at = UtcTime()
    external_id = serializers.CharField(allow_null=True)
    pii = PiiSpanAnswer(many=True)


class SummaryNodeAnswer(Answer):
    """A node of the summary forest (lossless strategy), also one that a higher node covers.

    `source_token_count` is what the turns it stands for would cost.
    """

    id = serializers.CharField()
    level = serializers.IntegerField()
    summary = serializers.CharField()
    start_at = UtcTime()
    end_at = UtcTime()
    token_count = serializers.IntegerField()
    source_token_count = serializers.IntegerField()
    children = serializers.ListField(child=serializers.CharField())
    message_ids = serializers.ListField(child=serializers.CharField(), required=False)

    def to_representation(self, instance: Any) -> Any:
        """Leave `message_ids` out of nodes above level 0."""
        shown = super().to_representation(instance)
        if shown["message_ids"] is None:
            del shown["message_ids"]
        return shown


class SummaryAnswer(Answer):
    """What stands for the older part of a thread, and how far it reaches."""

    rolling_summary = serializers.CharField()
    summary_upto_seq = serializers.IntegerField()
    summary_upto_at = UtcTime(allow_null=True)
    covered_turns = serializers.IntegerField()
    nodes = SummaryNodeAnswer(many=True)
