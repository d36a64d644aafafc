"""T1 policy: what a tenant changed of the defaults of governance.policy."""

from __future__ import annotations

from django.db import models
from django.utils import timezone

from memory.models.base import TenantModel, id_field, tenant_unique


class TenantPolicy(TenantModel):
    """The overrides of one tenant, validated against governance.policy.RULES before a write."""

    kept = frozenset("id tenant overrides updated_at".split())

    id = id_field("pol")
    overrides = models.JSONField(default=dict)
    updated_at = models.DateTimeField(default=timezone.now)

    class Meta:
        constraints = [
            tenant_unique("tenantpolicy"),
            models.UniqueConstraint(fields=["tenant"], name="tenantpolicy_one_per_tenant"),
        ]
