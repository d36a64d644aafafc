"""Candidates: what was learned and waits for a person to decide."""

from __future__ import annotations

from django.db import models
from django.utils import timezone

from memory.models.base import TenantModel, Walls, id_field, tenant_unique


class CandidateStatus(models.TextChoices):
    """Where a candidate for core memory stands."""

    PENDING = "pending"
    CONFIRMED = "confirmed"
    REJECTED = "rejected"


class CoreCandidate(TenantModel):
    """A lasting fact about a person, waiting; it takes effect in nothing.

    `fact_key` is the hash of its folded words. Of one fact there is one row that waits or was
    rejected, so what was rejected stays so when it is seen again.
    """

    walls = Walls(user="end_user_id")
    personal = frozenset({"fact", "subject", "fact_key", "evidence", "pii", "decided_by_id"})
    kept = frozenset(
        "id tenant end_user confidence status origin run tier flags seen_count last_seen_at"
        " first_approved_by decided_by_kind decided_at reason decided_fact proposed_by created_at"
        "".split()
    )

    id = id_field("ccand")
    end_user = models.ForeignKey("memory.EndUser", on_delete=models.CASCADE, related_name="+")
    fact = models.CharField(max_length=120)
    subject = models.CharField(max_length=80, blank=True, default="")
    fact_key = models.CharField(max_length=64)
    evidence = models.TextField(blank=True, default="", help_text="The person's own words.")
    pii = models.JSONField(default=list)
    confidence = models.FloatField(default=0.5)
    status = models.CharField(
        max_length=16, choices=CandidateStatus.choices, default=CandidateStatus.PENDING
    )
    origin = models.CharField(max_length=16)
    run = models.ForeignKey("threads.Run", on_delete=models.CASCADE, null=True, related_name="+")
    tier = models.CharField(max_length=16, default="stated")
    flags = models.JSONField(default=list, help_text="What staff should look at: pii, conflict …")
    seen_count = models.PositiveIntegerField(default=1)
    last_seen_at = models.DateTimeField(default=timezone.now)
    first_approved_by = models.CharField(max_length=80, blank=True, default="")
    decided_by_kind = models.CharField(max_length=16, blank=True, default="")
    decided_by_id = models.CharField(max_length=255, blank=True, default="")
    decided_at = models.DateTimeField(null=True)
    decided_fact = models.CharField(max_length=40, blank=True, default="", help_text="fact_…")
    reason = models.CharField(max_length=500, blank=True, default="")
    proposed_by = models.CharField(max_length=80)
    created_at = models.DateTimeField(default=timezone.now)

    class Meta:
        constraints = [
            tenant_unique("corecandidate"),
            models.UniqueConstraint(
                fields=["tenant", "end_user", "fact_key"],
                condition=models.Q(status__in=["pending", "rejected"]),
                name="corecandidate_fact_uniq",
            ),
            models.CheckConstraint(
                condition=models.Q(status__in=CandidateStatus.values),
                name="corecandidate_status_valid",
            ),
            models.CheckConstraint(
                condition=models.Q(origin__in=["run", "api", "staff", "import"]),
                name="corecandidate_origin_valid",
            ),
            models.CheckConstraint(
                condition=~models.Q(origin="run") | models.Q(run__isnull=False),
                name="corecandidate_run_named",
            ),
            models.CheckConstraint(
                condition=models.Q(confidence__gte=0, confidence__lte=1),
                name="corecandidate_confidence_share",
            ),
            models.CheckConstraint(
                condition=models.Q(status="pending", decided_at__isnull=True)
                | (~models.Q(status="pending") & models.Q(decided_at__isnull=False)),
                name="corecandidate_decided",
            ),
        ]
        indexes = [
            models.Index(
                fields=["tenant", "status", "-confidence", "-id"], name="corecandidate_queue_idx"
            ),
            models.Index(fields=["tenant", "end_user", "status"], name="corecandidate_person_idx"),
        ]


