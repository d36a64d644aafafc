"""Memory items: what an agent keeps by key, one at a time, and every version of it."""

from __future__ import annotations

from django.db import models
from django.db.models.functions import Length
from django.db.models.lookups import GreaterThan, LessThanOrEqual
from django.utils import timezone

from memory.models.base import TenantModel, Walls, id_field, tenant_unique

_ORIGINS = ["run", "api", "staff", "import"]


class ItemCategory(models.TextChoices):
    """What an item is for; preferences are read-only for an agent."""

    PROGRESS = "progress"
    USER_PREFERENCES = "user_preferences"
    MEMO = "memo"


class ItemStatus(models.TextChoices):
    """Whether an item is in effect, or held until a person has looked at it."""

    ACTIVE = "active"
    HELD = "held"


class MemoryItem(TenantModel):
    """One keyed memory of a person or of a team, bound to a role (persona).

    A held row stands beside the active one of the same key, and nobody but staff sees it. The
    database demands a succeeded run behind what a run wrote.
    """

    walls = Walls(user="end_user_id", team="team_id")
    personal = frozenset({"key", "key_folded", "title", "content", "pii"})
    kept = frozenset(
        "id tenant end_user team role category tier origin run confidence expires_at status version"
        " written_by created_at updated_at".split()
    )

    id = id_field("mem")
    end_user = models.ForeignKey(
        "memory.EndUser", on_delete=models.CASCADE, null=True, related_name="+"
    )
    team = models.ForeignKey("memory.Team", on_delete=models.CASCADE, null=True, related_name="+")
    role = models.CharField(max_length=64, default="default")
    category = models.CharField(max_length=32, choices=ItemCategory.choices)
    key = models.CharField(max_length=64)
    key_folded = models.CharField(max_length=600, help_text="Key and title as the guard compares.")
    title = models.CharField(max_length=200)
    content = models.TextField()
    pii = models.JSONField(default=list)
    tier = models.CharField(max_length=16)
    origin = models.CharField(max_length=16)
    run = models.ForeignKey("threads.Run", on_delete=models.CASCADE, null=True, related_name="+")
    confidence = models.FloatField(null=True)
    expires_at = models.DateTimeField(null=True)
    status = models.CharField(max_length=16, choices=ItemStatus.choices, default=ItemStatus.ACTIVE)
    version = models.PositiveIntegerField(default=1)
    written_by = models.CharField(max_length=80)
    created_at = models.DateTimeField(default=timezone.now)
    updated_at = models.DateTimeField(default=timezone.now)

    class Meta:
        constraints = [
            tenant_unique("memoryitem"),
            models.UniqueConstraint(
                fields=["tenant", "end_user", "team", "role", "category", "key", "status"],
                name="memoryitem_key_uniq",
                nulls_distinct=False,
            ),
            models.CheckConstraint(
                condition=models.Q(category__in=ItemCategory.values),
                name="memoryitem_category_valid",
            ),
            models.CheckConstraint(
                condition=models.Q(status__in=ItemStatus.values), name="memoryitem_status_valid"
            ),
            models.CheckConstraint(
                condition=models.Q(key__regex=r"^[a-z][a-z0-9]*(_[a-z0-9]+)*$"),
                name="memoryitem_key_snake_case",
            ),
            models.CheckConstraint(
                condition=GreaterThan(Length("content"), 0)
                & LessThanOrEqual(Length("content"), 500),
                name="memoryitem_content_length",
            ),
            models.CheckConstraint(
                condition=models.Q(origin__in=_ORIGINS), name="memoryitem_origin_valid"
            ),
            models.CheckConstraint(
                condition=~models.Q(origin="run") | models.Q(run__isnull=False),
                name="memoryitem_run_named",
            ),
            models.CheckConstraint(
                condition=models.Q(tier__in=["approved", "stated", "observed", "untrusted"]),
                name="memoryitem_tier_valid",
            ),
            models.CheckConstraint(
                condition=models.Q(end_user__isnull=True) ^ models.Q(team__isnull=True),
                name="memoryitem_one_owner",
            ),
            models.CheckConstraint(
                condition=models.Q(confidence__isnull=True)
                | models.Q(confidence__gte=0, confidence__lte=1),
                name="memoryitem_confidence_share",
            ),
        ]
        indexes = [
            models.Index(
                fields=["tenant", "end_user", "role", "-updated_at"], name="memoryitem_person_idx"
            ),
            models.Index(
                fields=["tenant", "expires_at"],
                condition=models.Q(expires_at__isnull=False),
                name="memoryitem_expiry_idx",
            ),
            models.Index(
                fields=["tenant", "created_at"],
                condition=models.Q(status="held"),
                name="memoryitem_held_idx",
            ),
        ]


class MemoryItemVersion(TenantModel):
    """What an item said at one version; it goes with its item."""

    walls = Walls(user="end_user_id", team="team_id")
    personal = frozenset({"title", "content"})
    kept = frozenset(
        "id tenant end_user team item version tier origin run confidence expires_at written_by at"
        "".split()
    )

    id = id_field("mver")
    end_user = models.ForeignKey(
        "memory.EndUser", on_delete=models.CASCADE, null=True, related_name="+"
    )
    team = models.ForeignKey("memory.Team", on_delete=models.CASCADE, null=True, related_name="+")
    item = models.ForeignKey(MemoryItem, on_delete=models.CASCADE, related_name="versions")
    version = models.PositiveIntegerField()
    title = models.CharField(max_length=200)
    content = models.TextField()
    tier = models.CharField(max_length=16)
    origin = models.CharField(max_length=16)
    run = models.ForeignKey("threads.Run", on_delete=models.CASCADE, null=True, related_name="+")
    confidence = models.FloatField(null=True)
    expires_at = models.DateTimeField(null=True)
    written_by = models.CharField(max_length=80)
    at = models.DateTimeField(default=timezone.now)

    class Meta:
        constraints = [
            tenant_unique("memoryitemversion"),
            models.UniqueConstraint(
                fields=["tenant", "item", "version"], name="memoryitemversion_number_uniq"
            ),
        ]
