"""Chat providers of a tenant."""

from __future__ import annotations

from django.db import models
from django.utils import timezone

from memory.models.base import TenantModel, id_field, tenant_unique


class ProviderKind(models.TextChoices):
    """How a provider is spoken to."""

    OPENAI_COMPATIBLE = "openai_compatible"
    OFFLINE = "offline"


class Locality(models.TextChoices):
    """Where a provider runs, which decides where conversation text may go."""

    LOCAL = "local"
    CLOUD = "cloud"


class Provider(TenantModel):
    """A model server: where it is, whose it is, and its key, encrypted at rest."""

    kept = frozenset(
        "id tenant name kind base_url sealed_api_key locality vendor timeouts is_active created_at"
        " updated_at".split()
    )

    id = id_field("prov")
    name = models.CharField(max_length=200)
    kind = models.CharField(max_length=32, choices=ProviderKind.choices)
    base_url = models.CharField(max_length=500, blank=True, default="")
    sealed_api_key = models.TextField(blank=True, default="")
    locality = models.CharField(max_length=8, choices=Locality.choices)
    vendor = models.CharField(max_length=100, blank=True, default="")
    timeouts = models.JSONField(default=dict, blank=True)
    is_active = models.BooleanField(default=True)
    created_at = models.DateTimeField(default=timezone.now)
    updated_at = models.DateTimeField(default=timezone.now)

    class Meta:
        constraints = [
            tenant_unique("provider"),
            models.UniqueConstraint(fields=["tenant", "name"], name="provider_name_uniq"),
            models.CheckConstraint(
                condition=models.Q(kind__in=ProviderKind.values), name="provider_kind_valid"
            ),
            models.CheckConstraint(
                condition=models.Q(locality__in=Locality.values), name="provider_locality_valid"
            ),
        ]
