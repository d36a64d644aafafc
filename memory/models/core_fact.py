"""Core memory: the few lasting facts of a person that somebody confirmed."""

from __future__ import annotations

from django.db import models
from django.utils import timezone

from memory.models.base import TenantModel, Walls, id_field, tenant_unique


class FactEnd(models.TextChoices):
    """Why a fact holds no more; empty while it does."""

    SUPERSEDED = "superseded"
    EVICTED = "evicted"


class CoreFact(TenantModel):
    """One confirmed fact, true from `valid_from` until `valid_to` (null: still).

    `fact_key` is the hash of its folded words: the same fact holds once at a time.
    """

    walls = Walls(user="end_user_id")
    personal = frozenset({"fact", "subject", "fact_key", "pii", "decided_by_id"})
    kept = frozenset(
        "id tenant end_user confidence tier origin run candidate valid_from valid_to end_reason"
        " superseded_by last_used_at decided_by_kind created_at updated_at".split()
    )

    id = id_field("fact")
    end_user = models.ForeignKey("memory.EndUser", on_delete=models.CASCADE, related_name="+")
    fact = models.CharField(max_length=120)
    subject = models.CharField(max_length=80, blank=True, default="")
    fact_key = models.CharField(max_length=64)
    pii = models.JSONField(default=list)
    confidence = models.FloatField(default=1.0)
    tier = models.CharField(max_length=16, default="approved")
    origin = models.CharField(max_length=16)
    run = models.ForeignKey("threads.Run", on_delete=models.CASCADE, null=True, related_name="+")
    candidate = models.ForeignKey(
        "governance.CoreCandidate", on_delete=models.SET_NULL, null=True, related_name="+"
    )
    valid_from = models.DateTimeField()
    valid_to = models.DateTimeField(null=True)
    end_reason = models.CharField(max_length=16, blank=True, default="", choices=FactEnd.choices)
    superseded_by = models.ForeignKey(
        "self", on_delete=models.SET_NULL, null=True, related_name="+"
    )
    last_used_at = models.DateTimeField(null=True)
    decided_by_kind = models.CharField(max_length=16)
    decided_by_id = models.CharField(max_length=255)
    created_at = models.DateTimeField(default=timezone.now)
    updated_at = models.DateTimeField(default=timezone.now)

    class Meta:
        constraints = [
            tenant_unique("corefact"),
            models.UniqueConstraint(
                fields=["tenant", "end_user", "fact_key"],
                condition=models.Q(valid_to__isnull=True),
                name="corefact_holds_once",
            ),
            models.CheckConstraint(condition=~models.Q(fact=""), name="corefact_not_empty"),
            models.CheckConstraint(
                condition=models.Q(confidence__gte=0, confidence__lte=1),
                name="corefact_confidence_share",
            ),
            models.CheckConstraint(
                condition=models.Q(origin__in=["run", "api", "staff", "import"]),
                name="corefact_origin_valid",
            ),
            models.CheckConstraint(
                condition=~models.Q(origin="run") | models.Q(run__isnull=False),
                name="corefact_run_named",
            ),
            models.CheckConstraint(
                condition=models.Q(decided_by_kind__in=["end_user", "staff"]),
                name="corefact_decider_valid",
            ),
            models.CheckConstraint(
                condition=models.Q(valid_to__isnull=True, end_reason="")
                | models.Q(valid_to__isnull=False, end_reason__in=FactEnd.values),
                name="corefact_end_has_reason",
            ),
            models.CheckConstraint(
                condition=models.Q(valid_to__isnull=True)
                | models.Q(valid_to__gte=models.F("valid_from")),
                name="corefact_ends_after_it_began",
            ),
        ]
        indexes = [
            models.Index(fields=["tenant", "end_user", "valid_to"], name="corefact_person_idx"),
        ]
