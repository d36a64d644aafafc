"""`manage.py create_provider --tenant SLUG --name N --base-url U --locality local`."""

from __future__ import annotations

import os
from typing import Any

from django.core.management.base import CommandError, CommandParser
from django.utils import timezone

from governance.management.base import TenantCommand
from threads.models import Locality, ProviderKind
from threads.providers import ProviderValues, create_provider


class Command(TenantCommand):
    """Makes a chat provider."""

    help = "Create a chat provider of a tenant."

    def add_arguments(self, parser: CommandParser) -> None:
        """Take what a provider is made of."""
        super().add_arguments(parser)
        parser.add_argument("--name", required=True)
        parser.add_argument(
            "--kind", default=ProviderKind.OPENAI_COMPATIBLE, choices=ProviderKind.values
        )
        parser.add_argument("--base-url", default="", help="such as http://127.0.0.1:11434/v1")
        parser.add_argument("--locality", required=True, choices=Locality.values)
        parser.add_argument("--vendor", default="")
        parser.add_argument("--api-key-env", metavar="VAR", help="variable that holds its API key")

    def handle(self, *args: Any, **options: Any) -> None:
        """Create it and print its id."""
        values: ProviderValues = {
            "name": options["name"],
            "kind": options["kind"],
            "base_url": options["base_url"],
            "locality": options["locality"],
            "vendor": options["vendor"],
        }
        variable = options["api_key_env"]
        if variable:
            if variable not in os.environ:
                raise CommandError(f"The variable {variable} is not set.")
            values["api_key"] = os.environ[variable]
        provider = create_provider(scope=self.scope(options), values=values, now=timezone.now())
        self.show(options, {"id": provider.pk, "name": provider.name})
