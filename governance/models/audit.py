"""The audit log: one row an act, written in the act's transaction, never changed."""

from __future__ import annotations

from django.db import models
from django.utils import timezone

from memory.models.base import TenantModel, id_field, tenant_unique


class AuditEntry(TenantModel):
    """Who did what to which object. Internal ids, counts and hashes only, never text.

    A trigger and the grants refuse UPDATE, DELETE and TRUNCATE to every role of the product.
    `target_id` is no foreign key on purpose: auditing never blocks deleting.
    """

    is_append_only = True
    kept = frozenset("id tenant at actor action target_kind target_id detail".split())

    id = id_field("aud")
    at = models.DateTimeField(default=timezone.now)
    actor = models.CharField(max_length=80)
    action = models.CharField(max_length=64)
    target_kind = models.CharField(max_length=32)
    target_id = models.CharField(max_length=64)
    detail = models.JSONField(default=dict)

    class Meta:
        verbose_name_plural = "audit entries"
        constraints = [tenant_unique("auditentry")]
        indexes = [models.Index(fields=["tenant", "at", "id"], name="auditentry_tenant_at_idx")]
