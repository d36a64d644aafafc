"""Messages: the lossless originals."""

from __future__ import annotations

from django.contrib.postgres.fields import ArrayField
from django.db import models
from django.utils import timezone

from memory.models.base import TenantModel, Walls, id_field, tenant_unique
from threads.models.run import Run
from threads.models.summary_node import SummaryNode
from threads.models.thread import Thread


class MessageRole(models.TextChoices):
    """Who spoke."""

    USER = "user"
    ASSISTANT = "assistant"
    TOOL = "tool"
    SYSTEM = "system"


class Message(TenantModel):
    """One stored utterance; `position` is its place inside its run, from 0."""

    walls = Walls(user="end_user_id")
    personal = frozenset(
        {"content", "name", "tool_calls", "speaker", "external_id", "pii", "terms"}
    )
    kept = frozenset(
        "id tenant thread run end_user position role tool_call_id token_count created_at"
        " summary_node".split()
    )

    id = id_field("msg")
    thread = models.ForeignKey(Thread, on_delete=models.CASCADE, related_name="messages")
    run = models.ForeignKey(Run, on_delete=models.CASCADE, related_name="messages")
    end_user = models.ForeignKey("memory.EndUser", on_delete=models.CASCADE, related_name="+")
    position = models.PositiveIntegerField()
    role = models.CharField(max_length=16, choices=MessageRole.choices)
    content = models.TextField(blank=True)
    name = models.CharField(max_length=200, null=True)
    tool_call_id = models.CharField(max_length=200, null=True)
    tool_calls = models.JSONField(default=list)
    speaker = models.CharField(max_length=200, null=True)
    external_id = models.CharField(max_length=255, null=True)
    pii = models.JSONField(default=list)
    token_count = models.PositiveIntegerField(default=0)
    # The words as 32-bit hashes, each once: the keyword index; null before version 0.2.
    terms = ArrayField(models.IntegerField(), null=True)
    created_at = models.DateTimeField(default=timezone.now)
    summary_node = models.ForeignKey(
        SummaryNode, on_delete=models.SET_NULL, null=True, related_name="messages"
    )

    class Meta:
        constraints = [
            tenant_unique("message"),
            models.UniqueConstraint(
                fields=["tenant", "run", "position"], name="message_position_uniq"
            ),
            models.CheckConstraint(
                condition=models.Q(role__in=MessageRole.values), name="message_role_valid"
            ),
        ]
        indexes = [
            models.Index(fields=["tenant", "thread", "run", "position"], name="message_thread_idx"),
            models.Index(fields=["tenant", "end_user", "-created_at"], name="message_person_idx"),
            models.Index(
                fields=["tenant", "external_id"],
                condition=models.Q(external_id__isnull=False),
                name="message_external_id_idx",
            ),
        ]
