"""What the product's commands share: a tenant by its slug, and output for people or as JSON."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from typing import Any

from django.core.management.base import BaseCommand, CommandError, CommandParser
from django.db import OperationalError

from governance.tenants import find_tenant
from memory.errors import CredenceError
from memory.models import Tenant
from memory.rls import maintenance_transaction
from memory.scope import Scope


class CredenceCommand(BaseCommand):
    """A command whose errors are said in one line, and whose result can be had as JSON."""

    def add_arguments(self, parser: CommandParser) -> None:
        """Take --json."""
        parser.add_argument("--json", action="store_true", help="print the result as JSON")

    def execute(self, *args: Any, **options: Any) -> str | None:
        """Run, turning the product's errors into a line on stderr and exit code 1."""
        try:
            return super().execute(*args, **options)
        except CredenceError as error:
            raise CommandError(f"{error.code}: {error.detail}") from error
        except OperationalError as error:
            text = "database_unavailable: The database does not answer; is the instance running?"
            raise CommandError(text) from error

    def show(self, options: dict[str, Any], result: dict[str, Any]) -> None:
        """Print a result: JSON with --json, else a line a name."""
        if options["json"]:
            self.stdout.write(json.dumps(result, ensure_ascii=False))
            return
        for name, value in result.items():
            self.stdout.write(f"{name}: {value}")


class AnyTenantCommand(CredenceCommand):
    """A command that works in one tenant, or in all where none is named."""

    def add_arguments(self, parser: CommandParser) -> None:
        """Take --tenant and --json."""
        super().add_arguments(parser)
        parser.add_argument("--tenant", metavar="SLUG", help="one tenant; without it, all")

    def scopes(self, options: dict[str, Any]) -> list[Scope]:
        """Return the scope of each tenant to serve.

        Raises:
            NotFoundError: There is no tenant of the slug that was named.
        """
        if options["tenant"] is not None:
            ids = [find_tenant(slug=options["tenant"]).pk]
        else:
            with maintenance_transaction() as alias:
                rows = Tenant.objects.using(alias).unscoped(
                    reason="the command serves every tenant"
                )
                ids = list(rows.order_by("id").values_list("pk", flat=True))
        return [Scope(tenant_ids=(one,), principal_id="command") for one in ids]

    def show_sum(self, options: dict[str, Any], counts: Iterable[Mapping[str, int]]) -> None:
        """Print what was counted in all tenants together."""
        totals: dict[str, int] = {}
        for one in counts:
            totals = {name: totals.get(name, 0) + count for name, count in one.items()}
        self.show(options, totals)


class TenantCommand(CredenceCommand):
    """A command that works inside one tenant."""

    def add_arguments(self, parser: CommandParser) -> None:
        """Take --tenant and --json."""
        super().add_arguments(parser)
        parser.add_argument("--tenant", required=True, metavar="SLUG", help="the tenant's slug")

    def scope(self, options: dict[str, Any]) -> Scope:
        """Return the scope of the tenant named on the command line.

        Raises:
            NotFoundError: There is no such tenant.
        """
        tenant = find_tenant(slug=options["tenant"])
        return Scope(tenant_ids=(tenant.id,), principal_id="command")
