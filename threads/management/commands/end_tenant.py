"""Ending a tenant by command: every person is erased, then all that is the tenant's own."""

from __future__ import annotations

from typing import Any

from django.core.management.base import CommandError, CommandParser
from django.utils import timezone

from governance.erasure.tagging import tagged_eraser
from governance.management.base import TenantCommand
from threads.forgetting.tenants import TenantEnd, count_end, end_tenant


class Command(TenantCommand):
    """End a tenant here and now; what is left proves that it was done, and names nobody.

    Needs the slug a second time, in --yes; --dry-run counts and changes nothing. Fails under a
    legal hold, and if the search after it finds something.
    """

    help = __doc__ or ""

    def add_arguments(self, parser: CommandParser) -> None:
        """Take the tenant, twice."""
        super().add_arguments(parser)
        parser.add_argument("--dry-run", action="store_true", help="count, and change nothing")
        parser.add_argument("--yes", metavar="SLUG", help="the slug again: this can not be undone")

    def handle(self, *_args: Any, **options: Any) -> None:
        """Count, or end."""
        scope = self.scope(options)
        if options["dry_run"]:
            self.show(options, _told(count_end(scope=scope)))
            return
        if options["yes"] != options["tenant"]:
            raise CommandError("Say the slug again in --yes; this can not be undone.")
        ended = end_tenant(scope=scope, tagged=tagged_eraser(), now=timezone.now())
        self.show(options, _told(ended))
        if ended.unverified:
            raise CommandError(f"Something is left of {ended.unverified} persons; see erasures.")


def _told(end: TenantEnd) -> dict[str, Any]:
    return {
        "persons": end.persons,
        "unverified": end.unverified,
        "erased": dict(end.erased),
        "tenant_rows": dict(end.tenant_rows),
    }
