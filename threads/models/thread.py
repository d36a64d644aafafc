"""Threads (the sessions of the seeds) and their session-private rolling summaries."""

from __future__ import annotations

from django.db import models
from django.utils import timezone

from memory.models.base import TenantModel, Walls, id_field, tenant_unique
from threads.models.agent import Agent


class ThreadStatus(models.TextChoices):
    """Archived threads are hidden from the default list, never deleted."""

    ACTIVE = "active"
    ARCHIVED = "archived"


class Thread(TenantModel):
    """A conversation of one end user with one agent."""

    walls = Walls(user="end_user_id")
    personal = frozenset({"title", "external_key"})
    kept = frozenset(
        "id tenant agent end_user status next_seq run_count created_at updated_at".split()
    )

    id = id_field("th")
    agent = models.ForeignKey(Agent, on_delete=models.PROTECT, related_name="threads")
    end_user = models.ForeignKey("memory.EndUser", on_delete=models.CASCADE, related_name="+")
    title = models.CharField(max_length=200, blank=True, default="")
    external_key = models.CharField(
        max_length=255, null=True, help_text="The importer's own name of this thread."
    )
    status = models.CharField(
        max_length=16, choices=ThreadStatus.choices, default=ThreadStatus.ACTIVE
    )
    next_seq = models.PositiveBigIntegerField(default=1)
    run_count = models.PositiveIntegerField(default=0)
    created_at = models.DateTimeField(default=timezone.now)
    updated_at = models.DateTimeField(default=timezone.now)

    class Meta:
        permissions = [("view_shared_thread", "May see this thread")]
        constraints = [
            tenant_unique("thread"),
            models.UniqueConstraint(
                fields=["tenant", "agent", "end_user", "external_key"],
                name="thread_external_key_uniq",
            ),
            models.CheckConstraint(
                condition=models.Q(status__in=ThreadStatus.values), name="thread_status_valid"
            ),
        ]
        indexes = [
            models.Index(
                fields=["tenant", "agent", "-updated_at", "-id"], name="thread_agent_updated_idx"
            ),
            models.Index(
                fields=["tenant", "end_user", "agent", "-updated_at", "-id"],
                name="thread_user_updated_idx",
            ),
        ]


class ThreadSummary(TenantModel):
    """The rolling summary of a thread and its cursor.

    In a table of its own, since it is session-private: row-level security shows it only inside its
    own thread, while the thread's title and times are visible in lists. The cursor is the highest
    seq the summary covers; `summary_upto_at` is that run's time, kept for people.
    """

    walls = Walls(user="end_user_id", session="thread_id")
    personal = frozenset({"rolling_summary"})
    kept = frozenset(
        "thread tenant end_user summary_upto_seq summary_upto_at covered_turns token_count method"
        " model version updated_at".split()
    )

    thread = models.OneToOneField(
        Thread, on_delete=models.CASCADE, primary_key=True, related_name="summary"
    )
    end_user = models.ForeignKey("memory.EndUser", on_delete=models.CASCADE, related_name="+")
    rolling_summary = models.TextField(blank=True, default="")
    summary_upto_seq = models.PositiveBigIntegerField(default=0)
    summary_upto_at = models.DateTimeField(null=True)
    covered_turns = models.PositiveIntegerField(default=0)
    token_count = models.PositiveIntegerField(default=0)
    method = models.CharField(max_length=16, blank=True, default="")
    model = models.CharField(max_length=200, blank=True, default="")
    version = models.PositiveIntegerField(default=0)
    updated_at = models.DateTimeField(default=timezone.now)

    class Meta:
        verbose_name_plural = "thread summaries"
