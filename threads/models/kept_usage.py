"""What erased runs had cost, so that totals of a tenant's use stay what they were."""

from __future__ import annotations

from django.db import models

from memory.models.base import TenantModel, id_field, tenant_unique
from threads.models.agent import Agent


class KeptUsage(TenantModel):
    """The sums of one day's erased runs of one agent: numbers of nobody in particular."""

    kept = frozenset("id tenant agent day runs input_tokens output_tokens cost_usd".split())

    id = id_field("use")
    agent = models.ForeignKey(Agent, on_delete=models.CASCADE, related_name="+")
    day = models.DateField()
    runs = models.PositiveBigIntegerField(default=0)
    input_tokens = models.PositiveBigIntegerField(default=0)
    output_tokens = models.PositiveBigIntegerField(default=0)
    cost_usd = models.DecimalField(max_digits=20, decimal_places=8, default=0)

    class Meta:
        verbose_name_plural = "kept usage"
        constraints = [
            tenant_unique("keptusage"),
            models.UniqueConstraint(fields=["tenant", "agent", "day"], name="keptusage_day_uniq"),
        ]
