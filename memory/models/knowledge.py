"""Knowledge: documents admitted through a gate, and the chunks they are found by (content memory)."""

from __future__ import annotations

from django.db import models
from django.utils import timezone

from memory.models.base import TenantModel, Walls, id_field, tenant_unique


class DocumentStatus(models.TextChoices):
    """Where a document stands; only an admitted one is found."""

    PENDING = "pending"
    ADMITTED = "admitted"
    REFUSED = "refused"


class KnowledgeDocument(TenantModel):
    """A document of one person, of one team, or of the whole tenant."""

    walls = Walls(user="end_user_id", team="team_id")
    personal = frozenset({"title", "content", "external_id"})
    kept = frozenset(
        "id tenant end_user team kind status media_type sha256 bytes tier origin run as_of reason"
        " decided_by decided_at chunk_count created_at".split()
    )

    id = id_field("doc")
    end_user = models.ForeignKey(
        "memory.EndUser", on_delete=models.CASCADE, null=True, related_name="+"
    )
    team = models.ForeignKey("memory.Team", on_delete=models.CASCADE, null=True, related_name="+")
    title = models.CharField(max_length=300)
    kind = models.CharField(max_length=40)
    status = models.CharField(
        max_length=16, choices=DocumentStatus.choices, default=DocumentStatus.PENDING
    )
    media_type = models.CharField(max_length=100, default="text/plain")
    content = models.TextField()
    sha256 = models.CharField(max_length=64)
    bytes = models.PositiveIntegerField()
    tier = models.CharField(max_length=16, default="material")
    origin = models.CharField(max_length=16)
    run = models.ForeignKey("threads.Run", on_delete=models.CASCADE, null=True, related_name="+")
    external_id = models.CharField(max_length=255, null=True)
    as_of = models.DateTimeField(null=True)
    reason = models.CharField(max_length=500, blank=True, default="")
    decided_by = models.CharField(max_length=80, blank=True, default="")
    decided_at = models.DateTimeField(null=True)
    chunk_count = models.PositiveIntegerField(default=0)
    created_at = models.DateTimeField(default=timezone.now)

    class Meta:
        constraints = [
            tenant_unique("knowledgedocument"),
            models.CheckConstraint(
                condition=models.Q(status__in=DocumentStatus.values),
                name="knowledgedocument_status_valid",
            ),
            models.CheckConstraint(
                condition=models.Q(tier__in=["material", "untrusted"]),
                name="knowledgedocument_tier_valid",
            ),
            models.CheckConstraint(
                condition=models.Q(origin__in=["run", "api", "staff", "import"]),
                name="knowledgedocument_origin_valid",
            ),
            models.CheckConstraint(
                condition=models.Q(end_user__isnull=True) | models.Q(team__isnull=True),
                name="knowledgedocument_one_owner",
            ),
            models.CheckConstraint(
                condition=models.Q(status="pending", decided_at__isnull=True)
                | (~models.Q(status="pending") & models.Q(decided_at__isnull=False)),
                name="knowledgedocument_decided",
            ),
        ]
        indexes = [
            models.Index(
                fields=["tenant", "status", "-created_at", "-id"], name="knowledgedocument_list_idx"
            ),
        ]


class KnowledgeChunk(TenantModel):
    """One stretch of an admitted document; `position` counts from 0."""

    walls = Walls(user="end_user_id", team="team_id")
    personal = frozenset({"heading", "content"})
    kept = frozenset(
        "id tenant end_user team document position start_char end_char created_at".split()
    )

    id = id_field("chunk")
    end_user = models.ForeignKey(
        "memory.EndUser", on_delete=models.CASCADE, null=True, related_name="+"
    )
    team = models.ForeignKey("memory.Team", on_delete=models.CASCADE, null=True, related_name="+")
    document = models.ForeignKey(KnowledgeDocument, on_delete=models.CASCADE, related_name="chunks")
    position = models.PositiveIntegerField()
    start_char = models.PositiveIntegerField()
    end_char = models.PositiveIntegerField()
    heading = models.CharField(max_length=300, blank=True, default="")
    content = models.TextField()
    created_at = models.DateTimeField(default=timezone.now)

    class Meta:
        constraints = [
            tenant_unique("knowledgechunk"),
            models.UniqueConstraint(
                fields=["tenant", "document", "position"], name="knowledgechunk_position_uniq"
            ),
            models.CheckConstraint(
                condition=models.Q(start_char__lt=models.F("end_char")),
                name="knowledgechunk_is_a_stretch",
            ),
        ]
