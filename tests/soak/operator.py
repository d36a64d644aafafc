"""Staff of one tenant: imports conversations, decides about terms, exports, looks at jobs."""

from __future__ import annotations

import json
import random
import threading
import time
from collections.abc import Mapping
from dataclasses import dataclass, field

from tests.instance import Instance
from tests.soak.canaries import SHARED, Canary
from tests.soak.client import Api
from tests.soak.findings import Findings
from tests.soak.person import Person

IMPORTED = "im1"
_TURNS = 6


@dataclass(kw_only=True)
class Operator:
    """What staff does beside the persons; imports are for a person of their own, IMPORTED."""

    api: Api
    slug: str
    agent_id: str
    instance: Instance
    findings: Findings
    persons: list[Person]
    offered: Mapping[str, bool]
    seed: int
    imported: list[Canary] = field(default_factory=list)
    exported: int = 0

    def work(self, *, until: float, pause_seconds: float, stop: threading.Event) -> None:
        """Go round until the time is over."""
        chance = random.Random(self.seed)
        while time.monotonic() < until and not stop.wait(chance.uniform(0.7, 1.3) * pause_seconds):
            acts = [self.import_some, self.decide_terms, self.export_one, self.keep_document]
            try:
                chance.choice(acts)()
                self.api.send("GET", "/v1/jobs?status=dead", what="GET jobs")
            except Exception as error:  # noqa: BLE001 - one broken act must not end the operator
                self.findings.wrong("the soak itself", f"{type(error).__name__}: {error}")

    def import_some(self) -> None:
        """Import a short conversation by command, twice: the second time nothing may be new."""
        first = len(self.imported) + 1
        marks = [Canary(self.api.tenant, IMPORTED, first + at) for at in range(_TURNS)]
        lines = [
            {
                "user_id": f"soak-{IMPORTED}",
                "thread": f"import-{first}",
                "role": role,
                "content": f"{mark} where is my parcel, the driver said noon? 包裹在哪里？",
                "external_id": f"{mark}-{role}",
            }
            for mark in marks
            for role in ("user", "assistant")
        ]
        file = self.instance.var / f"import-{self.slug}.jsonl"
        file.write_text("\n".join(json.dumps(line) for line in lines), encoding="utf-8")
        file.chmod(0o644)
        news = [self._import(file) for _ in range(2)]
        if news[0] is None:
            news = [self._import(file), 0]  # it met a fault: once more, what is there stays single
        self.imported += marks if news[0] is not None else []
        if None not in news and news[1] != 0:
            self.findings.wrong("import doubled", f"{self.slug}: {news}")

    def _import(self, file: object) -> int | None:
        arguments = ["--tenant", self.slug, "--agent", self.agent_id, "--learn", "--json"]
        done = self.instance.manage("import_conversations", *arguments, str(file))
        self.findings.count(f"import {'done' if done.returncode == 0 else 'met a fault'}")
        try:
            return int(json.loads(done.stdout)["turns_new"]) if done.returncode == 0 else None
        except (ValueError, KeyError):
            return None

    def decide_terms(self) -> None:
        """Approve or reject what corrections proposed."""
        path = "/v1/entity-candidates?status=pending&limit=5"
        for at, one in enumerate(self.api.send("GET", path).body.get("results", [])):
            act = "reject" if at == 4 else "approve"
            body = {"reason": "no"} if act == "reject" else {}
            self.api.send("POST", f"/v1/entity-candidates/{one['id']}/{act}", body)

    def export_one(self) -> None:
        """Export a person: nothing of anybody else may be in it."""
        if not self.offered["export"]:
            return
        person = self.persons[self.exported % len(self.persons)]
        self.exported += 1
        person.export()

    def keep_document(self) -> None:
        """A document of the whole tenant."""
        mark = Canary(self.api.tenant, SHARED, 1_000_000 + len(self.imported))
        body = {
            "title": f"Delivery {mark}",
            "content": f"{mark} parcels arrive by noon. 包裹中午到。",
        }
        self.api.send("POST", "/v1/knowledge/documents", body | {"kind": "manual"})
