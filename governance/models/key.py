"""API keys: a public prefix to find them, an HMAC under a versioned pepper to check them."""

from __future__ import annotations

from django.conf import settings
from django.contrib.postgres.fields import ArrayField
from django.db import models
from django.utils import timezone

from memory.models.base import TenantModel, id_field, tenant_unique


class KeyScope(models.TextChoices):
    """What a key may do at all; its service account's grants narrow it further."""

    RUN = "run"
    READ = "read"
    WRITE = "write"
    GOVERN = "govern"
    ERASE = "erase"
    ADMIN = "admin"


class ApiKey(TenantModel):
    """A credential of one tenant. The secret is shown once and never stored."""

    kept = frozenset(
        "id tenant name prefix digest pepper_version scopes principal agent end_user created_at"
        " expires_at revoked_at last_used_at created_by".split()
    )

    id = id_field("key")
    name = models.CharField(max_length=200, blank=True, default="")
    prefix = models.CharField(max_length=8, unique=True)
    digest = models.CharField(max_length=64)
    pepper_version = models.PositiveIntegerField()
    scopes = ArrayField(models.CharField(max_length=16, choices=KeyScope.choices))
    principal = models.ForeignKey(
        settings.AUTH_USER_MODEL, on_delete=models.PROTECT, related_name="+"
    )
    agent = models.ForeignKey(
        "threads.Agent", on_delete=models.CASCADE, null=True, blank=True, related_name="+"
    )
    end_user = models.ForeignKey(
        "memory.EndUser", on_delete=models.CASCADE, null=True, blank=True, related_name="+"
    )
    created_at = models.DateTimeField(default=timezone.now)
    created_by = models.CharField(max_length=80, blank=True, default="")
    expires_at = models.DateTimeField(null=True, blank=True)
    revoked_at = models.DateTimeField(null=True, blank=True)
    last_used_at = models.DateTimeField(null=True, blank=True)

    class Meta:
        verbose_name = "API key"
        constraints = [
            tenant_unique("apikey"),
            models.CheckConstraint(
                condition=models.Q(scopes__len__gt=0), name="apikey_scopes_not_empty"
            ),
            models.CheckConstraint(
                condition=models.Q(prefix__regex=r"^[a-z0-9]{8}$"), name="apikey_prefix_shape"
            ),
        ]
