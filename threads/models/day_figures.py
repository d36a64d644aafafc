"""What a tenant's day came to, once nothing of it changes any more."""

from __future__ import annotations

from django.db import models

from memory.models.base import TenantModel, id_field, tenant_unique


class DayFigures(TenantModel):
    """The sums of one day (UTC) of a tenant: numbers of nobody in particular.

    Written once, when the day is over and no run of it is at work; `threads.figures` reads and
    writes it. Runs erased before count in its sums, runs erased later stay in them.
    """

    kept = frozenset(
        "id tenant day runs input_tokens output_tokens cost_usd outcomes latencies accounted_runs"
        " whole_tokens past_tokens memory_ops created_at".split()
    )

    id = id_field("day")
    day = models.DateField()
    runs = models.PositiveBigIntegerField(default=0)
    input_tokens = models.PositiveBigIntegerField(default=0)
    output_tokens = models.PositiveBigIntegerField(default=0)
    cost_usd = models.DecimalField(max_digits=20, decimal_places=8, default=0)
    outcomes = models.JSONField(default=list, help_text="[[status, error code, runs], …]")
    latencies = models.JSONField(default=list, help_text="[[bucket of milliseconds, runs], …]")
    accounted_runs = models.PositiveBigIntegerField(
        default=0, help_text="Succeeded runs whose account says what of the past was sent."
    )
    whole_tokens = models.PositiveBigIntegerField(
        default=0, help_text="What all earlier turns of their threads would have cost them."
    )
    past_tokens = models.PositiveBigIntegerField(
        default=0, help_text="What of that their prompts held."
    )
    memory_ops = models.JSONField(
        default=list, help_text="[[kind, bucket of length, calls, tokens in, tokens out, USD], …]"
    )
    created_at = models.DateTimeField()

    class Meta:
        verbose_name_plural = "day figures"
        constraints = [
            tenant_unique("dayfigures"),
            models.UniqueConstraint(fields=["tenant", "day"], name="dayfigures_day_uniq"),
        ]
