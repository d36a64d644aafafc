"""How a model counts tokens, as learned from the usage its provider reported."""

from __future__ import annotations

from django.db import models
from django.utils import timezone

from memory.models.base import TenantModel, id_field, tenant_unique
from threads.models.provider import Provider


class TokenFit(TenantModel):
    """The fit of one model at one provider: numbers only, never a text."""

    kept = frozenset("id tenant provider model state runs updated_at".split())

    id = id_field("fit")
    provider = models.ForeignKey(Provider, on_delete=models.CASCADE, related_name="+")
    model = models.CharField(max_length=200)
    state = models.JSONField(default=dict)
    runs = models.PositiveIntegerField(default=0)
    updated_at = models.DateTimeField(default=timezone.now)

    class Meta:
        constraints = [
            tenant_unique("tokenfit"),
            models.UniqueConstraint(
                fields=["tenant", "provider", "model"], name="tokenfit_model_uniq"
            ),
        ]
