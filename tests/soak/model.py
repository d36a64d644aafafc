"""The soak's model: answers with marks, checks every prompt that it gets, and fails now and then."""

from __future__ import annotations

import json
import random
import threading
from collections.abc import Mapping
from typing import Any

from tests.fakes.openai_replies import (
    Answer,
    Body,
    HangUp,
    Reply,
    Stream,
    calls,
    chunk,
    event,
    status,
    text,
)
from tests.fakes.openai_server import FakeOpenAI
from tests.soak.canaries import SHARED, Canary, found_in
from tests.soak.findings import Findings

SYSTEM_PROMPT = "SOAK-AGENT: you answer the questions of a delivery service's customers, briefly."
DELAY_SECONDS = 6.0
_FACT_TASKS = ("extract lasting facts", "提取长期事实")


class Model:
    """The scripted provider. `rate` of its calls fail; a model's name is `soak-<tenant>`."""

    def __init__(self, *, findings: Findings, rate: float, seed: int) -> None:
        self.server = FakeOpenAI()
        self.server.answer_with(self._answer)
        self.is_faulty = True
        self._findings = findings
        self._rate = rate
        self._random = random.Random(seed)
        self._lock = threading.Lock()

    def _answer(self, body: Mapping[str, Any]) -> Reply:
        self.server.requests.clear()  # each is looked at here; half an hour of them is too much
        prompt = json.dumps(body, ensure_ascii=False)
        kind = _kind(body)
        self._findings.count(f"model {kind}")
        tenant = str(body.get("model", "")).removeprefix("soak-")[:1]
        self._check(prompt, kind=kind, tenant=tenant)
        with self._lock:
            fails = self.is_faulty and self._random.random() < self._rate
            fault = self._random.choice(sorted(_FAULTS)) if fails else None
            dice = self._random.random()
        if fault is not None:
            self._findings.count(f"fault provider {fault}")
            return _FAULTS[fault]
        return _good(kind, body, dice)

    def _check(self, prompt: str, *, kind: str, tenant: str) -> None:
        found = found_in(prompt)
        people = {(one.tenant, one.person) for one in found if one.person != SHARED}
        if len(people) > 1 or {one.tenant for one in found} - {tenant}:
            self._findings.wrong("canary crossed", f"prompt ({kind}) of {tenant}: {sorted(people)}")
        if kind == "run" and not found:
            self._findings.count("model run without a mark")


def _kind(body: Mapping[str, Any]) -> str:
    system = str(body["messages"][0].get("content"))
    if "SOAK-AGENT" in system:
        return "run"
    return "facts" if any(task in system for task in _FACT_TASKS) else "summary"


def _good(kind: str, body: Mapping[str, Any], dice: float) -> Reply:
    marks = sorted(found_in(str(body["messages"])), key=_number)
    own = [mark for mark in marks if mark.person != SHARED]
    newest = str(own[-1]) if own else "nothing"
    if kind == "facts":
        fact = {"fact": f"Wants parcels at the back door {newest}", "confidence": 0.8}
        return text(
            json.dumps([fact | {"subject": f"door {newest[-3:]}"}]) if dice < 0.3 else "NONE"
        )
    if kind == "summary":
        return text(f"The person asked about {' '.join(map(str, own[-4:]))}.")
    is_fresh = body["messages"][-1].get("role") == "user"
    if dice < 0.05 and body.get("tools") and is_fresh:
        return calls(("memory_grep", json.dumps({"query": "CNRY*"})))
    return text(f"Noted {newest}: the parcel arrives as agreed. 已记录。")


def _number(mark: Canary) -> int:
    return mark.number


_HALF = event(chunk({"role": "assistant", "content": ""})) + event(chunk({"content": "Half an "}))
_FAULTS: dict[str, Reply] = {
    "500": status(500),
    "503": status(503, retry_after="1"),
    "garbage": Body(content=b"<html>not what you asked for</html>"),
    "broken JSON": Stream(parts=[b'data: {"choices": [{"del\n\n']),
    "partial stream": Stream(parts=[_HALF], breaks=True),
    "hang up": HangUp(),
    "delay": Answer(deltas=["Late."], first_delay_seconds=DELAY_SECONDS),
}
