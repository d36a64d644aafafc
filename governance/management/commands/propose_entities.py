"""`manage.py propose_entities [--tenant SLUG] [--json]`."""

from __future__ import annotations

from typing import Any

from django.utils import timezone

from governance.entities.proposals import propose
from governance.management.base import AnyTenantCommand
from memory.scope import Scope


class Command(AnyTenantCommand):
    """Makes candidates of all corrections that belong to none."""

    help = "Make entity candidates of a tenant's corrections, 50 a pass; safe to repeat."

    def handle(self, *args: Any, **options: Any) -> None:
        """Do it and print how many there were."""
        self.show_sum(options, map(_propose_all, self.scopes(options)))


def _propose_all(scope: Scope) -> dict[str, int]:
    """Go on until no correction is left, and return the counts."""
    counts = {"corrections": 0, "candidates": 0, "evidence": 0, "distrusted": 0}
    is_more = True
    while is_more:
        report = propose(scope=scope, now=timezone.now())
        for name in counts:
            counts[name] += getattr(report, name)
        is_more = report.is_more
    return counts
