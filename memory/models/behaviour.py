"""Behaviour memory: approved rules, examples and intents that go into a system prompt."""

from __future__ import annotations

from django.db import models
from django.utils import timezone

from memory.models.base import TenantModel, id_field, tenant_unique


class SampleKind(models.TextChoices):
    """What a sample is."""

    RULE = "rule"
    EXAMPLE = "example"
    INTENT = "intent"


class SampleStatus(models.TextChoices):
    """Where a sample stands; only an approved one is in a prompt."""

    PENDING = "pending"
    APPROVED = "approved"
    REJECTED = "rejected"
    RETIRED = "retired"


class BehaviourSample(TenantModel):
    """One rule (`content`), few-shot example (`input` and `output`) or intent (`name`, `content`).

    For one agent, or with none for all agents of the tenant.
    """

    kept = frozenset(
        "id tenant agent kind name content input output sample_key status tier origin proposed_by"
        " first_approved_by decided_by decided_at reason flags created_at updated_at".split()
    )

    id = id_field("smp")
    agent = models.ForeignKey(
        "threads.Agent", on_delete=models.CASCADE, null=True, blank=True, related_name="+"
    )
    kind = models.CharField(max_length=16, choices=SampleKind.choices)
    name = models.CharField(max_length=120, blank=True, default="")
    content = models.TextField(blank=True, default="")
    input = models.TextField(blank=True, default="")
    output = models.TextField(blank=True, default="")
    sample_key = models.CharField(max_length=64, help_text="Hash of its folded words.")
    status = models.CharField(
        max_length=16, choices=SampleStatus.choices, default=SampleStatus.PENDING
    )
    tier = models.CharField(max_length=16, default="approved")
    origin = models.CharField(max_length=16)
    proposed_by = models.CharField(max_length=80)
    first_approved_by = models.CharField(max_length=80, blank=True, default="")
    decided_by = models.CharField(max_length=80, blank=True, default="")
    decided_at = models.DateTimeField(null=True)
    reason = models.CharField(max_length=500, blank=True, default="")
    flags = models.JSONField(default=list)
    created_at = models.DateTimeField(default=timezone.now)
    updated_at = models.DateTimeField(default=timezone.now)

    class Meta:
        constraints = [
            tenant_unique("behavioursample"),
            models.UniqueConstraint(
                fields=["tenant", "agent", "kind", "sample_key"],
                condition=models.Q(status__in=["pending", "approved"]),
                name="behavioursample_once",
                nulls_distinct=False,
            ),
            models.CheckConstraint(
                condition=models.Q(kind__in=SampleKind.values), name="behavioursample_kind_valid"
            ),
            models.CheckConstraint(
                condition=models.Q(status__in=SampleStatus.values),
                name="behavioursample_status_valid",
            ),
            models.CheckConstraint(
                condition=models.Q(origin__in=["api", "staff"]),
                name="behavioursample_origin_valid",
            ),
            models.CheckConstraint(
                condition=models.Q(status="pending", decided_at__isnull=True)
                | (~models.Q(status="pending") & models.Q(decided_at__isnull=False)),
                name="behavioursample_decided",
            ),
        ]
        indexes = [
            models.Index(fields=["tenant", "status", "agent"], name="behavioursample_live_idx"),
        ]
