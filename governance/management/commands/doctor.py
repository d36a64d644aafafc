"""`manage.py doctor`: whether this instance is fit to serve, and what to do where it is not."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from datetime import datetime, timedelta
from typing import Any

from django.core.management.base import BaseCommand, CommandParser
from django.db import Error as DatabaseError
from django.db import connection, connections
from django.db.migrations.executor import MigrationExecutor

from governance import ledger
from governance.erasure.restored import missing_erasures
from governance.models import AuditEntry, AuditPending, Disclosure
from governance.models.erasure import Erasure
from memory import conf, lanes
from memory.checks import wall_problems
from memory.errors import CredenceError
from memory.providers import crypto
from memory.rls import MAINT_ALIAS, maintenance_transaction

_SILENT_AFTER_BEATS = 3
_UNSEALED_AT_MOST = timedelta(minutes=1)
_LEDGER_REMEDY = "Put the ledger's copy back in place (CREDENCE_ERASURE_LEDGER); keep copies of it."


@dataclass(frozen=True, slots=True, kw_only=True)
class Finding:
    """One thing looked at: what it is, whether it is right, and what to do if not."""

    check: str
    is_ok: bool
    detail: str
    remedy: str = ""


class Command(BaseCommand):
    """Looks at everything that must be right before tenants are served; changes nothing."""

    help = "Check database, walls, migrations, worker, secrets and data folder; say what to do."
    # It reports on the database itself, also when that is down.
    requires_system_checks = []

    def add_arguments(self, parser: CommandParser) -> None:
        """Take --json."""
        parser.add_argument("--json", action="store_true", help="print the findings as JSON")

    def handle(self, *args: Any, **options: Any) -> None:
        """Print every finding; exit code 1 when something is wrong."""
        findings = tuple(examine())
        is_healthy = all(finding.is_ok for finding in findings)
        if options["json"]:
            rows = [asdict(finding) for finding in findings]
            self.stdout.write(json.dumps({"is_ok": is_healthy, "findings": rows}))
        else:
            for finding in findings:
                self._show(finding)
        if not is_healthy:
            raise SystemExit(1)

    def _show(self, finding: Finding) -> None:
        mark = self.style.SUCCESS("ok   ") if finding.is_ok else self.style.ERROR("wrong")
        self.stdout.write(f"{mark} {finding.check}: {finding.detail}")
        if finding.remedy:
            self.stdout.write(f"      -> {finding.remedy}")


def examine() -> Iterator[Finding]:
    """Yield what was found, database first. Cost: about twenty statements, no network."""
    yield from _database()
    yield _data_folder()
    yield from _secrets()
    yield _provider_hosts()


def _database() -> Iterator[Finding]:
    try:
        connection.ensure_connection()
    except DatabaseError as error:
        detail = f"no connection ({type(error).__name__})"
        remedy = "Start the server, and check DATABASE_URL."
        yield Finding(check="database", is_ok=False, detail=detail, remedy=remedy)
        return
    yield Finding(check="database", is_ok=True, detail="it answers")
    pending = _pending_migrations()
    yield pending
    problems = wall_problems()
    for problem in problems:
        detail = f"{problem.subject}: {problem.detail}"
        yield Finding(check="walls", is_ok=False, detail=detail, remedy=problem.remedy)
    if not problems:
        yield Finding(check="walls", is_ok=True, detail="all four stand")
    yield _maintenance()
    if pending.is_ok:
        yield from _worker()
        yield _restored()
        yield _ledger()
        yield _sealer()


def _pending_migrations() -> Finding:
    executor = MigrationExecutor(connection)
    plan = executor.migration_plan(executor.loader.graph.leaf_nodes())
    if not plan:
        return Finding(check="migrations", is_ok=True, detail="all applied")
    names = ", ".join(f"{migration.app_label}.{migration.name}" for migration, _ in plan)
    return Finding(
        check="migrations",
        is_ok=False,
        detail=f"{len(plan)} not applied: {names}",
        remedy="Set DATABASE_OWNER_URL and run: manage.py migrate --database owner",
    )


def _maintenance() -> Finding:
    """Look whether sweeps and purges can work: `maint` is a role of its own, and lets us in."""
    wanted = conf.database_roles().maint
    try:
        with connections[MAINT_ALIAS].cursor() as cursor:
            cursor.execute("SELECT current_user::text")
            actual = cursor.fetchone()[0]
    except DatabaseError as error:
        actual = f"nobody ({type(error).__name__})"
    is_ok = actual == wanted != conf.database_roles().app
    return Finding(
        check="maintenance",
        is_ok=is_ok,
        detail=f"sweeps and purges run as {actual}",
        remedy="" if is_ok else "Let DATABASE_MAINT_URL name the maintenance role.",
    )


def _worker() -> Iterator[Finding]:
    now = _now()
    states = lanes.states()
    limit = timedelta(seconds=_SILENT_AFTER_BEATS * conf.heartbeat_seconds())
    for name in [lanes.CONTROL, *(lanes.lane_name(n) for n in range(conf.lane_count()))]:
        state = states.get(name)
        beat = state.heartbeat_at if state else None
        is_ok = beat is not None and now - beat <= limit
        yield Finding(
            check=f"lane {name}",
            is_ok=is_ok,
            detail=f"last sign of life {beat:%Y-%m-%d %H:%M:%S} UTC" if beat else "never seen",
            remedy="" if is_ok else "Start the worker: manage.py worker",
        )


def _now() -> datetime:
    """Return the server's time: beats and rows of many machines are compared with it."""
    with connection.cursor() as cursor:
        cursor.execute("SELECT statement_timestamp()")
        at: datetime = cursor.fetchone()[0]
    return at


