"""What a soak reports: JSON for machines, docs/soak.md for people (from full runs only)."""

from __future__ import annotations

import json
import platform
import statistics
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tests.soak.findings import Findings
from tests.soak.sampling import MOST_EXTRA_MB, MOST_FACTOR

ROOT = Path(__file__).resolve().parents[2]
# A shorter soak is a trial: its memory says nothing, and it does not replace the report.
LEAST_MINUTES = 20.0
KINDS = (
    "canary crossed",
    "canary in a row of no tenant",
    "erased text found",
    "erased run answers",
    "erasure refused",
    "erasure not verified",
    "turn lost",
    "turn doubled",
    "turn changed",
    "turn without an end",
    "seq with gaps",
    "import doubled",
    "imported turn lost or doubled",
    "rule of the book broken",
    "dead job",
    "not settled",
    "not ready again",
    "answer 500",
    "audit chain",
    "text in a log",
    "key in a log",
    "log line broken",
    "memory not flat",
    "the soak itself",
)


@dataclass(frozen=True, kw_only=True)
class Report:
    """One soak's figures."""

    minutes: float
    rate: float
    faults: float
    seed: int
    offered: dict[str, bool]
    memory_mb: dict[str, list[float]]
    figures: dict[str, Any]
    findings: Findings

    @property
    def is_passed(self) -> bool:
        """Whether nothing was found."""
        return not self.findings.violations

    def as_json(self) -> dict[str, Any]:
        """Everything."""
        return {
            "passed": self.is_passed,
            "at": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime()),
            "python": platform.python_version(),
            "minutes": self.minutes,
            "rate": self.rate,
            "faults": self.faults,
            "seed": self.seed,
            "offered": self.offered,
            "memory_mb": self.memory_mb,
            "figures": self.figures,
            "counts": dict(sorted(self.findings.counts.items())),
            "seconds": {
                name: _spread(times) for name, times in sorted(self.findings.seconds.items())
            },
            "violations": dict(self.findings.violations),
        }


def write(made: Report) -> Path:
    """Write the JSON, and of a full soak the page too; return the JSON's path."""
    is_full = made.minutes >= LEAST_MINUTES
    folder = ROOT / ("docs" if is_full else "var")
    folder.mkdir(exist_ok=True)
    path = folder / "soak.json"
    text = json.dumps(made.as_json(), ensure_ascii=False, indent=1, default=str)
    path.write_text(text + "\n", encoding="utf-8")
    if is_full:
        (folder / "soak.md").write_text(as_markdown(made), encoding="utf-8")
    return path


def as_markdown(made: Report) -> str:
    """The page."""
    lines = [
        "# Soak",
        "",
        _written_by(made),
        "",
        "A whole Credence (embedded PostgreSQL, web, worker) on two shared cores; two tenants with four",
        "persons each, Chinese and English; every text carries a mark of its tenant, person and number.",
        "Provider calls fail, clients leave, workers are killed and the database is stopped meanwhile.",
        "",
        "## What was looked for at the end",
        "",
        "| violation | found |",
        "|---|---|",
        *[f"| {kind} | {_found(made, kind)} |" for kind in KINDS],
        "",
        "## What happened",
        "",
        "| what | count |",
        "|---|---|",
        *_count_rows(made),
        "",
        *_fault_lines(made),
        *_memory_lines(made),
        *_time_lines(made),
    ]
    return "\n".join(lines) + "\n"


def _found(made: Report, kind: str) -> str:
    """The count; where this version offered nothing to look at, a zero would claim too much."""
    is_idle = kind.startswith("eras") and not made.findings.counts["erasures done"]
    is_idle |= kind == "audit chain" and made.figures.get("audit chains") == "not offered"
    count = made.findings.counts[f"violation {kind}"]
    return "not tried" if is_idle and not count else str(count)


def _written_by(made: Report) -> str:
    command = (
        f"SOAK_MINUTES={made.minutes:g} SOAK_RATE={made.rate:g} SOAK_SEED={made.seed} make soak"
    )
    ended = "Passed" if made.is_passed else "Failed"
    return f"Written by `{command}`; all figures are in soak.json. **{ended}**."


def _count_rows(made: Report) -> list[str]:
    counts = made.findings.counts
    requests = sum(n for name, n in counts.items() if name.startswith("request "))
    calls = sum(n for name, n in counts.items() if name.startswith("model "))
    rows = [f"| requests answered | {requests} |", f"| calls of the model | {calls} |"]
    rows += [f"| {name} | {_plain(value)} |" for name, value in made.figures.items()]
    rows += [f"| erasures, each verified | {counts['erasures done']} |"]
    missing = sorted(name for name, is_there in made.offered.items() if not is_there)
    return rows + [f"| not offered by this version | {', '.join(missing)} |"] * bool(missing)


def _fault_lines(made: Report) -> list[str]:
    names = sorted(name for name in made.findings.counts if name.startswith("fault "))
    rows = [f"| {name.removeprefix('fault ')} | {made.findings.counts[name]} |" for name in names]
    return ["## Faults", "", "| fault | count |", "|---|---|", *rows, ""]


def _memory_lines(made: Report) -> list[str]:
    rows = [
        f"| {name} | {' | '.join(f'{mb:.0f}' for mb in medians) or '(too short)'} |"
        for name, medians in made.memory_mb.items()
    ]
    bound = f"second × {MOST_FACTOR} + {MOST_EXTRA_MB:.0f} MB"
    head = ["| processes | 1st | 2nd | 3rd | 4th |", "|---|---|---|---|---|"]
    text = f"Resident memory (proportional share) in MB, medians of the quarters; the fourth may be at most {bound}."
    return ["## Memory", "", text, "", *head, *rows, ""]


def _time_lines(made: Report) -> list[str]:
    rows = []
    for name, times in sorted(made.findings.seconds.items()):
        spread = _spread(times)
        rows.append(f"| {name} | {spread['count']:.0f} | {spread['median']} | {spread['p95']} |")
    head = ["| request | count | median s | p95 s |", "|---|---|---|---|"]
    return ["## Times (shared machine, faults included)", "", *head, *rows]


def _spread(times: list[float]) -> dict[str, float]:
    ordered = sorted(times)
    return {
        "count": len(ordered),
        "median": round(statistics.median(ordered), 3),
        "p95": round(ordered[int(0.95 * (len(ordered) - 1))], 3),
        "most": round(ordered[-1], 3),
    }


def _plain(value: Any) -> str:
    if not isinstance(value, list):
        return str(value)
    rows = [" ".join(str(part) for part in row.values()) for row in value]
    return "; ".join(rows) or "none"
