"""Bodies about the uses of an item."""

from __future__ import annotations

from rest_framework import serializers

from threads.api.fields import JsonObject, UtcTime
from threads.api.serializers.base import Answer


class LinkedAnswer(Answer):
    """Something that an item was made of, or that was made of it."""

    kind = serializers.CharField()
    id = serializers.CharField()
    at = UtcTime(allow_null=True)


class MadeAnswer(Answer):
    """What was made of an item, over any number of steps."""

    items = LinkedAnswer(many=True, source="linked")
    counts = JsonObject(help_text="How many of what there are, by kind.")
    complete = serializers.BooleanField(source="is_whole", help_text="Whether `items` has all.")


class ShownToAnswer(Answer):
    """One time that an item, or something made of it, was shown to a model."""

    kind = serializers.CharField(
        help_text="`run` (in a prompt), `tool` (as a tool's result) or `context`."
    )
    run_id = serializers.CharField(help_text="The run's id, or the `ctx_` id of a context.")
    thread_id = serializers.CharField(allow_null=True)
    agent_id = serializers.CharField()
    key_id = serializers.CharField(allow_blank=True)
    provider_id = serializers.CharField(allow_blank=True)
    model = serializers.CharField(allow_blank=True)
    through = serializers.ListField(
        child=serializers.CharField(), help_text="Which ids it showed: this, or made of this."
    )
    at = UtcTime()


class UsesAnswer(Answer):
    """Who was shown an item, and what was made of it."""

    id = serializers.CharField(source="item_id")
    kind = serializers.CharField()
    gone = serializers.BooleanField(source="is_gone", help_text="It was deleted or erased.")
    sources = LinkedAnswer(many=True)
    made = MadeAnswer()
    answers = ShownToAnswer(many=True)
    answers_total = serializers.IntegerField()
    shown = serializers.ListField(
        child=serializers.CharField(), help_text="Of a run: what its prompts showed."
    )


class RederivedAnswer(Answer):
    """What is made anew, and what was left."""

    id = serializers.CharField(source="item_id")
    thread_id = serializers.CharField()
    dropped = JsonObject(help_text="How many of what went, by name.")
    left = LinkedAnswer(many=True)