class Extraction(TenantModel):
    """That a run was looked through for lasting facts: each once, whatever came of it."""

    walls = Walls(user="end_user_id")
    kept = frozenset("id tenant end_user thread run outcome facts at".split())

    id = id_field("ext")
    end_user = models.ForeignKey("memory.EndUser", on_delete=models.CASCADE, related_name="+")
    thread = models.ForeignKey("threads.Thread", on_delete=models.CASCADE, related_name="+")
    run = models.ForeignKey("threads.Run", on_delete=models.CASCADE, related_name="+")
    outcome = models.CharField(max_length=32)
    facts = models.PositiveIntegerField(default=0)
    at = models.DateTimeField(default=timezone.now)

    class Meta:
        constraints = [
            tenant_unique("extraction"),
            models.UniqueConstraint(fields=["tenant", "run"], name="extraction_run_uniq"),
        ]
        indexes = [models.Index(fields=["tenant", "thread"], name="extraction_thread_idx")]


class EntityCandidateStatus(models.TextChoices):
    """Where a candidate for the vocabulary stands."""

    PENDING = "pending"
    APPROVED = "approved"
    REJECTED = "rejected"


class EntityCandidate(TenantModel):
    """A term that corrections proposed; its evidence is the corrections that name it."""

    personal = frozenset({"term", "term_key"})
    kept = frozenset(
        "id tenant entity_type status flags evidence_count entity first_approved_by decided_by"
        " decided_at reason created_at updated_at".split()
    )

    id = id_field("ecand")
    entity_type = models.CharField(max_length=40)
    term = models.CharField(max_length=120)
    term_key = models.CharField(max_length=240)
    status = models.CharField(
        max_length=16,
        choices=EntityCandidateStatus.choices,
        default=EntityCandidateStatus.PENDING,
    )
    flags = models.JSONField(default=list)
    evidence_count = models.PositiveIntegerField(default=0)
    entity = models.ForeignKey(
        "memory.Entity", on_delete=models.SET_NULL, null=True, related_name="+"
    )
    first_approved_by = models.CharField(max_length=80, blank=True, default="")
    decided_by = models.CharField(max_length=80, blank=True, default="")
    decided_at = models.DateTimeField(null=True)
    reason = models.CharField(max_length=500, blank=True, default="")
    created_at = models.DateTimeField(default=timezone.now)
    updated_at = models.DateTimeField(default=timezone.now)

    class Meta:
        constraints = [
            tenant_unique("entitycandidate"),
            models.UniqueConstraint(
                fields=["tenant", "entity_type", "term_key"],
                condition=models.Q(status__in=["pending", "rejected"]),
                name="entitycandidate_term_uniq",
            ),
            models.CheckConstraint(
                condition=models.Q(status__in=EntityCandidateStatus.values),
                name="entitycandidate_status_valid",
            ),
            models.CheckConstraint(
                condition=models.Q(status="pending", decided_at__isnull=True)
                | (~models.Q(status="pending") & models.Q(decided_at__isnull=False)),
                name="entitycandidate_decided",
            ),
        ]
        indexes = [
            models.Index(
                fields=["tenant", "status", "-updated_at", "-id"], name="entitycandidate_queue_idx"
            ),
        ]


class BulkStatus(models.TextChoices):
    """Where a decision about many rows stands."""

    READY = "ready"
    DONE = "done"
    STOPPED = "stopped"


class BulkDecision(TenantModel):
    """One decision about up to 10,000 rows, done by the worker in pieces, each row audited.

    `ids` are the rows in order, `done_upto` how many of them have been looked at: a crash goes on
    from there, and a row decided before is not decided again.
    """

    kept = frozenset(
        "id tenant kind action reason ids done_upto decided refused status error_code actor"
        " created_at updated_at".split()
    )

    id = id_field("blk")
    kind = models.CharField(max_length=32, help_text="The kind of rows, such as core_candidate.")
    action = models.CharField(max_length=32)
    reason = models.CharField(max_length=500, blank=True, default="")
    ids = models.JSONField(default=list)
    done_upto = models.PositiveIntegerField(default=0)
    decided = models.PositiveIntegerField(default=0)
    refused = models.PositiveIntegerField(default=0)
    status = models.CharField(max_length=16, choices=BulkStatus.choices, default=BulkStatus.READY)
    error_code = models.CharField(max_length=64, blank=True, default="")
    actor = models.CharField(max_length=80)
    created_at = models.DateTimeField(default=timezone.now)
    updated_at = models.DateTimeField(default=timezone.now)

    class Meta:
        constraints = [
            tenant_unique("bulkdecision"),
            models.CheckConstraint(
                condition=models.Q(status__in=BulkStatus.values), name="bulkdecision_status_valid"
            ),
        ]
        indexes = [models.Index(fields=["tenant", "-created_at"], name="bulkdecision_list_idx")]
