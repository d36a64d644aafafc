"""Exporting one person by command: all that is known of them, or a link under which to fetch it."""

from __future__ import annotations

import os
import shutil
import tempfile
from pathlib import Path
from typing import Any

from django.core.management.base import CommandError, CommandParser
from django.utils import timezone

from governance.export import make_link
from governance.export.lines import Export, export_person
from governance.export.links import DEFAULT_HOURS
from governance.management.base import TenantCommand
from governance.tenants import find_end_user
from memory.errors import NotFoundError
from memory.models import EndUser
from memory.rls import scoped_transaction
from memory.scope import Scope


class Command(TenantCommand):
    """Write a person's export as JSON lines, to standard output or into a new file.

    A file is readable by its owner alone, is there whole or not at all, and never takes the place
    of another. Fails if nobody knows the person.
    """

    help = __doc__ or ""

    def add_arguments(self, parser: CommandParser) -> None:
        """Take the person, and where the export goes."""
        super().add_arguments(parser)
        parser.add_argument("--user", required=True, help="the tenant's own user_id, or a usr_ id")
        where = parser.add_mutually_exclusive_group()
        where.add_argument("--output", type=Path, metavar="FILE", help="a file that is not there")
        where.add_argument("--link", action="store_true", help="only make a link, shown once")
        parser.add_argument(
            "--valid-hours", type=int, default=DEFAULT_HOURS, help="how long the link lasts"
        )

    def handle(self, *_args: Any, **options: Any) -> None:
        """Export, or make a link."""
        scope = self.scope(options)
        output: Path | None = options["output"]
        if output is not None:
            # Asked first, so that no export is audited that nobody gets.
            _check_place(output)
        with scoped_transaction(scope):
            person = find_end_user(scope=scope, user_id=options["user"])
        if person is None:
            raise NotFoundError("There is no such person.")
        if options["link"]:
            self._link(scope, person, options)
            return
        export = export_person(
            scope=scope,
            person=person,
            user_id=person.user_id,
            now=timezone.now(),
            via="command",
        )
        with export.file:
            if output is None:
                self._print(export)
                return
            _write_new(export, output)
        # The counts stay apart: a type of lines is called `person`, too.
        told = {"person": person.pk, "file": str(output), "bytes": export.size}
        self.show(options, {**told, "counts": export.counts})

    def _link(self, scope: Scope, person: EndUser, options: dict[str, Any]) -> None:
        made = make_link(
            scope=scope, person=person, now=timezone.now(), valid_hours=options["valid_hours"]
        )
        expires_at = made.link.expires_at.isoformat()
        self.show(options, {"link": made.link.pk, "path": made.path, "expires_at": expires_at})

    def _print(self, export: Export) -> None:
        """Write bytes where there are bytes: a terminal's encoding must not change an export."""
        raw = getattr(self.stdout, "buffer", None)
        if raw is not None:
            shutil.copyfileobj(export.file, raw)
            raw.flush()
            return
        for line in export.file:
            self.stdout.write(line.decode(), ending="")


def _check_place(output: Path) -> None:
    """Refuse a place where a file can not be made.

    Raises:
        CommandError: Something is there, or its folder is not.
    """
    if os.path.lexists(output):
        raise CommandError(f"{output} is there already; it is left alone.")
    if not output.parent.is_dir():
        raise CommandError(f"{output.parent} is no folder.")


def _write_new(export: Export, output: Path) -> None:
    """Write a whole file under a passing name (mode 0600), then give it its own.

    Raises:
        CommandError: It can not be written, or somebody else made the file meanwhile.
    """
    try:
        with tempfile.NamedTemporaryFile(dir=output.parent, prefix=".export-") as file:
            shutil.copyfileobj(export.file, file)
            file.flush()
            os.fsync(file.fileno())
            # A hard link, unlike a rename, fails where there is a file already.
            os.link(file.name, output)
    except OSError as error:
        raise CommandError(f"{output} was not written: {error.strerror}.") from error
