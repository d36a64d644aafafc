"""Runs, and the trace of how each prompt came to be."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from django.db import models
from django.utils import timezone

from memory.models.base import TenantModel, Walls, id_field, tenant_unique
from threads.models.agent import Agent
from threads.models.thread import Thread


class RunStatus(models.TextChoices):
    """Where a run stands. A trigger of the database holds the moves between these."""

    QUEUED = "queued"
    RUNNING = "running"
    SUCCEEDED = "succeeded"
    FAILED = "failed"
    CANCELLED = "cancelled"
    REJECTED = "rejected"


FINAL = frozenset({RunStatus.SUCCEEDED, RunStatus.FAILED, RunStatus.CANCELLED, RunStatus.REJECTED})


class RunOrigin(models.TextChoices):
    """Whether Credence made the turn, or was told of it."""

    RUN = "run"
    API = "api"
    IMPORT = "import"


class Run(TenantModel):
    """One question and its answer inside a thread; `seq` is gapless under the thread's row lock."""

    walls = Walls(user="end_user_id")
    personal = frozenset(
        {"input", "output", "metadata", "error_detail", "external_id", "tool_steps"}
    )
    kept = frozenset(
        "id tenant thread agent end_user seq status origin error_code bootstrap model input_tokens"
        " output_tokens cost_usd is_cost_known context created_at finished_at lease_until"
        " key_id is_time_assumed turn_tokens message_count import_key continues".split()
    )

    id = id_field("run")
    thread = models.ForeignKey(Thread, on_delete=models.CASCADE, related_name="runs")
    agent = models.ForeignKey(Agent, on_delete=models.PROTECT, related_name="runs")
    end_user = models.ForeignKey("memory.EndUser", on_delete=models.CASCADE, related_name="+")
    seq = models.PositiveBigIntegerField()
    status = models.CharField(max_length=16, choices=RunStatus.choices)
    origin = models.CharField(max_length=8, choices=RunOrigin.choices, default=RunOrigin.RUN)
    input = models.TextField()
    output = models.TextField(blank=True, default="")
    error_code = models.CharField(max_length=64, null=True)
    error_detail = models.CharField(max_length=500, blank=True, default="")
    external_id = models.CharField(max_length=255, null=True)
    import_key = models.CharField(
        max_length=64, null=True, help_text="Hash of an imported turn's place; makes repeats found."
    )
    bootstrap = models.BooleanField(default=False)
    model = models.CharField(max_length=200, blank=True, default="")
    input_tokens = models.PositiveIntegerField(default=0)
    output_tokens = models.PositiveIntegerField(default=0)
    cost_usd = models.DecimalField(max_digits=14, decimal_places=8, default=0)
    is_cost_known = models.BooleanField(default=True)
    context = models.JSONField(default=dict)
    metadata = models.JSONField(default=dict)
    key_id = models.CharField(max_length=80, blank=True, default="")
    is_time_assumed = models.BooleanField(default=False)
    turn_tokens = models.PositiveIntegerField(
        default=0, help_text="Estimate of input and output as history shows them."
    )
    message_count = models.PositiveIntegerField(default=0)
    tool_steps = models.JSONField(
        default=list, help_text="Its tool calls as history shows them, each with its reference id."
    )
    continues = models.ForeignKey(
        "self",
        on_delete=models.SET_NULL,
        null=True,
        related_name="+",
        help_text="The run whose artefacts this one goes on with.",
    )
    created_at = models.DateTimeField(default=timezone.now)
    finished_at = models.DateTimeField(null=True)
    lease_until = models.DateTimeField(null=True)

    # Filled by threads.runs.with_artifacts, or by who ends the run; without it there are none.
    shown_artifacts: Sequence[Any]

    class Meta:
        constraints = [
            tenant_unique("run"),
            models.UniqueConstraint(fields=["tenant", "thread", "seq"], name="run_seq_uniq"),
            models.UniqueConstraint(fields=["tenant", "external_id"], name="run_external_id_uniq"),
            models.UniqueConstraint(fields=["tenant", "import_key"], name="run_import_key_uniq"),
            models.CheckConstraint(
                condition=models.Q(status__in=RunStatus.values), name="run_status_valid"
            ),
            models.CheckConstraint(
                condition=models.Q(origin__in=RunOrigin.values), name="run_origin_valid"
            ),
            models.CheckConstraint(condition=models.Q(seq__gte=1), name="run_seq_from_one"),
            models.CheckConstraint(
                condition=models.Q(status__in=["queued", "running"])
                | models.Q(finished_at__isnull=False),
                name="run_final_has_finished_at",
            ),
            models.CheckConstraint(
                condition=~models.Q(status="running") | models.Q(lease_until__isnull=False),
                name="run_running_has_lease",
            ),
        ]
        indexes = [
            models.Index(fields=["tenant", "thread", "created_at"], name="run_thread_created_idx"),
            models.Index(fields=["tenant", "created_at"], name="run_tenant_created_idx"),
            models.Index(
                fields=["lease_until"],
                condition=models.Q(status__in=["queued", "running"]),
                name="run_unfinished_lease_idx",
            ),
            # Few runs end so, and lists are asked for them alone.
            models.Index(
                fields=["tenant", "status", "-id"],
                condition=models.Q(status__in=["failed", "cancelled", "rejected"]),
                name="run_unanswered_idx",
            ),
        ]


class RunTrace(TenantModel):
    """What one run's prompt was made of: the messages as sent, the items shown, the steps taken."""

    walls = Walls(user="end_user_id")
    personal = frozenset({"messages", "items"})
    kept = frozenset("run tenant end_user steps created_at".split())

    run = models.OneToOneField(
        Run, on_delete=models.CASCADE, primary_key=True, related_name="trace"
    )
    end_user = models.ForeignKey("memory.EndUser", on_delete=models.CASCADE, related_name="+")
    messages = models.JSONField(default=list)
    items = models.JSONField(default=list)
    steps = models.JSONField(default=list)
    created_at = models.DateTimeField(default=timezone.now)

    class Meta:
        indexes = [
            models.Index(fields=["tenant", "created_at"], name="runtrace_created_idx"),
        ]
