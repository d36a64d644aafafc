"""`manage.py expire [--tenant SLUG] [--dry-run] [--json]`."""

from __future__ import annotations

from dataclasses import asdict
from datetime import datetime
from typing import Any

from django.core.management.base import CommandParser
from django.utils import timezone

from governance.management.base import AnyTenantCommand
from memory.scope import Scope
from threads.forgetting.retention import count_old_turns, forget_old_turns
from threads.learning.expiry import ExpiryReport, apply_retention, count_due


class Command(AnyTenantCommand):
    """Takes away what is past its end or its retention, of one tenant or of all, as the worker does."""

    help = (
        "Delete expired items, and turns, recall and traces past the policy's days; safe to repeat."
    )

    def add_arguments(self, parser: CommandParser) -> None:
        """Take whether only to count."""
        super().add_arguments(parser)
        parser.add_argument("--dry-run", action="store_true", help="count them, change nothing")

    def handle(self, *args: Any, **options: Any) -> None:
        """Do it and print what went, in rows."""
        now = timezone.now()
        act = _count if options["dry_run"] else _expire
        self.show_sum(options, [act(scope, now) for scope in self.scopes(options)])


def _count(scope: Scope, now: datetime) -> dict[str, int]:
    return {"turns": count_old_turns(scope=scope, now=now)} | _counts(
        count_due(scope=scope, now=now)
    )


def _expire(scope: Scope, now: datetime) -> dict[str, int]:
    gone, _ = forget_old_turns(scope=scope, now=now)
    report = apply_retention(scope=scope, now=now)
    return {"turns": gone.get("runs", 0)} | _counts(report)


def _counts(report: ExpiryReport) -> dict[str, int]:
    counts = asdict(report)
    counts.pop("is_more")
    return counts
