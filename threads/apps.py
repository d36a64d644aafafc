"""App configuration of threads."""

from __future__ import annotations

from django.apps import AppConfig


class ThreadsConfig(AppConfig):
    """The threads app."""

    name = "threads"
    default_auto_field = "django.db.models.BigAutoField"
