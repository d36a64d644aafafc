"""App configuration of memory."""

from __future__ import annotations

from django.apps import AppConfig


class MemoryConfig(AppConfig):
    """The memory app."""

    name = "memory"
    default_auto_field = "django.db.models.BigAutoField"
