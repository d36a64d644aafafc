"""`make soak`: steady traffic with faults for SOAK_MINUTES (30), then everything is checked.

Environment: SOAK_MINUTES, SOAK_RATE (requests a second, about; 3), SOAK_FAULTS (share; 0.01),
SOAK_SEED (7). Ends non-zero if anything was found.
"""

from __future__ import annotations

import os
import sys
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass

from tests.instance import Instance
from tests.journeys.crash_book import Book
from tests.journeys.crash_processes import Processes
from tests.soak import ending, report
from tests.soak.faults import Faults
from tests.soak.findings import Findings
from tests.soak.model import Model
from tests.soak.person import Person
from tests.soak.sampling import Samples, is_flat
from tests.soak.scene import ENVIRONMENT, Tenant, tenants

_MOST_MINUTES = 240.0
_LAST_SECONDS = 20.0
# A person's texts are all gone after this share of the time, and again after the next.
_ERASES_EVERY = 0.2


@dataclass(frozen=True, kw_only=True)
class Plan:
    """What was asked for."""

    minutes: float
    rate: float
    faults: float
    seed: int

    @classmethod
    def from_environment(cls) -> Plan:
        """Read SOAK_*."""
        read = os.environ.get
        return cls(
            minutes=min(float(read("SOAK_MINUTES", "30")), _MOST_MINUTES),
            rate=float(read("SOAK_RATE", "3")),
            faults=float(read("SOAK_FAULTS", "0.01")),
            seed=int(read("SOAK_SEED", "7")),
        )


class Soak:
    """One soak from start to report."""

    def __init__(self, plan: Plan) -> None:
        self.plan = plan
        self.findings = Findings()
        self.model = Model(findings=self.findings, rate=plan.faults, seed=plan.seed)
        self._began = 0.0
        self._stop = threading.Event()

    def carry_out(self) -> report.Report:
        """Start, let live, strike, settle, check."""
        with self.model.server, Instance(**ENVIRONMENT) as instance:
            stage = tenants(
                instance=instance,
                model=self.model,
                findings=self.findings,
                seed=self.plan.seed,
                leave_rate=max(self.plan.faults * 4, 0.02),
                erases=self._is_time_to_go,
            )
            self._began = time.monotonic()
            samples = Samples(began=self._began)
            self._live(instance, stage, samples)
            self.model.is_faulty = False
            Faults(instance=instance, findings=self.findings, seed=0).wait_until_well("the end")
            book = Book(instance)
            settled = ending.settle(book=book, findings=self.findings)
            figures = ending.check(
                instance=instance, tenants=stage, book=book, findings=self.findings
            )
            figures["seconds to settle"] = round(settled, 1)
        return self._report(stage, samples, figures)

    def _live(self, instance: Instance, stage: list[Tenant], samples: Samples) -> None:
        until = self._began + self.plan.minutes * 60
        persons = [person for tenant in stage for person in tenant.persons]
        # What a person does is about 1.3 requests and takes some time of its own.
        pause = max(len(persons) * 1.3 / self.plan.rate - 0.3, 0.05)
        living: dict[str, object] = {"until": until, "stop": self._stop}
        work: list[tuple[Callable[..., None], dict[str, object]]]
        work = [(one.live, {"pause_seconds": pause} | living) for one in persons]
        work += [
            (one.operator.work, {"pause_seconds": min(45.0, self.plan.minutes * 8)} | living)
            for one in stage
        ]
        faults = Faults(instance=instance, findings=self.findings, seed=self.plan.seed)
        every = max(15.0, min(60.0, self.plan.minutes * 2.5))
        striking = {"every_seconds": every, "until": until - _LAST_SECONDS, "stop": self._stop}
        work.append((faults.strike, striking))
        watched = {"processes": Processes(instance), "until": until, "stop": self._stop}
        work.append((samples.watch, watched))
        hands = [threading.Thread(target=act, kwargs=given, daemon=True) for act, given in work]
        for hand in hands:
            hand.start()
        try:
            for hand in hands:
                hand.join(max(until - time.monotonic(), 0) + 400)
        except KeyboardInterrupt:
            self._stop.set()
            raise
        for hand in hands:
            if hand.is_alive():
                self.findings.wrong("the soak itself", "a hand did not come back")

    def _is_time_to_go(self, person: Person) -> bool:
        """Every second person goes and comes back, the first of them early."""
        if person.name not in ("zh2", "en2") or not person.book.turns:
            return False
        share = (time.monotonic() - self._began) / (self.plan.minutes * 60)
        start = 0.15 if person.name == "zh2" else 0.25
        return share > start + _ERASES_EVERY * person.erasures

    def _report(
        self, stage: list[Tenant], samples: Samples, figures: dict[str, object]
    ) -> report.Report:
        quarters = {name: samples.quarters(name) for name in sorted(samples.series)}
        if self.plan.minutes >= report.LEAST_MINUTES:
            for name, medians in quarters.items():
                if not is_flat(medians):
                    self.findings.wrong("memory not flat", f"{name}: {medians} MB")
        return report.Report(
            minutes=self.plan.minutes,
            rate=self.plan.rate,
            faults=self.plan.faults,
            seed=self.plan.seed,
            offered=dict(stage[0].operator.offered),
            memory_mb=quarters,
            figures=figures,
            findings=self.findings,
        )


def main() -> int:
    """Carry one out and write what was found."""
    made = Soak(Plan.from_environment()).carry_out()
    path = report.write(made)
    sys.stdout.write(report.as_markdown(made) + f"\nWritten to {path}\n")
    return 0 if made.is_passed else 1


if __name__ == "__main__":
    sys.exit(main())
