"""`manage.py reindex --tenant SLUG [--rebuild] [--json]`."""

from __future__ import annotations

from dataclasses import asdict
from typing import Any

from django.core.management.base import CommandParser
from django.utils import timezone

from governance.management.base import TenantCommand
from threads.recall.reindexing import reindex


class Command(TenantCommand):
    """Fills in what a tenant's index lacks; the worker does the rest."""

    help = "Give messages their words and have the worker index every thread; safe to repeat."

    def add_arguments(self, parser: CommandParser) -> None:
        """Take whether to write all records anew."""
        super().add_arguments(parser)
        parser.add_argument(
            "--rebuild",
            action="store_true",
            help="also write the records of all entries anew, after a change of words",
        )

    def handle(self, *args: Any, **options: Any) -> None:
        """Do it and print how much there was."""
        scope = self.scope(options)
        report = reindex(scope=scope, now=timezone.now(), is_rebuild=options["rebuild"])
        self.show(options, asdict(report))
