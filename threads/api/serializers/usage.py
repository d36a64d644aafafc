"""The body of the usage report."""

from __future__ import annotations

from rest_framework import serializers

from threads.api.fields import Money
from threads.api.serializers.base import Answer


class FiguresAnswer(Answer):
    """Calls, tokens as counted, and their cost in USD."""

    count = serializers.IntegerField()
    input_tokens = serializers.IntegerField()
    output_tokens = serializers.IntegerField()
    cost_usd = Money()


class UsageTotalAnswer(Answer):
    """Runs and memory work, apart and together."""

    runs = FiguresAnswer()
    memory_ops = FiguresAnswer()
    total_usd = Money()


class UsageRowAnswer(Answer):
    """One group's usage."""

    key = serializers.CharField(help_text="A day (UTC), an agent's id, or `run` and job kinds.")
    runs = FiguresAnswer()
    memory_ops = FiguresAnswer()
    total_usd = Money()


class UsageReportAnswer(Answer):
    """Usage by group, and all of it."""

    results = UsageRowAnswer(many=True)
    total = UsageTotalAnswer()
