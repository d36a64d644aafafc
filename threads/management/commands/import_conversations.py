"""`manage.py import_conversations --tenant SLUG --agent ID FILE`."""

from __future__ import annotations

import sys
from dataclasses import asdict
from pathlib import Path
from typing import Any, Final

from django.core.management.base import CommandError, CommandParser
from django.utils import timezone

from governance.management.base import TenantCommand
from memory.rls import scoped_transaction
from memory.scope import Scope
from threads.imports import ImportReport, import_conversations
from threads.models import Agent

EXIT_BAD_LINES: Final = 3
_SHOWN: Final = 20


class Command(TenantCommand):
    """Imports a file of JSON lines; exits with 3 when some lines were left out."""

    help = "Import conversations from JSON lines; repeatable without doubling."

    def add_arguments(self, parser: CommandParser) -> None:
        """Take the agent and the file."""
        super().add_arguments(parser)
        parser.add_argument("--agent", required=True, metavar="ID")
        parser.add_argument(
            "--learn",
            action="store_true",
            help="look the turns through for lasting facts, which wait for a decision",
        )
        parser.add_argument("file", type=Path, help="a .jsonl file")

    def handle(self, *args: Any, **options: Any) -> None:
        """Import the file and say what became of it."""
        path: Path = options["file"]
        if path.suffix not in {".jsonl", ".ndjson"}:
            raise CommandError(f"{path.name} was not read: the importer takes .jsonl files only.")
        if not path.is_file():
            raise CommandError(f"There is no file {path.name}.")
        scope = self.scope(options)
        with path.open(encoding="utf-8", errors="surrogateescape") as lines:
            report = import_conversations(
                scope=scope,
                agent=_agent(scope, options["agent"]),
                lines=lines,
                now=timezone.now(),
                learns=options["learn"],
                on_progress=self._progress,
            )
        self._report(options, report)
        if report.bad_lines:
            sys.exit(EXIT_BAD_LINES)

    def _progress(self, report: ImportReport) -> None:
        if self.stderr.isatty():
            self.stderr.write(f"\r{report.lines} lines, {report.turns_new} new turns", ending="")

    def _report(self, options: dict[str, Any], report: ImportReport) -> None:
        if options["json"]:
            self.show(options, asdict(report))
            return
        counts = asdict(report)
        bad = counts.pop("bad_lines")
        self.show(options, counts | {"bad_lines": len(bad)})
        for line in bad[:_SHOWN]:
            self.stderr.write(f"line {line['number']}: {line['reason']}")
        if len(bad) > _SHOWN:
            self.stderr.write(f"… and {len(bad) - _SHOWN} more; --json lists them all")


def _agent(scope: Scope, agent_id: str) -> Agent:
    with scoped_transaction(scope):
        agent = Agent.objects.in_scope(scope).filter(pk=agent_id).first()
    if agent is None:
        raise CommandError(f"There is no agent {agent_id!r} in this tenant.")
    return agent
