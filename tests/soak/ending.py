"""What must hold when the soak is over and all work has settled."""

from __future__ import annotations

import json
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from tests.instance import Instance
from tests.journeys.crash_book import RULES, Book
from tests.soak.canaries import found_in
from tests.soak.findings import Findings
from tests.soak.rows import Known, search
from tests.soak.scene import Tenant

SETTLE_SECONDS = 180.0
_DEAD = """
    SELECT kind, error_code, count(*) AS count FROM memory_job WHERE status = 'dead'
    GROUP BY kind, error_code ORDER BY kind, error_code
"""
# As the crash tests', but with rounds of tools between the question and the answer.
_MESSAGES = """
    SELECT run.id, run.status, array_agg(m.position || ':' || m.role ORDER BY m.position) AS messages
    FROM threads_run run LEFT JOIN threads_message m ON m.run_id = run.id
    WHERE run.origin = 'run'
    GROUP BY run.id, run.status
    HAVING (array_agg(m.role::text ORDER BY m.position))[1] <> 'user'
        OR count(m.id) <> max(m.position) + 1 OR count(*) FILTER (WHERE m.role = 'user') <> 1
        OR (run.status = 'succeeded')
            <> ((array_agg(m.role::text ORDER BY m.position DESC))[1] = 'assistant')
"""
_RULES = RULES | {"each position has one message": _MESSAGES}
# A job is dead after its last attempt; these ends come from the injected faults.
_FROM_FAULTS = ("provider", "timeout", "database", "lease", "breaker", "circuit", "unreadable")


def settle(*, book: Book, findings: Findings) -> float:
    """Wait until all runs and jobs have ended; return how long that took."""
    began = time.monotonic()
    while (waiting := book.unsettled()) and time.monotonic() - began < SETTLE_SECONDS:
        time.sleep(1)
    if waiting:
        findings.wrong("not settled", waiting[:10])
    return time.monotonic() - began


def check(
    *, instance: Instance, tenants: Sequence[Tenant], book: Book, findings: Findings
) -> dict[str, Any]:
    """Go through everything; return the figures."""
    told = sum(
        person.book.check(api=person.api, findings=findings)
        for tenant in tenants
        for person in tenant.persons
    )
    for name, query in _RULES.items():
        if rows := book.rows(query):
            findings.wrong("rule of the book broken", f"{name}: {rows[:5]}")
    _check_gone(tenants, findings)
    _check_imports(tenants, book, findings)
    known = Known(
        tenants={
            row["id"]: next(one.letter for one in tenants if one.slug == row["slug"])
            for row in book.rows("SELECT id, slug FROM memory_tenant")
        },
        erased_below={
            (tenant.letter, person.name): person.erased_below
            for tenant in tenants
            for person in tenant.persons
        },
    )
    return {
        "turns told to their clients": told,
        "rows searched": search(book=book, known=known, findings=findings),
        "dead jobs": _dead_jobs(book, findings),
        "audit chains": _verify_audit(instance, tenants, findings),
        "log bytes searched": _check_logs(instance, findings),
    }


def _check_gone(tenants: Sequence[Tenant], findings: Findings) -> None:
    """The runs of erased persons answer 404."""
    for tenant in tenants:
        for person in tenant.persons:
            for run_id in person.gone_runs:
                reply = person.api.send("GET", f"/v1/runs/{run_id}", what="GET erased run")
                if reply.status != 404:
                    findings.wrong("erased run answers", f"{run_id}: {reply.status}")


def _check_imports(tenants: Sequence[Tenant], book: Book, findings: Findings) -> None:
    """Each imported turn is there once."""
    for tenant in tenants:
        for mark in tenant.operator.imported:
            count = book.one(
                "SELECT count(*) FROM threads_run WHERE origin = 'import' AND input LIKE %s",
                f"{mark} %",
            )
            if count != 1:
                findings.wrong("imported turn lost or doubled", f"{mark} is there {count} times")


def _dead_jobs(book: Book, findings: Findings) -> list[dict[str, Any]]:
    dead = book.rows(_DEAD)
    for row in dead:
        if not any(word in row["error_code"] for word in _FROM_FAULTS):
            findings.wrong("dead job", row)
    return dead


def _verify_audit(instance: Instance, tenants: Sequence[Tenant], findings: Findings) -> str:
    if "Unknown command" in instance.manage("help", "verify_audit").stderr:
        return "not offered"
    said = []
    for tenant in tenants:
        done = instance.manage("verify_audit", "--tenant", tenant.slug, "--json")
        if done.returncode != 0:
            findings.wrong(
                "audit chain", f"{tenant.slug}: {done.stdout[-300:]} {done.stderr[-300:]}"
            )
        said.append(f"{tenant.slug}: exit code {done.returncode}")
    return ", ".join(said)


def _check_logs(instance: Instance, findings: Findings) -> int:
    """No text of anybody, and no key, is in what web, worker and database wrote."""
    data = Path(instance.var / "postgres").resolve()
    logs = [instance.log, data / "server.log"]
    keys = [str(one["api_key"]) for one in instance.demo["tenants"]]
    size = 0
    for log in logs:
        text = log.read_text(encoding="utf-8", errors="replace") if log.exists() else ""
        size += len(text)
        for canary in sorted(map(str, found_in(text)))[:5]:
            findings.wrong("text in a log", f"{canary} in {log.name}")
        # `make run` shows a key to whoever sits there; web and worker never do.
        lines = [line for line in text.splitlines() if line.startswith("{")]
        findings.count("log lines of web and worker", len(lines))
        if any(key in line for key in keys for line in lines):
            findings.wrong("key in a log", log.name)
        for line in lines:
            try:
                json.loads(line)
            except ValueError:
                findings.wrong("log line broken", line[:80])
    return size
