"""`manage.py create_chat_link --tenant SLUG --agent ID --user U`."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

from django.core.management.base import CommandError, CommandParser
from django.utils import timezone

from governance.management.base import TenantCommand
from threads.chat_links import DEFAULT_SECONDS, LEAST_SECONDS, MOST_SECONDS, link_path, open_seat


class Command(TenantCommand):
    """Makes a link to the chat page; whoever opens it talks as that person until it ends."""

    help = "Create a link to the chat page for one person and one agent."

    def add_arguments(self, parser: CommandParser) -> None:
        """Take agent, person, duration and the service's address."""
        super().add_arguments(parser)
        parser.add_argument("--agent", required=True, metavar="ID")
        parser.add_argument("--user", required=True, metavar="U", help="the tenant's own user_id")
        parser.add_argument(
            "--hours", type=float, default=DEFAULT_SECONDS / 3600, help="until it ends (24)"
        )
        parser.add_argument(
            "--base-url", default="http://127.0.0.1:8000", help="where the service is reached"
        )

    def handle(self, *args: Any, **options: Any) -> None:
        """Create the link."""
        seconds = options["hours"] * 3600
        if not LEAST_SECONDS <= seconds <= MOST_SECONDS:
            raise CommandError(
                f"--hours: from {LEAST_SECONDS / 3600:.2f} to {MOST_SECONDS // 3600} hours"
            )
        key = open_seat(
            scope=self.scope(options),
            agent_id=options["agent"],
            user_id=options["user"],
            now=timezone.now(),
            lasts=timedelta(seconds=seconds),
            is_shared=False,
        )
        url = options["base_url"].rstrip("/") + link_path(key)
        self.show(options, {"id": key.pk, "url": url, "expires_at": str(key.expires_at)})
