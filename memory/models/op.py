"""memory_ops: the book of every model call made for memory, apart from the runs' own cost."""

from __future__ import annotations

from django.db import models
from django.utils import timezone

from memory.models.base import TenantModel, Walls, id_field, tenant_unique


class MemoryOp(TenantModel):
    """One model call made for memory: which thread, what for, how many tokens, what it cost."""

    walls = Walls(user="end_user_id")
    kept = frozenset(
        "id tenant end_user thread agent job kind model outcome input_tokens output_tokens"
        " cost_usd at".split()
    )

    id = id_field("op")
    end_user = models.ForeignKey(
        "memory.EndUser", on_delete=models.SET_NULL, null=True, related_name="+"
    )
    thread = models.ForeignKey(
        "threads.Thread", on_delete=models.SET_NULL, null=True, related_name="+"
    )
    agent = models.ForeignKey(
        "threads.Agent", on_delete=models.SET_NULL, null=True, related_name="+"
    )
    job = models.ForeignKey("memory.Job", on_delete=models.SET_NULL, null=True, related_name="+")
    kind = models.CharField(max_length=32)
    model = models.CharField(max_length=200)
    outcome = models.CharField(max_length=40, help_text="ok, or the code of what went wrong")
    input_tokens = models.PositiveIntegerField()
    output_tokens = models.PositiveIntegerField()
    cost_usd = models.DecimalField(max_digits=14, decimal_places=8, default=0)
    at = models.DateTimeField(default=timezone.now)

    class Meta:
        constraints = [tenant_unique("memoryop")]
        indexes = [
            models.Index(fields=["tenant", "at"], name="memoryop_tenant_at_idx"),
            models.Index(fields=["tenant", "thread", "at"], name="memoryop_thread_idx"),
        ]
