"""What a client of the soak knows: each turn it began, and what it was told about it."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from tests.soak.canaries import Canary
from tests.soak.client import Api
from tests.soak.findings import Findings

ENDS = frozenset({"succeeded", "failed", "rejected", "cancelled"})


@dataclass(kw_only=True)
class Turn:
    """One turn as its client sees it. `told` are (run id, seq, status) of every answer about it.

    `is_certain` says that the client was told the end; else there may be none, or one run.
    """

    canary: Canary
    thread_id: str | None = None
    told: set[tuple[str, int, str]] = field(default_factory=set)
    is_certain: bool = False
    attempts: int = 1

    def hear(self, run: dict[str, Any]) -> None:
        """Take in a run as an answer told it."""
        if run.get("id"):
            self.told.add((run["id"], run["seq"], run["status"]))
            self.thread_id = run["thread_id"]
            self.is_certain = run["status"] in ENDS


@dataclass(kw_only=True)
class Book:
    """The turns of one person since the last erasure."""

    turns: list[Turn] = field(default_factory=list)
    threads: dict[str, str] = field(default_factory=dict)

    def check(self, *, api: Api, findings: Findings) -> int:
        """Hold it against the threads as the API shows them; return how many turns were told."""
        for thread_id in self.threads:
            runs = self._runs(api, thread_id)
            turns = [turn for turn in self.turns if turn.thread_id == thread_id]
            numbers = [run["seq"] for run in runs]
            if numbers != list(range(1, len(runs) + 1)):
                findings.wrong("seq with gaps", f"{thread_id}: {numbers}")
            for turn in turns:
                _check_turn(turn, runs, findings)
        return sum(turn.is_certain for turn in self.turns)

    def _runs(self, api: Api, thread_id: str) -> list[dict[str, Any]]:
        found: list[dict[str, Any]] = []
        path = f"/v1/threads/{thread_id}/runs?limit=200"
        while path:
            page = api.send("GET", path, what="GET runs at the end").body
            found += page.get("results", [])
            path = "/" + (page.get("next") or "").split("/", 3)[-1] if page.get("next") else ""
        return found


def _check_turn(turn: Turn, runs: list[dict[str, Any]], findings: Findings) -> None:
    """Each told run is there once, as told; no text was answered twice."""
    told = {run_id: (seq, status) for run_id, seq, status in turn.told}
    for run_id, (seq, status) in told.items():
        there = [run for run in runs if run["id"] == run_id]
        if len(there) != 1:
            findings.wrong("turn lost", f"{run_id} of {turn.canary} is there {len(there)} times")
        elif (there[0]["seq"], there[0]["status"]) != (seq, status):
            findings.wrong("turn changed", f"{run_id}: told {seq} {status}, is {there[0]}")
    mine = [run for run in runs if str(turn.canary) in run["input"].split()]
    succeeded = [run for run in mine if run["status"] == "succeeded"]
    if len(succeeded) > 1:
        findings.wrong("turn doubled", f"{turn.canary}: {[run['id'] for run in succeeded]}")
    if len(mine) > turn.attempts:
        findings.wrong("turn doubled", f"{turn.canary}: {len(mine)} in {turn.attempts} attempts")
    if any(run["status"] not in ENDS for run in mine):
        findings.wrong("turn without an end", f"{turn.canary}")
