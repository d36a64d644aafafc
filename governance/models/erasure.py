"""Erasures and their receipts, legal holds, and links to exports."""

from __future__ import annotations

from django.contrib.postgres.fields import ArrayField
from django.db import models
from django.utils import timezone

from memory.models.base import TenantModel, Walls, id_field, tenant_unique


class ErasureMode(models.TextChoices):
    """Whether everything of a person goes, or what is tagged as personal in their texts."""

    ALL = "all"
    TAGGED = "tagged"


class ErasureStatus(models.TextChoices):
    """Where an erasure stands; a failed one can be tried again."""

    QUEUED = "queued"
    RUNNING = "running"
    DONE = "done"
    FAILED = "failed"


class ErasureOrigin(models.TextChoices):
    """Why it is done."""

    REQUEST = "request"
    REAPPLIED = "reapplied"
    TENANT_END = "tenant_end"


class Verified(models.TextChoices):
    """Whether a search through everything found nothing of the person any more."""

    PENDING = "pending"
    TRUE = "true"
    FALSE = "false"


class Erasure(TenantModel):
    """One act of erasing one person, from the request to the receipt; it outlives the person.

    `subject_id` is no foreign key, since the row it names is gone in the end; `subject_hmac` tells
    a person who comes back. Only `sealed_needles`, encrypted and emptied by the verification, has
    anything of the person in it.
    """

    personal = frozenset({"sealed_needles"})
    kept = frozenset(
        "id tenant subject_id subject_hmac subject_epoch mode kinds before_at origin is_physical"
        " status step counts verified findings receipt receipt_sha256 requested_by attempts epoch"
        " lease_until error_code created_at started_at erased_at ledgered_at verified_at"
        " finished_at".split()
    )

    id = id_field("era")
    subject_id = models.CharField(max_length=40)
    subject_hmac = models.CharField(max_length=64)
    subject_epoch = models.PositiveIntegerField()
    mode = models.CharField(max_length=8, choices=ErasureMode.choices)
    kinds = ArrayField(
        models.CharField(max_length=40), default=list, help_text="Only these kinds; empty for all."
    )
    before_at = models.DateTimeField(null=True, help_text="Only texts from before this time.")
    origin = models.CharField(
        max_length=12, choices=ErasureOrigin.choices, default=ErasureOrigin.REQUEST
    )
    is_physical = models.BooleanField(default=False)
    status = models.CharField(
        max_length=8, choices=ErasureStatus.choices, default=ErasureStatus.QUEUED
    )
    step = models.CharField(max_length=40, blank=True, default="")
    counts = models.JSONField(default=dict)
    verified = models.CharField(max_length=8, choices=Verified.choices, default=Verified.PENDING)
    findings = models.JSONField(
        default=list, help_text="Where something was still found: tables, columns, numbers."
    )
    sealed_needles = models.TextField(blank=True, default="")
    receipt = models.JSONField(default=dict)
    receipt_sha256 = models.CharField(max_length=64, blank=True, default="")
    requested_by = models.CharField(max_length=80)
    attempts = models.PositiveIntegerField(default=0)
    epoch = models.PositiveBigIntegerField(default=0)
    lease_until = models.DateTimeField(null=True)
    error_code = models.CharField(max_length=64, blank=True, default="")
    created_at = models.DateTimeField(default=timezone.now)
    started_at = models.DateTimeField(null=True)
    erased_at = models.DateTimeField(null=True)
    ledgered_at = models.DateTimeField(null=True)
    verified_at = models.DateTimeField(null=True)
    finished_at = models.DateTimeField(null=True)

    class Meta:
        constraints = [
            tenant_unique("erasure"),
            models.UniqueConstraint(
                fields=["tenant", "subject_id"],
                condition=models.Q(status__in=["queued", "running"]),
                name="erasure_one_unfinished",
            ),
            models.CheckConstraint(
                condition=models.Q(mode__in=ErasureMode.values), name="erasure_mode_valid"
            ),
            models.CheckConstraint(
                condition=models.Q(status__in=ErasureStatus.values), name="erasure_status_valid"
            ),
            models.CheckConstraint(
                condition=models.Q(origin__in=ErasureOrigin.values), name="erasure_origin_valid"
            ),
            models.CheckConstraint(
                condition=models.Q(verified__in=Verified.values), name="erasure_verified_valid"
            ),
            models.CheckConstraint(
                condition=~models.Q(status="running") | models.Q(lease_until__isnull=False),
                name="erasure_running_has_lease",
            ),
            models.CheckConstraint(
                condition=~models.Q(status="done")
                | models.Q(
                    erased_at__isnull=False, ledgered_at__isnull=False, finished_at__isnull=False
                ),
                name="erasure_done_is_ledgered",
            ),
            models.CheckConstraint(
                condition=models.Q(verified="pending") | models.Q(sealed_needles=""),
                name="erasure_verified_holds_nothing",
            ),
        ]
        indexes = [
            models.Index(
                fields=["tenant", "subject_hmac", "subject_epoch"], name="erasure_tombstone_idx"
            ),
            models.Index(
                fields=["created_at", "id"],
                condition=models.Q(status__in=["queued", "running"]) | models.Q(verified="pending"),
                name="erasure_open_idx",
            ),
        ]


class LegalHold(TenantModel):
    """That a person may not be erased for now; a released one stays as the record of it."""

    walls = Walls(user="subject_id")
    personal = frozenset({"reason"})
    kept = frozenset("id tenant subject_id placed_by placed_at released_by released_at".split())

    id = id_field("hold")
    subject_id = models.CharField(max_length=40)
    reason = models.CharField(max_length=500, blank=True, default="")
    placed_by = models.CharField(max_length=80)
    placed_at = models.DateTimeField(default=timezone.now)
    released_by = models.CharField(max_length=80, blank=True, default="")
    released_at = models.DateTimeField(null=True)

    class Meta:
        constraints = [
            tenant_unique("legalhold"),
            models.UniqueConstraint(
                fields=["tenant", "subject_id"],
                condition=models.Q(released_at__isnull=True),
                name="legalhold_one_active",
            ),
        ]


class ExportLink(TenantModel):
    """A link under which a person's export can be fetched until it expires.

    The export is made anew at each download: no file is kept that an erasure could miss. Only the
    secret's hash is stored.
    """

    walls = Walls(user="end_user_id")
    kept = frozenset(
        "id tenant end_user token_sha256 created_by created_at expires_at revoked_at downloads"
        " last_downloaded_at".split()
    )

    id = id_field("exp")
    end_user = models.ForeignKey("memory.EndUser", on_delete=models.CASCADE, related_name="+")
    token_sha256 = models.CharField(max_length=64)
    created_by = models.CharField(max_length=80)
    created_at = models.DateTimeField(default=timezone.now)
    expires_at = models.DateTimeField()
    revoked_at = models.DateTimeField(null=True)
    downloads = models.PositiveIntegerField(default=0)
    last_downloaded_at = models.DateTimeField(null=True)

    class Meta:
        constraints = [
            tenant_unique("exportlink"),
            models.CheckConstraint(
                condition=models.Q(expires_at__gt=models.F("created_at")),
                name="exportlink_ends_after_it_began",
            ),
        ]
