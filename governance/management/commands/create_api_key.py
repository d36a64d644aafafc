"""`manage.py create_api_key --tenant SLUG --scopes run,read`."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

from django.core.management.base import CommandParser
from django.utils import timezone

from governance.keys import create_key, holds_both
from governance.management.base import TenantCommand
from memory.rls import scoped_transaction


class Command(TenantCommand):
    """Makes an API key; its secret is shown this once."""

    help = "Create an API key; the secret is shown once."

    def add_arguments(self, parser: CommandParser) -> None:
        """Take the scopes, a name and an expiry."""
        super().add_arguments(parser)
        parser.add_argument("--scopes", required=True, help="comma-separated: run,read,write,…")
        parser.add_argument("--name", default="")
        parser.add_argument("--days", type=int, help="expires after this many days")

    def handle(self, *args: Any, **options: Any) -> None:
        """Create the key."""
        scope, now = self.scope(options), timezone.now()
        scopes = [word.strip() for word in options["scopes"].split(",") if word.strip()]
        expires_at = now + timedelta(days=options["days"]) if options["days"] else None
        with scoped_transaction(scope):
            made = create_key(
                scope=scope, scopes=scopes, now=now, name=options["name"], expires_at=expires_at
            )
        if holds_both(scopes):
            note = "note: this key both proposes and approves; policy govern_with_write is for that"
            self.stderr.write(note)
        self.show(options, {"id": made.key.id, "key": made.secret})
