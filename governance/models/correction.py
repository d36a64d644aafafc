"""Corrections: what a person put right, the evidence that entity candidates grow from."""

from __future__ import annotations

from django.db import models
from django.utils import timezone

from memory.models.base import TenantModel, Walls, id_field, tenant_unique


class Correction(TenantModel):
    """One correction of a term; it belongs to one candidate at most, so no evidence counts twice."""

    walls = Walls(user="end_user_id")
    personal = frozenset({"term", "term_key", "wrong", "right", "pii"})
    kept = frozenset(
        "id tenant end_user thread run message entity_type tier markers candidate created_by"
        " created_at".split()
    )

    id = id_field("corr")
    end_user = models.ForeignKey("memory.EndUser", on_delete=models.CASCADE, related_name="+")
    thread = models.ForeignKey("threads.Thread", on_delete=models.CASCADE, related_name="+")
    run = models.ForeignKey("threads.Run", on_delete=models.CASCADE, null=True, related_name="+")
    message = models.ForeignKey(
        "threads.Message", on_delete=models.CASCADE, null=True, related_name="+"
    )
    entity_type = models.CharField(max_length=40)
    term = models.CharField(max_length=120)
    term_key = models.CharField(max_length=240)
    wrong = models.CharField(max_length=500, blank=True, default="")
    right = models.CharField(max_length=500, blank=True, default="")
    pii = models.JSONField(default=list)
    tier = models.CharField(max_length=16, default="stated")
    markers = models.JSONField(default=list)
    candidate = models.ForeignKey(
        "governance.EntityCandidate",
        on_delete=models.SET_NULL,
        null=True,
        related_name="corrections",
    )
    created_by = models.CharField(max_length=80)
    created_at = models.DateTimeField(default=timezone.now)

    class Meta:
        constraints = [
            tenant_unique("correction"),
            models.CheckConstraint(
                condition=models.Q(tier__in=["stated", "untrusted"]), name="correction_tier_valid"
            ),
        ]
        indexes = [
            models.Index(
                fields=["tenant", "created_at", "id"],
                condition=models.Q(candidate__isnull=True),
                name="correction_unlinked_idx",
            ),
            models.Index(fields=["tenant", "candidate"], name="correction_candidate_idx"),
        ]
