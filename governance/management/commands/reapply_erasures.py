"""`manage.py reapply_erasures [--json]`."""

from __future__ import annotations

from dataclasses import asdict
from typing import Any

from django.core.management.base import CommandError
from django.utils import timezone

from governance.erasure.reapply import reapply_erasures
from governance.erasure.tagging import tagged_eraser
from governance.management.base import CredenceCommand


class Command(CredenceCommand):
    """Does again, after a restore from a backup, what was erased and held since that backup."""

    help = "After a restore: do the erasures and holds of the ledger again; safe to repeat."

    def handle(self, *args: Any, **options: Any) -> None:
        """Do it and print how much; exit code 1 while something is left."""
        report = reapply_erasures(now=timezone.now(), tagged=tagged_eraser())
        self.show(options, asdict(report))
        if report.missing:
            raise CommandError(f"{report.missing} entries of the ledger are not in effect; again.")
