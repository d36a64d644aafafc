"""Recall entries: what each succeeded run left behind for later (episodic memory)."""

from __future__ import annotations

from django.db import models
from django.utils import timezone

from memory.models.base import TenantModel, Walls, id_field, tenant_unique


class RecallEntry(TenantModel):
    """One succeeded turn as the gate let it through; written once, never changed.

    The database demands a succeeded run, and refuses every UPDATE.
    """

    walls = Walls(user="end_user_id")
    personal = frozenset({"said", "answered", "speaker", "external_id"})
    kept = frozenset("id tenant end_user thread run agent role tier said_at created_at".split())

    id = id_field("rec")
    end_user = models.ForeignKey("memory.EndUser", on_delete=models.CASCADE, related_name="+")
    thread = models.ForeignKey("threads.Thread", on_delete=models.CASCADE, related_name="+")
    run = models.ForeignKey("threads.Run", on_delete=models.CASCADE, related_name="+")
    agent = models.ForeignKey("threads.Agent", on_delete=models.CASCADE, related_name="+")
    role = models.CharField(max_length=64, help_text="The agent's active role at that time.")
    said = models.TextField(blank=True)
    answered = models.TextField(blank=True)
    speaker = models.CharField(max_length=200, null=True)
    external_id = models.CharField(max_length=255, null=True)
    tier = models.CharField(max_length=16)
    said_at = models.DateTimeField(help_text="When the turn took place.")
    created_at = models.DateTimeField(default=timezone.now)

    class Meta:
        constraints = [
            tenant_unique("recallentry"),
            models.UniqueConstraint(fields=["tenant", "run"], name="recallentry_run_uniq"),
            models.CheckConstraint(
                condition=models.Q(tier__in=["observed", "untrusted"]),
                name="recallentry_tier_valid",
            ),
        ]
        indexes = [
            models.Index(fields=["tenant", "end_user", "-said_at"], name="recallentry_person_idx"),
        ]
