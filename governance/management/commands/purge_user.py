"""Erasing one person by command: everything, or what is tagged as personal in their texts."""

from __future__ import annotations

from dataclasses import asdict
from datetime import UTC, datetime, time
from typing import Any

from django.core.management.base import CommandError, CommandParser
from django.utils import timezone
from django.utils.dateparse import parse_date, parse_datetime

from governance.erasure.physical import PhysicalReport, vacuum
from governance.erasure.requests import find_erasure, preview, request_erasure
from governance.erasure.tagging import tagged_eraser
from governance.erasure.verifying import verify_open
from governance.erasure.work import do_erasure
from governance.management.base import TenantCommand
from governance.models.erasure import Erasure, ErasureMode, ErasureStatus, Verified
from governance.tenants import find_end_user
from memory.errors import InvalidInputError, NotFoundError
from memory.models import EndUser
from memory.rls import scoped_transaction
from memory.scope import Scope

_VERIFY_SECONDS = 3600.0


class Command(TenantCommand):
    """Erase a person's data here and now, and search for what is left.

    Asks nothing; --dry-run counts first. Fails if a legal hold is on the person, if the erasure
    fails, or if the search finds something.
    """

    help = __doc__ or ""

    def add_arguments(self, parser: CommandParser) -> None:
        """Take the person, what is to go, and how."""
        super().add_arguments(parser)
        parser.add_argument("--user", required=True, help="the tenant's own user_id, or a usr_ id")
        parser.add_argument("--mode", required=True, choices=ErasureMode.values)
        parser.add_argument("--kinds", nargs="+", default=[], help="mode tagged: only these kinds")
        parser.add_argument("--before", help="mode tagged: only texts from before this time")
        parser.add_argument("--dry-run", action="store_true", help="count, and change nothing")
        parser.add_argument(
            "--physical", action="store_true", help="write the tables anew afterwards"
        )
        parser.add_argument(
            "--no-wait",
            dest="wait",
            action="store_false",
            help="only ask for it; the worker does it",
        )
        parser.add_argument("--wait", dest="wait", action="store_true", help="the default")
        parser.set_defaults(wait=True)

    def handle(self, *_args: Any, **options: Any) -> None:
        """Count, or erase."""
        scope = self.scope(options)
        with scoped_transaction(scope):
            person = find_end_user(scope=scope, user_id=options["user"])
        if person is None:
            raise NotFoundError("There is no such person.")
        narrowed = {"kinds": options["kinds"], "before_at": _time_of(options["before"])}
        if options["dry_run"]:
            told = preview(scope=scope, person=person, mode=options["mode"], **narrowed)
            self.show(options, {"mode": options["mode"], "held": told.is_held, **told.counts})
            return
        asked = request_erasure(
            scope=scope,
            person=person,
            mode=options["mode"],
            now=timezone.now(),
            is_physical=options["physical"],
            **narrowed,
        )
        if not options["wait"]:
            self.show(options, _told(asked))
            return
        self._work(scope, asked, person, options)

    def _work(self, scope: Scope, asked: Erasure, person: EndUser, options: dict[str, Any]) -> None:
        is_mine = do_erasure(erasure_id=asked.pk, tagged=tagged_eraser(), now=timezone.now())
        if is_mine:
            verify_open(now=timezone.now(), within_seconds=_VERIFY_SECONDS)
        report = vacuum() if is_mine and options["physical"] else None
        done = find_erasure(scope=scope, erasure_id=asked.pk)
        self.show(options, {**_told(done), **_physical(report)})
        if not is_mine:
            raise CommandError(f"Another process works on {asked.pk}.")
        if done.status != ErasureStatus.DONE or done.verified == Verified.FALSE:
            raise CommandError(f"Something of {person.pk} is left; see the findings of {asked.pk}.")


def _time_of(text: str | None) -> datetime | None:
    """Return a time, or the first moment (UTC) of a day.

    Raises:
        InvalidInputError: It is neither.
    """
    if text is None:
        return None
    try:
        found = parse_datetime(text)
        day = parse_date(text) if found is None else None
    except ValueError as error:
        raise InvalidInputError("--before takes a day or a time.", field="before") from error
    if day is not None:
        found = datetime.combine(day, time(0), tzinfo=UTC)
    if found is None:
        raise InvalidInputError("--before takes a day or a time.", field="before")
    return found if found.tzinfo else found.replace(tzinfo=UTC)


def _told(row: Erasure) -> dict[str, Any]:
    counts = {name: number for name, number in sorted(row.counts.items()) if number}
    return {
        "erasure": row.pk,
        "person": row.subject_id,
        "mode": row.mode,
        "status": row.status,
        "verified": row.verified,
        "receipt_sha256": row.receipt_sha256,
        **counts,
    }


def _physical(report: PhysicalReport | None) -> dict[str, Any]:
    if report is None:
        return {}
    told = asdict(report)
    return {"vacuumed": len(told["vacuumed"]), "not_possible_here": list(told["refused"])}
