"""Jobs, the book of background work, and lanes, the leases that keep each queue serial."""

from __future__ import annotations

from django.db import models
from django.utils import timezone

from memory.models.base import TenantModel, Walls, id_field, tenant_unique


class JobStatus(models.TextChoices):
    """Where a job stands; `dead` waits for a person."""

    READY = "ready"
    RUNNING = "running"
    DONE = "done"
    DEAD = "dead"


class JobKind(models.TextChoices):
    """What a job does; each has one handler in the worker."""

    ROLL_SUMMARY = "roll_summary"
    BUILD_NODES = "build_nodes"
    CONSOLIDATE_NODES = "consolidate_nodes"
    INDEX_RECALL = "index_recall"
    INDEX_KNOWLEDGE = "index_knowledge"
    EMBED = "embed"
    REEMBED = "reembed"
    EXTRACT_CORE = "extract_core"
    PROPOSE_ENTITIES = "propose_entities"
    DECAY_WEIGHTS = "decay_weights"
    ARCHIVE_ARTIFACTS = "archive_artifacts"
    EXPIRE = "expire"
    BULK_DECIDE = "bulk_decide"


class Job(TenantModel):
    """One piece of background work, written in the transaction that made it necessary.

    `attempts` is raised before the work, `epoch` by every claim: a writer whose epoch is not the
    row's any more has lost its lease and must write nothing.
    """

    walls = Walls(user="end_user_id")
    kept = frozenset(
        "id tenant end_user thread run kind dedupe_key status attempts not_before lease_until epoch"
        " cursor_from cursor_to error_code created_at finished_at lane_key".split()
    )

    id = id_field("job")
    end_user = models.ForeignKey(
        "memory.EndUser", on_delete=models.CASCADE, null=True, related_name="+"
    )
    thread = models.ForeignKey(
        "threads.Thread", on_delete=models.CASCADE, null=True, related_name="+"
    )
    run = models.ForeignKey("threads.Run", on_delete=models.CASCADE, null=True, related_name="+")
    kind = models.CharField(max_length=32, choices=JobKind.choices)
    dedupe_key = models.CharField(max_length=120)
    lane_key = models.IntegerField(help_text="Stable hash of the tenant; modulo gives the lane.")
    status = models.CharField(max_length=16, choices=JobStatus.choices, default=JobStatus.READY)
    attempts = models.PositiveIntegerField(default=0)
    not_before = models.DateTimeField(default=timezone.now)
    lease_until = models.DateTimeField(null=True)
    epoch = models.PositiveBigIntegerField(default=0)
    cursor_from = models.PositiveBigIntegerField(null=True)
    cursor_to = models.PositiveBigIntegerField(null=True)
    error_code = models.CharField(max_length=64, blank=True, default="")
    created_at = models.DateTimeField(default=timezone.now)
    finished_at = models.DateTimeField(null=True)

    class Meta:
        constraints = [
            tenant_unique("job"),
            models.UniqueConstraint(
                fields=["tenant", "dedupe_key"],
                condition=models.Q(status__in=["ready", "running"]),
                name="job_dedupe_unfinished_uniq",
            ),
            models.CheckConstraint(
                condition=models.Q(status__in=JobStatus.values), name="job_status_valid"
            ),
            models.CheckConstraint(
                condition=models.Q(kind__in=JobKind.values), name="job_kind_valid"
            ),
            models.CheckConstraint(
                condition=~models.Q(status="running") | models.Q(lease_until__isnull=False),
                name="job_running_has_lease",
            ),
        ]
        indexes = [
            models.Index(fields=["tenant", "status", "kind", "-id"], name="job_tenant_list_idx"),
            models.Index(
                fields=["not_before", "id"],
                condition=models.Q(status__in=["ready", "running"]),
                name="job_due_idx",
            ),
        ]


class Lane(models.Model):
    """One serial queue: who serves it now, until when, and when it last showed life.

    Framework table: it holds no tenant's data.
    """

    name = models.CharField(primary_key=True, max_length=40)
    holder = models.CharField(max_length=80, blank=True, default="")
    epoch = models.PositiveBigIntegerField(default=0)
    lease_until = models.DateTimeField(null=True)
    heartbeat_at = models.DateTimeField(null=True)

    def __str__(self) -> str:
        return self.name
