"""Summary nodes: the forest that stands for the older part of a lossless thread."""

from __future__ import annotations

from django.db import models
from django.utils import timezone

from memory.models.base import TenantModel, Walls, id_field, tenant_unique
from threads.models.thread import Thread


class SummaryNode(TenantModel):
    """One node: a level-0 node stands for a stretch of turns, a higher one for its children.

    `start_seq` and `end_seq` bound the runs it stands for; the messages themselves point at their
    level-0 node, children at their parent. A node is written once and then only given a parent.
    """

    walls = Walls(user="end_user_id", session="thread_id")
    personal = frozenset({"summary", "content"})
    kept = frozenset(
        "id tenant thread end_user level parent start_seq end_seq start_at end_at turn_count"
        " message_count token_count source_token_count method model created_at".split()
    )

    id = id_field("node")
    thread = models.ForeignKey(Thread, on_delete=models.CASCADE, related_name="nodes")
    end_user = models.ForeignKey("memory.EndUser", on_delete=models.CASCADE, related_name="+")
    level = models.PositiveSmallIntegerField()
    parent = models.ForeignKey(
        "self", on_delete=models.SET_NULL, null=True, related_name="children"
    )
    start_seq = models.PositiveBigIntegerField()
    end_seq = models.PositiveBigIntegerField()
    start_at = models.DateTimeField()
    end_at = models.DateTimeField()
    turn_count = models.PositiveIntegerField()
    message_count = models.PositiveIntegerField()
    summary = models.TextField()
    content = models.JSONField(default=dict)
    token_count = models.PositiveIntegerField()
    source_token_count = models.PositiveIntegerField()
    method = models.CharField(max_length=16)
    model = models.CharField(max_length=200, blank=True, default="")
    created_at = models.DateTimeField(default=timezone.now)

    class Meta:
        constraints = [
            tenant_unique("summarynode"),
            models.UniqueConstraint(
                fields=["tenant", "thread", "level", "start_seq"], name="summarynode_start_uniq"
            ),
            models.CheckConstraint(
                condition=models.Q(start_seq__gte=1, end_seq__gte=models.F("start_seq")),
                name="summarynode_range_valid",
            ),
        ]
        indexes = [
            models.Index(
                fields=["tenant", "thread", "start_seq"],
                condition=models.Q(parent__isnull=True),
                name="summarynode_roots_idx",
            ),
        ]
