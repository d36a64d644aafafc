"""Idempotency keys: the first answer to a POST, kept for a day and replayed."""

from __future__ import annotations

from django.db import models
from django.utils import timezone

from memory.models.base import TenantModel, Walls, id_field, tenant_unique


class IdempotencyRecord(TenantModel):
    """One Idempotency-Key of one principal: the request's hash and, once known, its answer."""

    walls = Walls()
    personal = frozenset({"body", "idempotency_key"})
    kept = frozenset(
        "id tenant principal_id request_sha256 status_code content_type run_id created_at"
        " lease_until end_user".split()
    )

    id = id_field("idem")
    principal_id = models.CharField(max_length=80)
    idempotency_key = models.CharField(max_length=255)
    request_sha256 = models.CharField(max_length=64)
    status_code = models.PositiveSmallIntegerField(null=True)
    content_type = models.CharField(max_length=100, blank=True, default="")
    body = models.TextField(blank=True, default="")
    run_id = models.CharField(max_length=40, blank=True, default="")
    end_user = models.ForeignKey(
        "memory.EndUser", on_delete=models.CASCADE, null=True, related_name="+"
    )
    created_at = models.DateTimeField(default=timezone.now)
    lease_until = models.DateTimeField()

    class Meta:
        constraints = [
            tenant_unique("idempotency"),
            models.UniqueConstraint(
                fields=["tenant", "principal_id", "idempotency_key"], name="idempotency_key_uniq"
            ),
        ]
        indexes = [models.Index(fields=["tenant", "created_at"], name="idempotency_age_idx")]
