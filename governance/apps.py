"""App configuration of governance."""

from __future__ import annotations

from django.apps import AppConfig


class GovernanceConfig(AppConfig):
    """The governance app."""

    name = "governance"
    default_auto_field = "django.db.models.BigAutoField"
