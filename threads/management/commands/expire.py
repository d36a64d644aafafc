"""`manage.py expire [--tenant SLUG] [--dry-run] [--json]`."""

from __future__ import annotations

from dataclasses import asdict
from typing import Any

from django.core.management.base import CommandParser
from django.utils import timezone

from governance.management.base import AnyTenantCommand
from threads.learning.expiry import apply_retention, count_due


class Command(AnyTenantCommand):
    """Takes away what is past its end or its retention, of one tenant or of all, as the worker does."""

    help = "Delete expired items, and recall and traces past the policy's days; safe to repeat."

    def add_arguments(self, parser: CommandParser) -> None:
        """Take whether only to count."""
        super().add_arguments(parser)
        parser.add_argument("--dry-run", action="store_true", help="count them, change nothing")

    def handle(self, *args: Any, **options: Any) -> None:
        """Do it and print what went, in rows."""
        now = timezone.now()
        act = count_due if options["dry_run"] else apply_retention
        self.show_sum(
            options, [_counts(act(scope=scope, now=now)) for scope in self.scopes(options)]
        )


def _counts(report: Any) -> dict[str, int]:
    counts = asdict(report)
    counts.pop("is_more")
    return counts
