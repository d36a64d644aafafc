"""`manage.py expire [--tenant SLUG] [--dry-run] [--json]`."""

from __future__ import annotations

from dataclasses import asdict
from typing import Any

from django.core.management.base import CommandParser
from django.utils import timezone

from governance.management.base import CredenceCommand
from governance.tenants import find_tenant
from memory.models import Tenant
from memory.rls import maintenance_transaction
from memory.scope import Scope
from threads.learning.expiry import apply_retention, count_due


class Command(CredenceCommand):
    """Takes away what is past its end or its retention, of one tenant or of all, as the worker does."""

    help = "Delete expired items, and recall and traces past the policy's days; safe to repeat."

    def add_arguments(self, parser: CommandParser) -> None:
        """Take the tenant, and whether only to count."""
        super().add_arguments(parser)
        parser.add_argument("--tenant", metavar="SLUG", help="one tenant; without it, all")
        parser.add_argument("--dry-run", action="store_true", help="count them, change nothing")

    def handle(self, *args: Any, **options: Any) -> None:
        """Do it and print what went, in rows."""
        totals: dict[str, int] = {}
        now = timezone.now()
        act = count_due if options["dry_run"] else apply_retention
        for tenant_id in _tenant_ids(options["tenant"]):
            scope = Scope(tenant_ids=(tenant_id,), principal_id="command")
            counts = asdict(act(scope=scope, now=now))
            counts.pop("is_more")
            totals = {name: totals.get(name, 0) + count for name, count in counts.items()}
        self.show(options, totals)


def _tenant_ids(slug: str | None) -> list[str]:
    """Return the tenants to serve.

    Raises:
        NotFoundError: There is none of that slug.
    """
    if slug is not None:
        return [find_tenant(slug=slug).pk]
    with maintenance_transaction() as alias:
        rows = Tenant.objects.using(alias).unscoped(reason="retention holds for every tenant")
        return list(rows.order_by("id").values_list("pk", flat=True))
