"""Artefacts: files that a run's tools wrote."""

from __future__ import annotations

from django.db import models
from django.utils import timezone

from memory.models.base import TenantModel, Walls, id_field, tenant_unique
from threads.models.run import Run
from threads.models.thread import Thread


class Artifact(TenantModel):
    """One file of one run; it exists only if the run succeeded."""

    walls = Walls(user="end_user_id")
    personal = frozenset({"name", "content"})
    kept = frozenset("id tenant end_user thread run bytes created_at".split())

    id = id_field("art")
    end_user = models.ForeignKey("memory.EndUser", on_delete=models.CASCADE, related_name="+")
    thread = models.ForeignKey(Thread, on_delete=models.CASCADE, related_name="+")
    run = models.ForeignKey(Run, on_delete=models.CASCADE, related_name="artifacts")
    name = models.CharField(max_length=200)
    content = models.TextField(blank=True)
    bytes = models.PositiveIntegerField()
    created_at = models.DateTimeField(default=timezone.now)

    class Meta:
        constraints = [
            tenant_unique("artifact"),
            models.UniqueConstraint(fields=["tenant", "run", "name"], name="artifact_name_uniq"),
        ]
