"""`manage.py decay_weights [--tenant SLUG] [--dry-run] [--json]`."""

from __future__ import annotations

from dataclasses import asdict
from typing import Any

from django.core.management.base import CommandParser
from django.utils import timezone

from governance.entities.weights import decay
from governance.management.base import AnyTenantCommand


class Command(AnyTenantCommand):
    """Lowers the weights of entities that nobody named for long."""

    help = "Lower the weights of idle entities; at most once in the policy's days, safe to repeat."

    def add_arguments(self, parser: CommandParser) -> None:
        """Take whether only to count."""
        super().add_arguments(parser)
        parser.add_argument("--dry-run", action="store_true", help="count them, change nothing")

    def handle(self, *args: Any, **options: Any) -> None:
        """Do it and print how many fell."""
        now, is_dry_run = timezone.now(), options["dry_run"]
        reports = [
            decay(scope=scope, now=now, is_dry_run=is_dry_run) for scope in self.scopes(options)
        ]
        if len(reports) == 1:
            self.show(options, asdict(reports[0]))
            return
        decayed = sum(report.decayed for report in reports)
        self.show(options, {"decayed": decayed, "is_dry_run": is_dry_run, "tenants": len(reports)})