def _restored() -> Finding:
    """Look whether the ledger knows erasures or holds that the database does not."""
    try:
        missing = len(missing_erasures(is_whole=True))
    except (CredenceError, DatabaseError, OSError) as error:
        detail = f"can not be told ({type(error).__name__})"
        remedy = "Put a copy of the ledger (CREDENCE_ERASURE_LEDGER) back in place."
        return Finding(check="erasures", is_ok=False, detail=detail, remedy=remedy)
    return Finding(
        check="erasures",
        is_ok=not missing,
        detail=f"{missing} of the ledger are not in effect; nothing is served"
        if missing
        else "all of the ledger are in effect",
        remedy="Run: manage.py reapply_erasures" if missing else "",
    )


def _ledger() -> Finding:
    """Look whether the ledger is whole; without it a restore would bring persons back unnoticed."""
    path = conf.erasure_ledger_path()
    try:
        with maintenance_transaction() as alias:
            rows = Erasure.objects.using(alias).unscoped(reason="the ledger is all tenants'")
            booked = set(rows.filter(ledgered_at__isnull=False).values_list("pk", flat=True))
        lost = len(booked - {entry.id for entry in ledger.read()})
        broken = ledger.broken_links()
    except (CredenceError, DatabaseError, OSError) as error:
        detail = f"{path} can not be read ({type(error).__name__})"
        return Finding(check="ledger", is_ok=False, detail=detail, remedy=_LEDGER_REMEDY)
    faults = [f"{lost} erasures are not in it"] if lost else []
    faults += [f"line {broken[0]} does not fit the line before"] if broken else []
    return Finding(
        check="ledger",
        is_ok=not faults,
        detail=f"{path}: {', '.join(faults) or 'whole'}",
        remedy=_LEDGER_REMEDY if faults else "",
    )


def _sealer() -> Finding:
    """Look whether audit rows and disclosures are sealed in time; a sealer looks each second."""
    try:
        waiting = _long_unsealed(before=_now() - _UNSEALED_AT_MOST)
    except (CredenceError, DatabaseError) as error:
        detail = f"can not be told ({type(error).__name__})"
        remedy = "Let DATABASE_MAINT_URL name the maintenance role."
        return Finding(check="sealer", is_ok=False, detail=detail, remedy=remedy)
    return Finding(
        check="sealer",
        is_ok=not waiting,
        detail=f"{waiting} rows wait for their seal for more than a minute"
        if waiting
        else "no row waits for its seal for more than a minute",
        remedy="Is a worker running? manage.py worker" if waiting else "",
    )


def _long_unsealed(*, before: datetime) -> int:
    """Count listed rows that are older; those whose row is gone are verify_audit's to tell."""
    reason = "the sealer serves every tenant; this counts only"
    with maintenance_transaction() as alias:
        ids = AuditPending.objects.using(alias).unscoped(reason=reason).values("pk")
        entries = AuditEntry.objects.using(alias).unscoped(reason=reason)
        shown = Disclosure.objects.using(alias).unscoped(reason=reason)
        return sum(rows.filter(pk__in=ids, at__lt=before).count() for rows in (entries, shown))


def _data_folder() -> Finding:
    folder = conf.var_folder()
    is_ok = folder.is_dir() and os.access(folder, os.W_OK | os.X_OK)
    return Finding(
        check="data folder",
        is_ok=is_ok,
        detail=f"{folder} is {'' if is_ok else 'not '}there and writable",
        remedy="" if is_ok else "Create it for this user, or set CREDENCE_VAR.",
    )


def _secrets() -> Iterator[Finding]:
    versions = sorted(version for version, pepper in conf.key_peppers().items() if pepper)
    yield Finding(
        check="key peppers",
        is_ok=bool(versions),
        detail=f"versions {', '.join(map(str, versions)) or 'none'}",
        remedy="" if versions else 'Set CREDENCE_KEY_PEPPERS, such as {"1": "…"}.',
    )
    detail = _sealing_fault()
    yield Finding(
        check="encryption keys",
        is_ok=not detail,
        detail=detail or f"{len(conf.encryption_keys())} that seal and open",
        remedy="Set CREDENCE_ENCRYPTION_KEYS: 32 or more random characters." if detail else "",
    )


def _sealing_fault() -> str:
    keys = conf.encryption_keys()
    try:
        is_same = crypto.open_sealed(crypto.seal("doctor", keys=keys), keys=keys) == "doctor"
    except CredenceError as error:
        return f"unusable: {error.detail}"
    return "" if is_same else "what was sealed does not open again"


def _provider_hosts() -> Finding:
    hosts = conf.allowed_provider_hosts()
    return Finding(
        check="provider hosts",
        is_ok=True,
        detail=", ".join(hosts) or "none allowed: only the built-in offline model serves",
        remedy="" if hosts else "Set CREDENCE_PROVIDER_HOSTS to use a model server.",
    )
