"""Agents: system prompt, model, window, role and policy."""

from __future__ import annotations

from django.contrib.postgres.fields import ArrayField
from django.db import models
from django.utils import timezone

from memory.models.base import TenantModel, id_field, tenant_unique
from threads.models.provider import Provider


class Language(models.TextChoices):
    """The language of what Credence itself says inside a prompt."""

    ZH = "zh"
    EN = "en"
    AUTO = "auto"


class ThreadStrategy(models.TextChoices):
    """How a long thread is kept inside the window."""

    ROLLING = "rolling"
    LOSSLESS = "lossless"


class Agent(TenantModel):
    """What a tenant's application asks questions of."""

    kept = frozenset(
        "id tenant name system_prompt provider model context_window max_output_tokens language role"
        " thread_strategy tools memory_fallback_provider cross_vendor_consent_at policy is_active"
        " created_at updated_at".split()
    )

    id = id_field("ag")
    name = models.CharField(max_length=200)
    system_prompt = models.TextField(blank=True, default="")
    provider = models.ForeignKey(Provider, on_delete=models.PROTECT, related_name="agents")
    model = models.CharField(max_length=200)
    context_window = models.PositiveIntegerField(help_text="Tokens.")
    max_output_tokens = models.PositiveIntegerField(help_text="Tokens.")
    language = models.CharField(max_length=4, choices=Language.choices, default=Language.AUTO)
    role = models.CharField(max_length=64, default="default")
    thread_strategy = models.CharField(
        max_length=16, choices=ThreadStrategy.choices, default=ThreadStrategy.ROLLING
    )
    tools = ArrayField(models.CharField(max_length=64), default=list, blank=True)
    memory_fallback_provider = models.ForeignKey(
        Provider, on_delete=models.PROTECT, null=True, blank=True, related_name="fallback_agents"
    )
    cross_vendor_consent_at = models.DateTimeField(null=True, blank=True)
    policy = models.JSONField(default=dict, blank=True)
    is_active = models.BooleanField(default=True)
    created_at = models.DateTimeField(default=timezone.now)
    updated_at = models.DateTimeField(default=timezone.now)

    class Meta:
        permissions = [("run_this_agent", "May run this agent")]
        constraints = [
            tenant_unique("agent"),
            models.UniqueConstraint(
                fields=["tenant", "name"],
                condition=models.Q(is_active=True),
                name="agent_active_name_uniq",
            ),
            models.CheckConstraint(
                condition=models.Q(context_window__gte=1024), name="agent_window_floor"
            ),
            models.CheckConstraint(
                condition=models.Q(max_output_tokens__gte=1)
                & models.Q(max_output_tokens__lt=models.F("context_window")),
                name="agent_output_fits_window",
            ),
            models.CheckConstraint(
                condition=models.Q(language__in=Language.values), name="agent_language_valid"
            ),
            models.CheckConstraint(
                condition=models.Q(thread_strategy__in=ThreadStrategy.values),
                name="agent_strategy_valid",
            ),
        ]
