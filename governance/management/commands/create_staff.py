"""`manage.py create_staff NAME --tenant SLUG --role ROLE`."""

from __future__ import annotations

import os
import secrets
from typing import Any

from django.contrib.auth.models import User
from django.core.management.base import CommandError, CommandParser
from django.utils import timezone

from governance.management.base import TenantCommand
from governance.permissions import Role
from governance.tenants import create_staff


class Command(TenantCommand):
    """Makes a member of staff, or gives an existing one a further role."""

    help = "Create a member of staff of a tenant, or grant an existing one a further role."

    def add_arguments(self, parser: CommandParser) -> None:
        """Take the name, the role and where a password is."""
        super().add_arguments(parser)
        parser.add_argument("name", help="the name to log in with")
        parser.add_argument("--role", required=True, choices=[role.value for role in Role])
        parser.add_argument(
            "--password-env", metavar="VAR", help="variable that holds the password of a new person"
        )

    def handle(self, *args: Any, **options: Any) -> None:
        """Create the person; a password made here is shown this once."""
        is_new = not User.objects.filter(username=options["name"]).exists()
        variable = options["password_env"]
        if variable and variable not in os.environ:
            raise CommandError(f"The variable {variable} is not set.")
        password = os.environ[variable] if variable else secrets.token_urlsafe(12)
        account = create_staff(
            scope=self.scope(options),
            username=options["name"],
            password=password,
            role=Role(options["role"]),
            now=timezone.now(),
        )
        result = {"username": account.username, "role": options["role"]}
        if is_new and not variable:
            result["password"] = password
        self.show(options, result)
