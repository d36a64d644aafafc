"""Bodies of looking into memory: search, grep, timeline."""

from __future__ import annotations

from typing import Any

from rest_framework import serializers

from threads.api.fields import Number, StrictText, UserId, UtcTime, WholeNumber
from threads.api.serializers.base import Answer, Body
from threads.memories import DEFAULT_KINDS, KINDS, timeline_entry

MOST_RESULTS = 100
_MOST_QUERY = 20_000
_MOST_PATTERN = 1000


class KindField(StrictText):
    """One of the kinds of memory."""

    default_error_messages = {"invalid_choice": f"This is one of: {', '.join(KINDS)}."}

    def to_internal_value(self, data: Any) -> str:
        """Return the kind."""
        kind = super().to_internal_value(data)
        if kind not in KINDS:
            self.fail("invalid_choice")
        return kind


class SearchBody(Body):
    """A question to a person's memory."""

    query = StrictText(max_length=_MOST_QUERY)
    user_id = UserId()
    role = StrictText(max_length=64, required=False, allow_null=True, default=None)
    limit = WholeNumber(min_value=1, max_value=MOST_RESULTS, required=False, default=10)
    kinds = serializers.ListField(
        child=KindField(),
        required=False,
        allow_empty=False,
        max_length=len(KINDS),
        default=list(DEFAULT_KINDS),
        help_text=f"Of {', '.join(KINDS)}; all but message if not given.",
    )
    min_score = Number(
        min_value=0,
        max_value=1,
        required=False,
        default=0.2,
        help_text="The relevance that a result must be above.",
    )
    as_of = UtcTime(
        required=False, allow_null=True, default=None, help_text="Only what was so by then."
    )


class GrepBody(Body):
    """A text to look for."""

    query = StrictText(
        max_length=_MOST_PATTERN,
        help_text="* stands for any characters; all else is literal, upper and lower case alike.",
    )
    user_id = UserId()
    role = StrictText(max_length=64, required=False, allow_null=True, default=None)
    start_time = UtcTime(required=False, allow_null=True, default=None)
    end_time = UtcTime(required=False, allow_null=True, default=None)
    limit = WholeNumber(min_value=1, max_value=MOST_RESULTS, required=False, default=20)


class ScoresAnswer(Answer):
    """The four dimensions of a score, each 0 to 1."""

    relevance = serializers.FloatField()
    recency = serializers.FloatField()
    credence = serializers.FloatField()
    frequency = serializers.FloatField()


class SourceAnswer(Answer):
    """Where something comes from."""

    kind = serializers.CharField()
    id = serializers.CharField(allow_null=True)
    external_id = serializers.CharField(allow_null=True)


class FoundMemoryAnswer(Answer):
    """One thing that was found, and why."""

    id = serializers.CharField()
    kind = serializers.ChoiceField(choices=KINDS)
    content = serializers.CharField()
    score = serializers.FloatField(help_text="The weighted sum of scores; it orders the results.")
    scores = ScoresAnswer()
    parts = serializers.DictField(
        child=serializers.FloatField(), help_text="What the relevance is made of."
    )
    tier = serializers.CharField()
    source = SourceAnswer()  # type: ignore[assignment]
    created_at = UtcTime()
    confidence = serializers.FloatField(allow_null=True)
    stale = serializers.BooleanField()


class FoundMemoriesAnswer(Answer):
    """What was found, best first."""

    results = FoundMemoryAnswer(many=True)
    degraded = serializers.CharField(
        allow_null=True,
        help_text="How the search got less than it asked for, by codes with commas between them.",
    )


class GrepHitAnswer(Answer):
    """A message or an item that has the text; an item has no thread."""

    kind = serializers.ChoiceField(choices=("message", "item"))
    id = serializers.CharField()
    thread_id = serializers.CharField(allow_null=True)
    content = serializers.CharField()
    created_at = UtcTime()


class GrepAnswer(Answer):
    """What has the text, newest first."""

    results = GrepHitAnswer(many=True)


class TimelineEntryAnswer(Answer):
    """One thing that happened."""

    at = UtcTime()
    kind = serializers.ChoiceField(choices=("turn", "thread"))
    thread_id = serializers.CharField()
    run_id = serializers.CharField(allow_null=True)
    text = serializers.CharField()

    def to_representation(self, instance: Any) -> Any:
        """Return a row of either table as an entry."""
        return super().to_representation(timeline_entry(instance))
