"""`manage.py verify_audit`: check the chain of one tenant or all; non-zero where something is wrong."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

from django.core.management.base import CommandError, CommandParser

from governance.management.base import AnyTenantCommand
from governance.sealing import ChainReport, Head, read_heads, verify
from memory.scope import Scope


class Command(AnyTenantCommand):
    """Reads the whole log once and compares it with leaves, links and exported heads."""

    help = "Check that no audit row or disclosure was changed, taken away or slipped in."

    def add_arguments(self, parser: CommandParser) -> None:
        """Take --tenant, --heads and --json."""
        super().add_arguments(parser)
        parser.add_argument(
            "--heads",
            metavar="FILE",
            help="exported heads to compare with; without it, the file that the sealer writes",
        )

    def handle(self, *args: Any, **options: Any) -> None:
        """Print what was found of each tenant; exit code 1 when something does not fit."""
        named = Path(options["heads"]) if options["heads"] else None
        try:
            if named is not None and not named.exists():
                raise CommandError(f"There is no file {named}.")
            heads = read_heads(path=named)
        except (OSError, ValueError) as error:
            raise CommandError(f"The file of heads can not be read: {error}.") from error
        scopes = self.scopes(options)
        if options["tenant"] is None:
            scopes += _gone(scopes, heads)
        reports = [verify(scope=scope, heads=heads) for scope in scopes]
        if options["json"]:
            self.stdout.write(json.dumps([_plain(report) for report in reports]))
        else:
            for report in reports:
                self._show(report)
        wrong = [report.tenant_id for report in reports if not report.is_intact]
        if wrong:
            raise CommandError(f"The chain of {', '.join(wrong)} is not intact.")

    def _show(self, report: ChainReport) -> None:
        mark = self.style.SUCCESS("ok   ") if report.is_intact else self.style.ERROR("wrong")
        self.stdout.write(
            f"{mark} {report.tenant_id}: {report.sealed} rows in {report.seals} links,"
            f" {report.unsealed} not sealed yet, {report.heads} exported heads compared"
        )
        for problem in report.problems:
            where = f"link {problem.seq}" if problem.seq is not None else "no link"
            self.stdout.write(f"      {problem.kind}: {problem.id or 'chain'} ({where})")
        if report.problem_count > len(report.problems):
            self.stdout.write(f"      … {report.problem_count} in all")


def _gone(scopes: Sequence[Scope], heads: Sequence[Head]) -> list[Scope]:
    """Return scopes of tenants that have heads and are no more: no act of the product ends so."""
    missing = {head.tenant_id for head in heads} - {scope.tenant_id for scope in scopes}
    return [Scope(tenant_ids=(one,), principal_id="command") for one in sorted(missing)]


def _plain(report: ChainReport) -> dict[str, Any]:
    at = report.oldest_unsealed_at
    return {
        **asdict(report),
        "oldest_unsealed_at": at.isoformat() if at else None,
        "is_intact": report.is_intact,
    }
