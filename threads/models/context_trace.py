"""Traces of prompts that were assembled for a caller who calls models himself."""

from __future__ import annotations

from django.db import models
from django.utils import timezone

from memory.models.base import TenantModel, Walls, id_field, tenant_unique
from threads.models.agent import Agent
from threads.models.thread import Thread


class ContextTrace(TenantModel):
    """One answer of the context endpoint: its ledger, what it showed, the steps; no run, no turn."""

    walls = Walls(user="end_user_id")
    personal = frozenset({"messages", "items"})
    kept = frozenset("id tenant end_user agent thread key_id context steps created_at".split())

    id = id_field("ctx")
    end_user = models.ForeignKey(
        "memory.EndUser", on_delete=models.CASCADE, null=True, related_name="+"
    )
    agent = models.ForeignKey(Agent, on_delete=models.CASCADE, related_name="+")
    thread = models.ForeignKey(Thread, on_delete=models.CASCADE, null=True, related_name="+")
    key_id = models.CharField(max_length=80, blank=True, default="")
    context = models.JSONField(default=dict)
    messages = models.JSONField(default=list)
    items = models.JSONField(default=list)
    steps = models.JSONField(default=list)
    created_at = models.DateTimeField(default=timezone.now)

    class Meta:
        constraints = [tenant_unique("contexttrace")]
        indexes = [
            models.Index(fields=["tenant", "created_at"], name="contexttrace_created_idx"),
        ]
