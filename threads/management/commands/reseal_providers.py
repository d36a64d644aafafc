"""`manage.py reseal_providers [--tenant SLUG] [--json]`."""

from __future__ import annotations

from dataclasses import asdict
from typing import Any

from django.core.management.base import CommandError
from django.utils import timezone

from governance.management.base import AnyTenantCommand
from threads.resealing import reseal_providers


class Command(AnyTenantCommand):
    """Seals the keys of providers anew, so that an older encryption key can be retired."""

    help = (
        "Seal every provider's key with the first of CREDENCE_ENCRYPTION_KEYS; safe to repeat."
        " Fails, after it has done the others, where a key opens with none of them."
    )

    def handle(self, *args: Any, **options: Any) -> None:
        """Do it and print how many were sealed anew.

        Raises:
            CommandError: A provider's key could not be opened.
        """
        now = timezone.now()
        reports = [reseal_providers(scope=scope, now=now) for scope in self.scopes(options)]
        self.show_sum(options, [asdict(report) for report in reports])
        unopened = sum(report.unopened for report in reports)
        if unopened:
            raise CommandError(
                f"{unopened} keys open with none of CREDENCE_ENCRYPTION_KEYS: add the key that they"
                " were sealed with, or give these providers their API keys again."
            )
