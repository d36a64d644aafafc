"""`manage.py rescan_memory --tenant SLUG [--json]`."""

from __future__ import annotations

from typing import Any

from django.utils import timezone

from governance.management.base import TenantCommand
from threads.recall.rescanning import rescan


class Command(TenantCommand):
    """Finds what was stored before a rule existed, and puts right what can be."""

    help = "Tag, mask or learn anew what today's gate would not store as it stands; safe to repeat."

    def handle(self, *args: Any, **options: Any) -> None:
        """Do it and print what was found, by table and by kind."""
        report = rescan(scope=self.scope(options), now=timezone.now())
        self.show(options, report.shown())
