"""App configuration of memory."""

from __future__ import annotations

from django.apps import AppConfig


class MemoryConfig(AppConfig):
    """The memory app."""

    name = "memory"
    default_auto_field = "django.db.models.BigAutoField"

    def ready(self) -> None:
        """Register the check of the walls."""
        import memory.checks  # noqa: F401, PLC0415 - it looks at models, so not before now
