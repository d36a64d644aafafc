"""`manage.py sweep`: find lost work once, now."""

from __future__ import annotations

import json
from dataclasses import asdict
from typing import Any

from django.core.management.base import BaseCommand, CommandParser
from django.utils import timezone

from threads.forest.jobs import find_nodes
from threads.summaries import find_roll
from threads.sweep import sweep


class Command(BaseCommand):
    """Sweeps once and reports counts."""

    help = "End runs whose process is gone, ring for due jobs, forget old idempotent answers."

    def add_arguments(self, parser: CommandParser) -> None:
        """Take the choice of JSON."""
        parser.add_argument("--json", action="store_true", help="Print one JSON object.")

    def handle(self, *args: Any, **options: Any) -> None:
        """Sweep and print."""
        counts = asdict(sweep(now=timezone.now(), find_roll=find_roll, find_nodes=find_nodes))
        if options["json"]:
            self.stdout.write(json.dumps(counts))
            return
        for name, value in counts.items():
            self.stdout.write(f"{name.replace('_', ' ')}: {value}")
