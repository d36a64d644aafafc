"""Is what we depend on known to be bad? `make audit` (this), and in CI with `--if-reachable`.

Two questions about requirements.lock, which pins versions and hashes:

- does an advisory (the Python packaging advisory database, asked by pip-audit) name one of them?
- has a maintainer taken a version back ("yanked")? pip says so when it resolves the lock.

Where the service of advisories does not answer for anything, nothing is known, and that is what is
printed: an error for `make audit`, a line for CI, since a build must not depend on a service that a
closed network cannot reach.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

LOCK = "requirements.lock"
MOST_SECONDS = 300


@dataclass(frozen=True, slots=True)
class Verdict:
    """What came out: lines to print, whether something is bad, whether anything was looked up."""

    lines: tuple[str, ...]
    is_bad: bool
    was_audited: bool


def judge(report: Mapping[str, Any] | None, *, resolving: str) -> Verdict:
    """The verdict on a report of pip-audit (JSON; None: it gave none) and on what pip said.

    A package the service does not know counts as not audited; the others still count.
    """
    lines = [line.strip() for line in resolving.splitlines() if "yanked" in line]
    is_bad = bool(lines)
    packages: Sequence[Mapping[str, Any]] = (report or {}).get("dependencies", ())
    audited = [package for package in packages if "vulns" in package]
    for package in audited:
        for advisory in package["vulns"]:
            is_bad = True
            mended = ", ".join(advisory.get("fix_versions", ())) or "no release"
            lines.append(
                f"{package['name']} {package['version']}: {advisory['id']}, mended in {mended}. "
                f'Raise it: make lock LOCKARGS="--upgrade-package {package["name"]}"'
            )
    unknown = len(packages) - len(audited)
    if audited:
        lines.append(f"{len(audited)} packages audited, {unknown} not known to the service.")
    else:
        lines.append("No advisory was looked up: the service does not answer from here.")
    return Verdict(lines=tuple(lines), is_bad=is_bad, was_audited=bool(audited))


def _run(*words: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", *words],
        capture_output=True,
        text=True,
        timeout=MOST_SECONDS,
        check=False,
    )


def _advisories() -> Mapping[str, Any] | None:
    try:
        answer = _run(
            *("pip_audit", "--requirement", LOCK, "--disable-pip", "--require-hashes"),
            *("--format", "json", "--progress-spinner", "off", "--timeout", "15"),
        )
        parsed = json.loads(answer.stdout)
    except (subprocess.TimeoutExpired, json.JSONDecodeError):
        return None
    return parsed if isinstance(parsed, dict) else None


def _resolving() -> str:
    """What pip says when it resolves the lock without installing. RuntimeError if it cannot."""
    answer = _run(
        *("pip", "install", "--dry-run", "--ignore-installed", "--no-deps"),
        *("--require-hashes", "--requirement", LOCK),
    )
    if answer.returncode:
        raise RuntimeError(answer.stderr.strip().splitlines()[-1:] or "pip gave no reason")
    return answer.stderr


def main() -> int:
    """0 fine (or nothing could be looked up and that was allowed), 1 bad, 2 not looked up."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument(
        "--if-reachable", action="store_true", help="no advisory looked up is no failure"
    )
    options = parser.parse_args()
    if not Path(LOCK).is_file():
        parser.error(f"{LOCK} is not here; run this in the project's folder.")
    verdict = judge(_advisories(), resolving="" if options.if_reachable else _resolving())
    sys.stdout.write("\n".join(verdict.lines) + "\n")
    if verdict.is_bad:
        return 1
    return 0 if verdict.was_audited or options.if_reachable else 2


if __name__ == "__main__":
    sys.exit(main())
