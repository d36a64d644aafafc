"""`manage.py create_tenant SLUG`."""

from __future__ import annotations

from typing import Any

from django.core.management.base import CommandParser
from django.utils import timezone

from governance.management.base import CredenceCommand
from governance.tenants import create_tenant


class Command(CredenceCommand):
    """Makes a tenant with its roles."""

    help = "Create a tenant."

    def add_arguments(self, parser: CommandParser) -> None:
        """Take the slug and a name."""
        super().add_arguments(parser)
        parser.add_argument("slug", help="a-z, 0-9 and inner dashes, at most 63 characters")
        parser.add_argument("--name", default="", help="the name people read; the slug by default")

    def handle(self, *args: Any, **options: Any) -> None:
        """Create it and print its id."""
        tenant = create_tenant(
            slug=options["slug"], name=options["name"], now=timezone.now(), actor="command"
        )
        self.show(options, {"id": tenant.id, "slug": tenant.slug})
