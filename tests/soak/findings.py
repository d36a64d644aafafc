"""What the soak counts and what it finds wrong; every thread writes here."""

from __future__ import annotations

import threading
from collections import Counter, defaultdict
from dataclasses import dataclass, field

from tests.soak.canaries import SHARED, found_in

_MOST_KEPT = 50


@dataclass(kw_only=True)
class Findings:
    """Violations by kind (an empty book is a passed soak), counts, and seconds by kind of request."""

    violations: dict[str, list[str]] = field(default_factory=lambda: defaultdict(list))
    counts: Counter[str] = field(default_factory=Counter)
    seconds: dict[str, list[float]] = field(default_factory=lambda: defaultdict(list))
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def wrong(self, kind: str, what: object) -> None:
        """Note something that must not be; of each kind the first fifty are kept."""
        with self._lock:
            self.counts[f"violation {kind}"] += 1
            if len(self.violations[kind]) < _MOST_KEPT:
                self.violations[kind].append(str(what)[:500])

    def count(self, what: str, by: int = 1) -> None:
        """Count."""
        with self._lock:
            self.counts[what] += by

    def took(self, what: str, seconds: float) -> None:
        """Keep how long a request took."""
        with self._lock:
            self.counts[f"request {what}"] += 1
            self.seconds[what].append(seconds)

    def look(self, *, where: str, text: str, tenant: str, person: str | None) -> None:
        """Go through a text that `person` (None: staff) of `tenant` was shown."""
        for canary in found_in(text):
            is_foreign_tenant = canary.tenant != tenant
            is_foreign_person = person is not None and canary.person not in (person, SHARED)
            if is_foreign_tenant or is_foreign_person:
                self.wrong("canary crossed", f"{canary} in {where} of {tenant}/{person}")
